"""Emulated hosts: a startup script that really runs, and really ends with its node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.machines.hosts.processes import processes_of
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import AT_ONCE, TOKEN, Api, eventually, flex_start

#: Prints what it sees, reports through the metadata server, and leaves one process behind for
#: each way to escape: another session, an emptied environment, an orphan.
_SCRIPT = r"""#!/bin/bash
env > "$TPUFLEX_ROOT/home/environment"
metadata="http://$GCE_METADATA_HOST/computeMetadata/v1/instance"
curl -sf -H 'Metadata-Flavor: Google' "$metadata/attributes/x" > "$TPUFLEX_ROOT/home/x"
sleep 3601 &
setsid sleep 3602 &
(env -i setsid sleep 3603 &)
echo "booted as $(curl -sf -H 'Metadata-Flavor: Google' "$metadata/network-interfaces/0/ip")"
curl -sf -X PUT -H 'Metadata-Flavor: Google' --data READY \
  "$metadata/guest-attributes/tpuflex/phase"
wait
"""


@pytest.fixture
def cloud(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedCloud]:
    """An embedded cloud that launches hosts."""
    state = tmp_path / "emulator"
    with EmbeddedCloud(
        state, token=TOKEN, clock=clock, capacity=AT_ONCE, launch_hosts=True
    ) as running:
        yield running


def _boot(api: Api, script: str = _SCRIPT) -> None:
    metadata = {"startup-script": script, "enable-guest-attributes": "TRUE", "x": "a 'quoted' $x"}
    assert api.create(body=flex_start(metadata=metadata)).status_code == 200


def _phase(api: Api) -> str:
    answer = api.tpu("POST", "nodes/n1:getGuestAttributes", body={"queryPath": "tpuflex/phase"})
    if answer.status_code == 404:
        return ""
    items = answer.json()["guestAttributes"][0]["queryValue"]["items"]
    return items[0]["value"] if items else ""


def _host(cloud: EmbeddedCloud) -> dict[str, Any]:
    (host,) = cloud.cloud.hosts.describe()
    return dict(host)


def test_a_ready_node_runs_its_startup_script(api: Api, cloud: EmbeddedCloud) -> None:
    """The script sees only its host: root, metadata, its own address, nothing of the caller."""
    _boot(api)
    eventually(lambda: _phase(api) == "READY")
    host = _host(cloud)
    root = Path(host["root"])
    assert (root / "home" / "x").read_text() == "a 'quoted' $x"
    variables = dict(
        line.split("=", 1) for line in (root / "home" / "environment").read_text().splitlines()
    )
    assert variables.keys() - {"PWD", "SHLVL", "_"} == {
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "TPUFLEX_ROOT",
        "TPUFLEX_HOST_DIR",
        "TPUFLEX_HOME",
        "GCE_METADATA_HOST",
        "STORAGE_EMULATOR_HOST",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING",
        "TPUFLEX_REPORTS",
    }
    assert variables["TPUFLEX_ROOT"] == str(root)
    address = api.get("nodes/n1")["networkEndpoints"][0]["ipAddress"]
    assert f"booted as {address}" in Path(host["serial_log"]).read_text()
    for directory in ("run", "dev/shm", "var/log", "tmp", "home"):
        assert (root / directory).is_dir()


@pytest.mark.parametrize("ending", ["delete", "run over", "node deleted", "node stopped"])
def test_nothing_of_a_host_outlives_its_node(
    api: Api, cloud: EmbeddedCloud, clock: ManualClock, ending: str
) -> None:
    """Every process is killed and the disk is gone, whatever ends the node; the log stays."""
    _boot(api)
    eventually(lambda: _phase(api) == "READY")
    host = _host(cloud)
    directory = Path(host["root"]).parent
    running = processes_of(directory)
    commands = [" ".join(process.cmdline()) for process in running]
    assert {"sleep 3601", "sleep 3602", "sleep 3603"} <= set(commands)
    if ending == "delete":
        api.tpu("DELETE", "queuedResources/q1", force="true")
    elif ending == "node deleted":
        api.tpu("DELETE", "nodes/n1")
    elif ending == "node stopped":
        api.tpu("POST", "nodes/n1:stop", body={})
    else:
        clock.advance(7200)
    cloud.advance(5)
    assert psutil.wait_procs(running, timeout=60)[1] == []
    assert cloud.cloud.hosts.describe() == []
    assert not (directory / "root").exists()
    assert (directory / "serial.log").exists()


_WAITING = """#!/bin/bash
metadata="http://$GCE_METADATA_HOST/computeMetadata/v1/instance"
flavor='Metadata-Flavor: Google'
etag=$(curl -sf -H "$flavor" --output /dev/null --dump-header - "$metadata/attributes/x" |
    sed -n 's/^ETag: \\([0-9a-f]*\\).*/\\1/p')
curl -sf -X PUT -H "$flavor" --data WAITS "$metadata/guest-attributes/tpuflex/phase"
value=$(curl -sf -H "$flavor" \
    "$metadata/attributes/x?wait_for_change=true&last_etag=$etag&timeout_sec=60")
curl -sf -X PUT -H "$flavor" --data "$value" "$metadata/guest-attributes/tpuflex/phase"
"""


def test_a_host_learns_of_patched_metadata_while_it_runs(api: Api, cloud: EmbeddedCloud) -> None:
    """`nodes.patch` reaches whoever waits at the host's metadata server; nothing boots anew."""
    _boot(api, _WAITING)
    eventually(lambda: _phase(api) == "WAITS")
    host = _host(cloud)
    metadata = {**api.get("nodes/n1")["metadata"], "x": "patched"}
    answer = api.tpu("PATCH", "nodes/n1", body={"metadata": metadata}, updateMask="metadata")
    assert answer.status_code == 200
    eventually(lambda: _phase(api) == "patched")
    assert _host(cloud)["pid"] == host["pid"]


def test_a_host_that_is_powered_off_boots_again(tmp_path: Path) -> None:
    """Emulator stop and start is a reboot: the script runs again, tmpfs is empty, disk stays."""
    script = 'echo boot >> "$TPUFLEX_ROOT/home/boots"; touch "$TPUFLEX_ROOT/dev/shm/$$"; sleep 3600'
    state = tmp_path / "emulator"
    for boots in (1, 2):
        with EmbeddedCloud(state, token=TOKEN, capacity=AT_ONCE, launch_hosts=True) as cloud:
            if boots == 1:
                _boot(Api(cloud.url), script)
            root = state / "hosts" / "n1" / "root"
            eventually(partial(_booted, root, boots))
            running = processes_of(state / "hosts" / "n1")
        assert psutil.wait_procs(running, timeout=60)[1] == []


def test_a_reset_boots_the_machine_again(api: Api, cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """The script runs again on the disk that there is; request and node stay what they are."""
    _boot(
        api, 'echo boot >> "$TPUFLEX_ROOT/home/boots"; touch "$TPUFLEX_ROOT/dev/shm/$$"; sleep 99'
    )
    root = tmp_path / "emulator" / "hosts" / "n1" / "root"
    eventually(partial(_booted, root, 1))
    running = processes_of(root.parent)
    cloud.advance(1)
    assert api.tpu("POST", "queuedResources/q1:reset", body={}).json()["done"]
    assert (api.state(), api.node_state()) == ("ACTIVE", "READY")
    eventually(partial(_booted, root, 2))
    assert psutil.wait_procs(running, timeout=60)[1] == []


def test_the_exit_code_of_the_startup_script_is_known(api: Api, cloud: EmbeddedCloud) -> None:
    """A script that fails leaves the host up and its exit code available."""
    _boot(api, "exit 7")
    eventually(lambda: bool(cloud.cloud.hosts.describe()))
    eventually(lambda: _host(cloud)["startup_script_exit_code"] == 7)
    assert api.node_state() == "READY"


def test_nodes_of_the_same_name_in_two_zones_are_two_hosts(api: Api, cloud: EmbeddedCloud) -> None:
    """The second gets a directory of its own."""
    _boot(api, "sleep 3600")
    body = flex_start(metadata={"startup-script": "sleep 3600"})
    body["tpu"]["nodeSpec"][0]["parent"] = f"projects/{api.project}/locations/us-east5-b"
    Api(cloud.url, zone="us-east5-b").create(body=body)
    eventually(lambda: len(cloud.cloud.hosts.describe()) == 2)
    keys = {str(host["key"]) for host in cloud.cloud.hosts.describe()}
    assert keys == {"n1", "n1.us-east5-b"}


def test_the_docker_of_a_host_is_the_emulators(api: Api, cloud: EmbeddedCloud) -> None:
    """``docker`` on the script's PATH is the stand-in, never the machine's own."""
    _boot(api, 'command -v docker > "$TPUFLEX_ROOT/home/docker"; sleep 3600')
    directory = cloud.state_dir.resolve() / "hosts" / "n1"
    found = directory / "root" / "home" / "docker"
    eventually(lambda: _text(found) == f"{directory}/bin/docker\n")


def test_reset_ends_the_hosts_and_removes_their_logs(api: Api, cloud: EmbeddedCloud) -> None:
    """After a reset no process and no directory is left."""
    _boot(api)
    eventually(lambda: _phase(api) == "READY")
    running = processes_of(Path(_host(cloud)["root"]).parent)
    assert api.call("POST", "/_emulator/reset").status_code == 200
    assert psutil.wait_procs(running, timeout=60)[1] == []
    assert not (cloud.state_dir / "hosts").exists()


def test_a_record_of_another_process_ends_nothing(tmp_path: Path) -> None:
    """A stale ``host.json`` or container record whose number was reused is ignored."""
    (tmp_path / "containers").mkdir()
    stale = {"pid": psutil.Process().pid, "create_time": 1.0}
    (tmp_path / "host.json").write_text(json.dumps(stale))
    (tmp_path / "containers" / "vllm.json").write_text(json.dumps(stale))
    (tmp_path / "containers" / "broken.json").write_text("{")
    assert processes_of(tmp_path) == []


def _booted(root: Path, times: int) -> bool:
    """Whether the script has run that often in all, and once since tmpfs was last emptied."""
    shm = root / "dev" / "shm"
    return (
        _text(root / "home" / "boots") == "boot\n" * times
        and shm.is_dir()
        and len(list(shm.iterdir())) == 1
    )


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
