"""Start, stop, ask and reset the emulator of a state directory from another process.

The process itself is :mod:`embedded_cloud.process`. There is one per state directory, recorded in
``address.json``. A process that was killed leaves its record behind: the recorded start time tells
that it is gone, and what it left running is ended at the next start.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from embedded_cloud.core import control_client
from embedded_cloud.core.address import ADDRESS_FILE, Address, read_address
from embedded_cloud.core.environment import DEFAULT_PORT
from embedded_cloud.core.json_types import JsonObject
from pulumi_plugin.peer import listens
from tpuflex.errors import EmulatorError
from tpuflex.files.trusted import child_environment, own_directory

#: What this version serves, as the health answer names it.
SERVICES = frozenset(
    {
        "tpu.v2alpha1",
        "tpu.v2",
        "tpu.v1",
        "storage.v1",
        "secretmanager.v1",
        "iam.v1",
        "iamcredentials.v1",
        "cloudresourcemanager.v1",
        "serviceusage.v1",
        "serviceusage.v1beta1",
        "cloudbilling.v1",
        "orgpolicy.v2",
        "dns.v1",
        "cloudkms.v1",
        "logging.v2",
        "monitoring.v3",
        "monitoring.v1",
        "artifactregistry.v1",
        "compute.v1",
        "oslogin.v1",
        "oslogin.v1beta",
        "oslogin.v1alpha",
    }
)


def outdated(health: JsonObject) -> str:
    """Why what gave the answer ``health`` is not of this version; empty if it is."""
    own, there = importlib.metadata.version("tpuflex"), health.get("version")
    if there != own:
        return f"is of tpuflex {there}, and this is {own}"
    served = health.get("services")
    lacking = SERVICES.difference(map(str, served if isinstance(served, list) else ()))
    if lacking:
        return f"is of another version of tpuflex: it does not serve {', '.join(sorted(lacking))}"
    return ""


LOG_FILE = "emulator.log"

_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 20.0
_HEALTH_TIMEOUT_S = 2.0

#: What the extra `embedded` of pyproject.toml installs: names on PyPI by module.
_EXTRA = {"aiohttp": "aiohttp", "googleapiclient": "google-api-python-client"}

#: What :func:`reset` removes when no emulator runs; gcloud's own files stay.
_STATE = ("store.sqlite", "store.sqlite-wal", "store.sqlite-shm", "history.jsonl", LOG_FILE)
_STATE_DIRECTORIES = ("objects", "hosts")


def start(
    state_dir: Path,
    *,
    port: int = DEFAULT_PORT,
    capacity: JsonObject | None = None,
    stub_hosts: bool = False,
    timeout_s: float = _START_TIMEOUT_S,
) -> Address:
    """Start the emulator of ``state_dir``, or give the one that runs already.

    Args:
        state_dir: its state directory; created if missing, continued if not.
        port: port to listen on; 0 takes a free one.
        capacity: capacity rules to put in force, as ``POST /_emulator/capacity`` takes them.
        stub_hosts: for tests, when it is not running yet: hosts run nothing and are READY at
            once.
        timeout_s: how long it may take.

    Raises:
        EmulatorError: the port is taken (says by whom), packages are missing, or it does not come
            up.
    """
    running = status(state_dir)
    if running is not None:
        if port not in (0, running.port):
            raise EmulatorError(
                f"the embedded cloud already runs at {running.url} (process {running.pid})",
                hint="Stop it first: tpuflex emulator stop",
            )
        if capacity is not None:
            _call(state_dir, running.port, "POST", "capacity", capacity)
        return running
    if missing := missing_packages():
        raise EmulatorError(
            f"the embedded cloud needs {' and '.join(missing)}, and tpuflex was installed without",
            hint="Install it with them: pip install 'tpuflex[embedded]'",
        )
    own_directory(state_dir)
    command = [sys.executable, "-P", "-m", "embedded_cloud.process"]
    command += ["--state-dir", str(state_dir.resolve()), "--port", str(port)]
    if capacity is not None:
        command += ["--capacity", json.dumps(capacity)]
    if stub_hosts:
        command.append("--stub-hosts")
    log_file = os.open(state_dir / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(log_file, "ab") as log:
        process = subprocess.Popen(
            command,
            cwd=state_dir,
            env=child_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        _await_first_line(process, state_dir, timeout_s)
    except EmulatorError:
        # Another caller may have started it meanwhile.
        running = status(state_dir)
        if running is None or port not in (0, running.port):
            raise
        return running
    started = status(state_dir)
    if started is None:
        raise _did_not_come_up(state_dir)
    return started


def missing_packages() -> tuple[str, ...]:
    """Names on PyPI of what the embedded cloud needs and this installation does not have."""
    return tuple(name for module, name in _EXTRA.items() if find_spec(module) is None)


def stop(state_dir: Path) -> bool:
    """Stop the emulator of ``state_dir`` and everything on its hosts; false if none runs.

    Raises:
        EmulatorError: it does not end.
    """
    from embedded_cloud.machines.hosts.processes import same_process

    address = read_address(state_dir)
    process = None if address is None else same_process(address.pid, address.create_time)
    if address is None or process is None:
        (state_dir / ADDRESS_FILE).unlink(missing_ok=True)
        return False
    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while same_process(address.pid, address.create_time) is not None:
        if time.monotonic() > deadline:
            raise EmulatorError(
                f"the embedded cloud (process {address.pid}) does not end",
                hint=f"Its log is {state_dir / LOG_FILE}.",
            )
        time.sleep(0.02)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(address.pid, os.WNOHANG)
    return True


def status(state_dir: Path) -> Address | None:
    """The running emulator of ``state_dir``, or ``None``. A dead process's record is ignored.

    Raises:
        EmulatorError: its process lives but does not answer.
    """
    from embedded_cloud.machines.hosts.processes import same_process

    address = read_address(state_dir)
    if address is None or same_process(address.pid, address.create_time) is None:
        return None
    try:
        health = _call(state_dir, address.port, "GET", "health")
    except ConnectionError:
        return None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise EmulatorError(
            f"the embedded cloud at {address.url} (process {address.pid}) does not answer: {error}",
            hint=f"Its log is {state_dir / LOG_FILE}. Stop it: tpuflex emulator stop",
        ) from error
    return address if health.get("pid") == address.pid else None


def wait_for_plugin(state_dir: Path, *, timeout_s: float = 15.0) -> Address:
    """The running emulator once its gcp plugin listens.

    Raises:
        EmulatorError: none runs, or the plugin does not come up in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        address = status(state_dir)
        if address is None:
            raise EmulatorError(
                "the embedded cloud does not run", hint="Start it: tpuflex emulator start"
            )
        port = address.gcp_plugin_port
        # The engine would tell everything to any process that listens there.
        if port is not None and listens(port, within=_HEALTH_TIMEOUT_S):
            return address
        if time.monotonic() > deadline:
            raise EmulatorError(
                "the embedded cloud's stand-in for the gcp provider did not come up",
                hint=f"Its log is {state_dir / LOG_FILE}.",
            )
        time.sleep(0.02)


def reset(state_dir: Path) -> None:
    """Forget everything the embedded cloud of ``state_dir`` knows, running or not."""
    address = status(state_dir)
    if address is not None:
        _call(state_dir, address.port, "POST", "reset", {})
        return
    from embedded_cloud.machines.hosts.host import power_off

    for record in (state_dir.resolve() / "hosts").glob("*/host.json"):
        power_off(record.parent, erase=True)
    for name in _STATE:
        (state_dir / name).unlink(missing_ok=True)
    for name in _STATE_DIRECTORIES:
        shutil.rmtree(state_dir / name, ignore_errors=True)


def _await_first_line(process: subprocess.Popen[bytes], state_dir: Path, timeout_s: float) -> None:
    """Wait for the new process's first line: that it serves, or why it cannot."""
    import selectors

    stdout = process.stdout
    if stdout is None:
        raise _did_not_come_up(state_dir)
    with stdout, selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        if not selector.select(timeout_s):
            process.kill()
            process.wait()
            raise _did_not_come_up(state_dir)
        line = stdout.readline()
    try:
        message = json.loads(line)
    except ValueError:
        process.wait()
        raise _did_not_come_up(state_dir) from None
    if "error" in message:
        process.wait()
        raise EmulatorError(message["error"], hint=message["hint"])
    # It outlives this process on purpose: nothing waits for it.
    process.returncode = 0


def _did_not_come_up(state_dir: Path) -> EmulatorError:
    log = state_dir / LOG_FILE
    return EmulatorError("the embedded cloud did not come up", hint=f"Its log is {log}.")


def _call(
    state_dir: Path, port: int, method: str, action: str, body: JsonObject | None = None
) -> JsonObject:
    return control_client.call(state_dir, port, method, action, body, timeout_s=_HEALTH_TIMEOUT_S)
