"""Instances that run: a startup script that copies, reports, deletes itself, and is ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedded_cloud.clock import ManualClock
from embedded_cloud.hosts.processes import processes_of
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, Api
from tests.embedded_cloud.compute_api import (
    GLOBAL,
    INSTANCES,
    NETWORK,
    REGION,
    SUBNETWORK,
    insert,
    instance,
)
from tests.embedded_cloud.test_iam_enforced import custom_role

_EMAIL = f"copier@{PROJECT}.iam.gserviceaccount.com"
_MEMBER = f"serviceAccount:{_EMAIL}"
_PREFIX = "resource.name.startsWith('projects/_/buckets/weights/objects/models/')"
_VM = f"{INSTANCES}/vm-1"

#: What a copier does: a model of the Hub into the bucket, a report, and the end of the machine.
_COPIER = r"""#!/bin/bash
set -eu
metadata="http://$GCE_METADATA_HOST/computeMetadata/v1"
ask() { curl -sf -H 'Metadata-Flavor: Google' "$metadata/$1"; }
report() {
    curl -sf -X PUT -H 'Metadata-Flavor: Google' --data "$1" \
        "$metadata/instance/guest-attributes/tpuflex/report"
}
report started
zone=$(ask instance/zone)
printf '%s\n' "$(ask instance/name)" "$(ask instance/hostname)" "${zone##*/}" \
    "$(ask instance/service-accounts/default/email)" "$(ask instance/attributes/model)" \
    "$(ask instance/network-interfaces/0/ip)" >"$HOME/seen"
cat >"$HOME/copy.py" <<'END'
import json, os, sys, urllib.parse, urllib.request

def fetch(url, **headers):
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers)).read()

metadata = f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1/instance"
found = fetch(f"{metadata}/service-accounts/default/token", **{"Metadata-Flavor": "Google"})
token = {"Authorization": "Bearer " + json.loads(found)["access_token"]}
model = os.environ["HF_ENDPOINT"] + "/o/m/resolve/main/config.json"
upload = f"{os.environ['STORAGE_EMULATOR_HOST']}/upload/storage/v1/b/weights/o?uploadType=media"

def push(name):
    request = urllib.request.Request(
        f"{upload}&name={urllib.parse.quote(name, safe='')}", data=fetch(model), headers=token
    )
    return urllib.request.urlopen(request).status

print(push("models/config.json"))
try:
    push("elsewhere/config.json")
except urllib.error.HTTPError as error:
    print(error.code)
print("site" in sys.modules)
END
python3 "$HOME/copy.py" >"$HOME/copied"
report "$(cat "$HOME/copied")"
until [[ $(ask instance/attributes/stay) != yes || -e $HOME/go ]]; do sleep 0.05; done
token=$(ask instance/service-accounts/default/token | cut -d '"' -f 4)
curl -sf -X DELETE -H "Authorization: Bearer $token" \
    "${CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE}projects/my-project/zones/us-east5-a/instances/vm-1"
sleep 3600
"""


def _eventually(what: Callable[[], bool]) -> None:
    """Wait for real processes to do something; fails after a minute."""
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def cloud(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedCloud]:
    """An embedded cloud that launches hosts, with a model in its Hub."""
    state = tmp_path / "emulator"
    model = state / "hub" / "o" / "m"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"a": 1}')
    with EmbeddedCloud(state, token=TOKEN, clock=clock, launch_hosts=True) as running:
        _prepare(Api(running.url))
        yield running


def _prepare(api: Api) -> None:
    insert(api, f"{GLOBAL}/networks", NETWORK)
    insert(api, f"{REGION}/subnetworks", SUBNETWORK)
    accounts = f"v1/projects/{PROJECT}/serviceAccounts"
    assert api.call("POST", accounts, body={"accountId": "copier"}).ok
    assert api.call("POST", "storage/v1/b", body={"name": "weights"}, project=PROJECT).ok


def _grant(api: Api) -> None:
    """The copier may write below a prefix of the bucket, and delete its own machine."""
    condition = {"title": "models", "expression": _PREFIX}
    writer = {"role": "roles/storage.objectCreator", "members": [_MEMBER], "condition": condition}
    policy = {"version": 3, "bindings": [writer]}
    assert api.call("PUT", "storage/v1/b/weights/iam", body=policy).ok
    own = f"resource.name == 'projects/{PROJECT}/zones/us-east5-a/instances/vm-1'"
    role = custom_role(api, "compute.instances.delete")
    condition = {"title": "own", "expression": own}
    binding = {"role": role, "members": [_MEMBER], "condition": condition}
    bound = {"policy": {"version": 3, "bindings": [binding]}}
    assert api.call("POST", f"v1/projects/{PROJECT}:setIamPolicy", body=bound).ok


def _launch(api: Api, script: str = _COPIER, **more: Any) -> None:
    metadata = {"startup-script": script, "enable-guest-attributes": "TRUE", "model": "o/m"}
    metadata |= more.pop("attributes", {})
    body = instance(
        metadata={"items": [{"key": key, "value": value} for key, value in metadata.items()]},
        serviceAccounts=[
            {"email": _EMAIL, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}
        ],
        **more,
    )
    assert "error" not in insert(api, INSTANCES, body)


def _report(api: Api) -> str:
    answer = api.call("GET", f"{_VM}/getGuestAttributes", queryPath="tpuflex/")
    return str(answer.json()["queryValue"]["items"][0]["value"]) if answer.ok else ""


def _host(cloud: EmbeddedCloud) -> dict[str, Any]:
    (host,) = cloud.cloud.hosts.describe()
    return dict(host)


def test_a_copier_copies_reports_and_deletes_itself(cloud: EmbeddedCloud) -> None:
    """With its own token it writes where its binding says, reads the Hub, and ends its machine;
    of the machine no process and no file is left, its serial log stays."""
    api = Api(cloud.url)
    _grant(api)
    _launch(api, attributes={"stay": "yes"})
    _eventually(lambda: _report(api) == "200\n403\nFalse")
    host = _host(cloud)
    directory = Path(host["root"]).parent
    seen = (directory / "root/home/seen").read_text().splitlines()
    assert seen == [
        "vm-1",
        f"vm-1.us-east5-a.c.{PROJECT}.internal",
        "us-east5-a",
        _EMAIL,
        "o/m",
        "10.0.0.2",
    ]
    assert (host["owner"], host["node"]) == (
        f"projects/{PROJECT}/zones/us-east5-a/instances/vm-1",
        "",
    )
    stored = api.call("GET", "storage/v1/b/weights/o/models%2Fconfig.json", alt="media")
    assert json.loads(stored.text) == {"a": 1}
    running = processes_of(directory)
    assert running
    (directory / "root/home/go").touch()
    _eventually(lambda: api.call("GET", _VM).status_code == 404)
    _eventually(lambda: not cloud.cloud.hosts.describe())
    assert psutil.wait_procs(running, timeout=60)[1] == []
    _eventually(lambda: not (directory / "root").exists())
    assert (directory / "serial.log").exists()
    assert api.call("DELETE", f"{REGION}/subnetworks/sub-1").ok


def test_without_a_binding_it_can_neither_write_nor_delete(cloud: EmbeddedCloud) -> None:
    """Where IAM is not enforced, too: a machine changes only what its account was granted."""
    api = Api(cloud.url)
    script = r"""#!/bin/bash
token=$(curl -sf -H 'Metadata-Flavor: Google' \
    "http://$GCE_METADATA_HOST/computeMetadata/v1/instance/service-accounts/default/token" |
    cut -d '"' -f 4)
ask() { curl -s -o /dev/null -w '%{http_code}\n' -H "Authorization: Bearer $token" "$@"; }
vm="${CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE}projects/my-project/zones/us-east5-a/instances/vm-1"
ask -X DELETE "$vm"
ask "$vm"
ask --data x "$STORAGE_EMULATOR_HOST/upload/storage/v1/b/weights/o?uploadType=media&name=models/x"
ask -X DELETE "$STORAGE_EMULATOR_HOST/storage/v1/b/weights/o/x"
ask "${CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE}projects/my-project/global/networks"
command -v docker python3
apt-get install x || echo none
"""
    _launch(api, script)
    _eventually(lambda: _host_log(cloud).endswith("none\n"))
    log = _host_log(cloud).splitlines()
    assert log[:5] == ["403"] * 5
    assert all(path.endswith(("/bin/docker", "/bin/python3")) for path in log[5:7])
    assert api.call("GET", _VM).json()["status"] == "RUNNING"


def _host_log(cloud: EmbeddedCloud) -> str:
    hosts = cloud.cloud.hosts.describe()
    log = Path(str(hosts[0]["serial_log"])) if hosts else None
    return log.read_text() if log is not None and log.exists() else ""


def test_the_end_of_its_run_ends_everything_on_it(cloud: EmbeddedCloud) -> None:
    """After maxRunDuration by the cloud's clock, whatever the script is doing."""
    api = Api(cloud.url)
    limit = {"maxRunDuration": {"seconds": "3600"}, "instanceTerminationAction": "DELETE"}
    script = "sleep 3601 & (env -i setsid sleep 3602 &)\necho up\nwait"
    _launch(api, script, scheduling=limit)
    _eventually(lambda: _host_log(cloud) == "up\n")
    running = processes_of(Path(_host(cloud)["root"]).parent)
    assert len(running) >= 3
    cloud.advance(3600)
    assert api.call("GET", _VM).status_code == 404
    assert psutil.wait_procs(running, timeout=60)[1] == []
    assert cloud.cloud.hosts.describe() == []


def test_an_instance_boots_again_with_the_embedded_cloud(
    tmp_path: Path, clock: ManualClock
) -> None:
    """No process outlives the cloud; the next start boots the instance from its disk."""
    state, script = tmp_path / "emulator", 'echo boot >>"$HOME/boots"; sleep 3600'
    with EmbeddedCloud(state, token=TOKEN, clock=clock, launch_hosts=True) as cloud:
        api = Api(cloud.url)
        _prepare(api)
        _launch(api, script)
        boots = Path(_when_up(cloud)["root"]) / "home/boots"
        _eventually(lambda: boots.exists() and boots.read_text() == "boot\n")
        running = processes_of(boots.parents[2])
    assert psutil.wait_procs(running, timeout=60)[1] == []
    with EmbeddedCloud(state, token=TOKEN, clock=clock, launch_hosts=True):
        _eventually(lambda: boots.read_text() == "boot\nboot\n")


def _when_up(cloud: EmbeddedCloud) -> dict[str, Any]:
    _eventually(lambda: bool(cloud.cloud.hosts.describe()))
    return _host(cloud)


def test_another_instance_of_the_same_name_has_another_disk(cloud: EmbeddedCloud) -> None:
    """What the first has written is not there."""
    api = Api(cloud.url)
    script = 'ls "$HOME"; touch "$HOME/mine"; echo done; sleep 3600'
    for _ in range(2):
        _launch(api, script)
        _eventually(lambda: _host_log(cloud) == "done\n")
        assert api.call("DELETE", _VM).ok
        _eventually(lambda: not cloud.cloud.hosts.describe())
        cloud.advance(1)


def test_beside_tpu_hosts_each_machine_has_its_own_address(cloud: EmbeddedCloud) -> None:
    """Nodes and instances share the machine's loopback addresses."""
    api = Api(cloud.url)
    capacity = {"admission_s": 0, "grant_after_s": 0, "provisioning_s": 0}
    api.capacity(**capacity)
    _launch(api, "sleep 3600")
    assert api.create().status_code == 200
    cloud.advance(1)
    _eventually(lambda: len(cloud.cloud.desired_hosts()) == 2)
    assert len({spec.address for spec in cloud.cloud.desired_hosts()}) == 2
