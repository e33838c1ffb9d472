"""The startup script itself on a strict host: real metadata server, docker, apt-get and logging."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.machines import namespace
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import AT_ONCE, TOKEN, Api, flex_start
from tpuflex.boot.metadata import host_metadata
from tpuflex.host.report import CONFIG_KEY, HostReport, host_report

_CONFIG = Path(__file__).parents[2] / "goldens" / "stacks" / "dev.boot.json"
_STRICT: JsonObject = {
    "docker": {"preinstalled": False, "installable": False},
    "guest_attributes": {
        "empty_values": False,
        "unknown_answers_404": True,
        "queries_per_minute": 10,
        "queries_per_second": 3,
    },
}


def _add_secret(api: Api, version: str) -> None:
    project, name = version.split("/")[1], version.split("/")[3]
    secrets = f"v1/projects/{project}/secrets"
    replication: JsonObject = {"replication": {"automatic": {}}}
    assert api.call("POST", secrets, body=replication, secretId=name).ok
    payload = {"payload": {"data": base64.b64encode(b"a-key-of-clients").decode()}}
    assert api.call("POST", f"{secrets}/{name}:addVersion", body=payload).ok


def _report(api: Api) -> HostReport | None:
    """What the host says of itself, as `status` reads it."""
    answer = api.tpu("POST", "nodes/n1:getGuestAttributes", body={"queryPath": "tpuflex/"})
    if answer.status_code == 404:
        return None
    (worker,) = answer.json()["guestAttributes"]
    return host_report({item["key"]: item["value"] for item in worker["queryValue"]["items"]})


def _failed(api: Api) -> HostReport:
    """What a host reports that cannot boot."""
    deadline = time.monotonic() + 120
    while (report := _report(api)) is None or not report.error:
        assert time.monotonic() < deadline, report
        time.sleep(0.2)
    return report


@pytest.mark.skipif(bool(namespace.refusal()), reason="this machine has no mount namespaces")
def test_a_host_with_too_little_memory(tmp_path: Path) -> None:
    """The script measures the file system in memory that the host has, and says what helps."""
    hosts: JsonObject = {"hosts": {"own_mounts": True, "shm_bytes": 2**20}}
    with EmbeddedCloud(
        tmp_path / "emulator", token=TOKEN, capacity=AT_ONCE, launch_hosts=True, strictness=hosts
    ) as cloud:
        api = Api(cloud.url)
        metadata = {**host_metadata(), CONFIG_KEY: _CONFIG.read_text("utf-8")}
        assert api.create(body=flex_start(metadata=metadata)).ok
        report = _failed(api)
    assert report.error.startswith("capacity: ")
    assert report.error.endswith(
        "/run/tpuflex/memory has 1 MB free, the weights need 0 MB and 67 MB to spare; take an"
        " accelerator type with larger hosts or a smaller model"
    )


def test_a_strict_host_says_why_it_cannot_boot(tmp_path: Path) -> None:
    """A host without docker that reaches no mirror reports it within Google's bounds on guest
    attributes, and its log is in Cloud Logging by then."""
    config = json.loads(_CONFIG.read_text("utf-8"))
    state = tmp_path / "emulator"
    with EmbeddedCloud(
        state, token=TOKEN, capacity=AT_ONCE, launch_hosts=True, strictness=_STRICT
    ) as cloud:
        api = Api(cloud.url)
        _add_secret(api, config["secrets"][0]["version"])
        metadata = {**host_metadata(), CONFIG_KEY: json.dumps(config)}
        assert api.create(body=flex_start(metadata=metadata)).ok
        report = _failed(api)
        entries = api.call(
            "POST",
            "v2/entries:list",
            body={
                "resourceNames": [f"projects/{api.project}"],
                "filter": f'logName="projects/{api.project}/logs/tpuflex-boot"',
            },
        ).json()["entries"]
    assert report.error.startswith("docker: the image of this runtime version has no docker")
    (entry,) = (each for each in entries if each["severity"] == "ERROR")
    assert entry["jsonPayload"]["error"] == report.error
    assert entry["resource"]["labels"]["node_id"] == "n1"
    # Each phase is sent as it begins, and the last entry has what is new since.
    assert "phase secrets" in "".join(each["jsonPayload"]["message"] for each in entries)
    assert "a-key-of-clients" not in json.dumps(entries)
