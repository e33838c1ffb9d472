"""The dev stack with a real host: the real startup script, vLLM on the CPU, a real small model.

The run of a slice lasts four hours of the embedded cloud's clock, and is to be renewed in the last
three of them: the clock, which is moved, decides when that is. Everything else takes real time.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import quote

import psutil
import yaml

from embedded_cloud.machines.hosts.processes import HOST_DIRECTORY_VARIABLE, read_record
from reliability import processes
from reliability.projects import write_manifest
from reliability.rig import ROOT, Json, StackRig
from tpuflex.catalog.weight_formats import MANIFEST_NAME
from tpuflex.cli.invocation import Invocation
from tpuflex.engine.find import ensure
from tpuflex.google.timing import ORIGIN_VARIABLE, SPEED_VARIABLE
from tpuflex.host.serving import Serving, ServingPhase
from tpuflex.operate.endpoint_connection import api_key, serving_slice
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.stack.connection import Connection

T = TypeVar("T")

SLICE: Json = {"max_run_duration": "4h", "renew_before": "3h", "drain_margin": "5m"}
#: Otherwise all servers bind themselves to the same core, and one that computes starves the next.
ENVIRONMENT = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
#: Of a run: more than the hour after which it can be renewed.
RENEWABLE_AFTER_S = 3_700.0
#: Real seconds for a command that waits for boots, of two servers at once on a busy machine.
BOOT_S = 540.0
#: Large, slow to make, and the same for everybody.
_SHARED = ("engine", "vllm", "models")
_CONTAINER = "vllm"
_CORE = "VLLM::EngineCor"
_LOOK_S = 0.25


class StatusReader:
    """Reads as the commands do, from any thread."""

    def __init__(self, rig: RenewalRig) -> None:
        self._rig = rig
        self._one_at_a_time = threading.Lock()

    @cached_property
    def _invocation(self) -> Invocation:
        return Invocation(environ=self._rig.environ(), directory=self._rig.home)

    @cached_property
    def cloud(self) -> Connection:
        """The stack's cloud."""
        return self._invocation.connect(self._invocation.open_stack(deploying=False), start=False)

    @cached_property
    def key(self) -> str:
        """The endpoint's key."""
        return api_key(self.cloud)

    @cached_property
    def model(self) -> str:
        """Name of the model that is served."""
        return self.cloud.stack.settings.model.name

    def status(self) -> SliceStatus:
        """What `tpuflex --json status` reads."""
        with self._one_at_a_time:
            stack = self.cloud.stack
            return slice_status(
                stack.settings,
                stack.names,
                self.cloud.tpu,
                now=self._invocation.now(),
                recorded=self.cloud.recorded_zones,
            )

    def endpoint(self) -> str:
        """The `endpoint` that it names, if it says `ready`; empty otherwise."""
        status = self.status()
        return self.cloud.stack.settings.url(status.address) if status.ready else ""

    def asked(self) -> str:
        """The endpoint that `tpuflex ask` asks."""
        with self._one_at_a_time:
            return self.cloud.stack.settings.url(serving_slice(self.cloud).address)


class RenewalRig(StackRig):
    """The dev stack, whose host serves; commands are processes, as a user types them.

    Attributes:
        sound: whether the stack is up and serves, so that the next case may go on with it.
        slice_, flags: further keys of these sections of the stack file.
        reader: what `tpuflex status` reads.
    """

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.sound = False
        self.slice_: Json = {}
        self.flags: Json = {}
        self._pool = ThreadPoolExecutor(max_workers=1)
        self.reader = StatusReader(self)

    def __enter__(self) -> Self:
        self._write_project()
        ensure(ROOT / ".tpuflex", os.environ, lambda _: None)
        self.start(stub_hosts=False)
        self._clear_backend()
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()
        super().__exit__(*error)
        left = running_on(self.emulator)
        assert not left, f"left running: {left}"

    def environ(self) -> dict[str, str]:
        """As of a shell, with the embedded cloud's clock: the provider asks for it by variable."""
        pace = {SPEED_VARIABLE: "1.0", ORIGIN_VARIABLE: f"{time.time()}:{self.now()}"}
        return {**super().environ(), **pace}

    def serve(self) -> None:
        """Have the stack up, with a server that answers; as it is, if the last case left it so."""
        if self.sound:
            return
        self.reset()
        self.slice_, self.flags = {}, {}
        self.write_stack()
        assert self.run("up", timeout_s=BOOT_S).exit_code == 0, self.said[-1].stderr
        self.reader = StatusReader(self)
        self.sound = True

    def write_stack(self) -> None:
        """Write the stack file."""
        document = yaml.safe_load((ROOT / "stacks" / "Pulumi.dev.yaml").read_text())
        document["config"]["tpuflex:slice"] |= SLICE | self.slice_
        serving = document["config"]["tpuflex:serving"]
        serving["flags"] |= self.flags
        serving["env"] |= ENVIRONMENT
        self.stack_file.write_text(yaml.safe_dump(document))

    def another(self) -> None:
        """Have the next `up` make another slice, whatever it has made before."""
        self.slice_["rerun"] = f"word-{uuid.uuid4().hex[:8]}"
        self.write_stack()

    def make_due(self) -> None:
        """Move the clock to where the next `up` renews the run."""
        self.control.advance(RENEWABLE_AFTER_S)

    def begin(self, *words: str) -> Future[int | None]:
        """Begin a command; its exit code. What it said is the last of ``said`` then."""
        return self._pool.submit(lambda: self.run(*words, timeout_s=BOOT_S).exit_code)

    def beside(self, *words: str) -> processes.Ended:
        """Run a command while another one runs."""
        environ = {**self.environ(), processes.MARK: self.mark}
        return processes.run(
            self.command(words),
            cwd=self.home,
            environ=environ,
            started=lambda _: None,
            timeout_s=120,
        )

    def until(self, seen: Callable[[], T], what: str, within_s: float = BOOT_S) -> T:
        """What ``seen`` gives once that is something; it is looked at a few times a second."""
        deadline = time.monotonic() + within_s
        while not (found := seen()):
            assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
            time.sleep(_LOOK_S)
        return found

    def output(self) -> str:
        """The stack's output `endpoint`, as the state has it; empty for none."""
        try:
            exported = self.export() or {}
        except ValueError:  # the engine is writing it
            return ""
        resources = (exported.get("deployment") or {}).get("resources", [])
        stacks = [each for each in resources if each["type"] == "pulumi:pulumi:Stack"]
        return str(stacks[0].get("outputs", {}).get("endpoint") or "") if stacks else ""

    def slices(self) -> list[str]:
        """Names of all requests and nodes that the cloud has."""
        found = self.control.inventory().get("tpu", {})
        return [str(each["name"]) for kind in sorted(found) for each in found[kind]]

    def lose_weights(self) -> int:
        """Delete the stack's weights from the bucket, all but their manifest; how many files."""
        bucket = self.reader.cloud.bucket
        objects = f"storage/v1/b/{bucket}/o"
        listed = self.make("GET", objects).get("items", [])
        names = [str(each["name"]) for each in listed]
        lost = [n for n in names if n.startswith("models/") and not n.endswith(MANIFEST_NAME)]
        for name in lost:
            self.call("DELETE", f"{objects}/{quote(name, safe='')}")
        return len(lost)

    def hosts(self) -> dict[str, Path]:
        """The directories of the running hosts, by address."""
        found = self.control.call("GET", "hosts")["hosts"]
        return {str(each["address"]): Path(each["root"]).parent for each in found}

    def serving(self) -> Serving | None:
        """What the host says of serving that the status names."""
        host = self.reader.status().host
        return None if host is None else host.serving

    def phase(self) -> ServingPhase | None:
        """Where it stands."""
        serving = self.serving()
        return None if serving is None else serving.phase

    def drained(self) -> bool:
        """Whether it has ended what it had begun, and takes nothing new."""
        serving = self.serving()
        return serving is not None and serving.drained

    def booting(self, endpoint: str) -> bool:
        """Whether the server of another host than that behind ``endpoint`` is started."""
        host = self.other_host(endpoint)
        return host is not None and self.has_server(host)

    def other_host(self, endpoint: str) -> Path | None:
        """The directory of the host that is not the one behind ``endpoint``; None if there is
        none."""
        hosts = self.hosts()
        return next((hosts[a] for a in hosts if f"//{a}:" not in endpoint), None)

    def has_server(self, host: Path) -> bool:
        """Whether a process of the host's server runs."""
        return bool(_server(host))

    def kill_server(self, host: Path) -> bool:
        """kill -9 all of the host's server, but not what starts it again; whether there was one."""
        family = _server(host)
        for process in family:
            _signal(process, signal.SIGKILL)
        return bool(family)

    def freeze_engine(self, host: Path) -> int:
        """SIGSTOP the host's engine core, which computes; how many processes that were."""
        cores = [each for each in _server(host) if _title(each).startswith(_CORE)]
        for process in cores:
            _signal(process, signal.SIGSTOP)
        return len(cores)

    def _write_project(self) -> None:
        write_manifest(self.home, ROOT)
        (self.home / "stacks").mkdir()
        self.write_stack()
        state = self.home / ".tpuflex"
        state.mkdir(mode=0o700)
        for name in _SHARED:
            shared = ROOT / ".tpuflex" / name
            shared.mkdir(mode=0o700, parents=True, exist_ok=True)
            (state / name).symlink_to(shared)


def running_on(directory: Path) -> list[psutil.Process]:
    """The live processes that work below ``directory``: of an embedded cloud's, itself and its
    hosts. A host's have an environment of their own, so that no mark of a rig finds them."""
    return [each for each in psutil.process_iter() if _works_in(each, str(directory))]


def _works_in(process: psutil.Process, directory: str) -> bool:
    with suppress(psutil.Error, OSError):
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        # An engine core has no words of its own, but works in its container's directory.
        places = (process.environ().get(HOST_DIRECTORY_VARIABLE, ""), process.cwd())
        return any(directory in place for place in (*places, *process.cmdline()))
    return False


def _server(host: Path) -> list[psutil.Process]:
    """The processes of the host's server, below what supervises its container."""
    record = read_record(host / "containers" / f"{_CONTAINER}.json")
    try:
        return psutil.Process(record[0]).children(recursive=True) if record else []
    except psutil.Error:
        return []


def _title(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return
