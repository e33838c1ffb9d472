"""Secret Manager: secrets, versions, payloads, expiry."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.core.projects import project_number
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, Api, error_of

_SECRETS = f"v1/projects/{PROJECT}/secrets"
_CANARY = b"canary-payload-7f3a"


def _create(api: Api, key: str = "api-key", **fields: Any) -> Any:
    body = {"replication": {"automatic": {}}, **fields}
    answer = api.call("POST", _SECRETS, body=body, secretId=key)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _add(api: Api, data: bytes = _CANARY, key: str = "api-key", **payload: Any) -> Any:
    body = {"payload": {"data": base64.b64encode(data).decode(), **payload}}
    answer = api.call("POST", f"{_SECRETS}/{key}:addVersion", body=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _access(api: Api, version: str) -> Any:
    return api.call("GET", f"{_SECRETS}/api-key/versions/{version}:access")


def test_names_carry_the_projects_number(api: Api) -> None:
    """As on Google: requests name the project by id or number, answers by number."""
    made = _create(api, labels={"a": "b"})
    number = project_number(PROJECT)
    assert made["name"] == f"projects/{number}/secrets/api-key"
    assert made["labels"] == {"a": "b"}
    assert api.call("GET", f"v1/{made['name']}").json() == made


def test_what_a_new_secret_must_have(api: Api) -> None:
    """A valid id, a replication, and a name that is free."""
    bad_id = api.call("POST", _SECRETS, body={"replication": {"automatic": {}}}, secretId="a.b")
    assert error_of(bad_id)[:2] == (400, "INVALID_ARGUMENT")
    bare = api.call("POST", _SECRETS, body={}, secretId="api-key")
    assert error_of(bare)[:2] == (400, "INVALID_ARGUMENT")
    _create(api)
    taken = api.call("POST", _SECRETS, body={"replication": {"automatic": {}}}, secretId="api-key")
    assert error_of(taken)[:2] == (409, "ALREADY_EXISTS")


def test_versions_count_up_and_latest_is_the_newest(api: Api) -> None:
    """latest is the newest version in any state; a number keeps its meaning."""
    _create(api)
    assert error_of(_access(api, "latest"))[0] == 404
    first = _add(api, b"one")
    second = _add(api, b"two")
    assert (first["name"][-2:], second["name"][-2:]) == ("/1", "/2")
    assert base64.b64decode(_access(api, "latest").json()["payload"]["data"]) == b"two"
    assert base64.b64decode(_access(api, "1").json()["payload"]["data"]) == b"one"
    api.call("POST", f"{_SECRETS}/api-key/versions/2:disable")
    status, code, message = error_of(_access(api, "latest"))
    assert (status, code) == (400, "FAILED_PRECONDITION")
    assert "is in DISABLED state" in message
    assert error_of(_access(api, "3"))[0] == 404


def test_the_life_of_a_version(api: Api) -> None:
    """Disable, enable, destroy: a destroyed version never comes back."""
    _create(api)
    _add(api)
    path = f"{_SECRETS}/api-key/versions/1"
    assert api.call("POST", f"{path}:disable").json()["state"] == "DISABLED"
    assert api.call("POST", f"{path}:enable").json()["state"] == "ENABLED"
    destroyed = api.call("POST", f"{path}:destroy").json()
    assert destroyed["state"] == "DESTROYED"
    assert destroyed["destroyTime"]
    assert error_of(api.call("POST", f"{path}:enable"))[1] == "FAILED_PRECONDITION"
    assert error_of(api.call("POST", f"{path}:destroy"))[1] == "FAILED_PRECONDITION"
    assert error_of(_access(api, "1"))[1] == "FAILED_PRECONDITION"


def test_checksums_are_checked_and_answered(api: Api) -> None:
    """A payload that does not match its checksum is refused; an access carries one."""
    _create(api)
    checksum = google_crc32c.value(_CANARY)
    made = _add(api, dataCrc32c=str(checksum))
    assert made["clientSpecifiedPayloadChecksum"] is True
    assert _access(api, "1").json()["payload"]["dataCrc32c"] == str(checksum)
    body = {"payload": {"data": base64.b64encode(_CANARY).decode(), "dataCrc32c": "1"}}
    answer = api.call("POST", f"{_SECRETS}/api-key:addVersion", body=body)
    assert error_of(answer)[:2] == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("data", [b"", b"x" * 65_537])
def test_payloads_have_bounds(api: Api, data: bytes) -> None:
    """1 byte to 64 KiB."""
    _create(api)
    body = {"payload": {"data": base64.b64encode(data).decode()}}
    answer = api.call("POST", f"{_SECRETS}/api-key:addVersion", body=body)
    assert error_of(answer)[:2] == (400, "INVALID_ARGUMENT")


def test_payloads_are_shown_by_access_alone(api: Api, cloud: EmbeddedCloud) -> None:
    """No list, no history, no inventory and no error repeats a payload."""
    _create(api)
    _add(api)
    body = {"payload": {"data": "not base64: " + _CANARY.decode()}}
    shown = [
        api.call("GET", _SECRETS).text,
        api.call("GET", f"{_SECRETS}/api-key/versions").text,
        api.call("POST", f"{_SECRETS}/api-key:addVersion", body=body).text,
        api.call("GET", "_emulator/inventory").text,
        api.call("GET", "_emulator/history").text,
        (Path(cloud.state_dir) / "history.jsonl").read_text(encoding="utf-8"),
    ]
    for text in shown:
        assert _CANARY.decode() not in text
        assert base64.b64encode(_CANARY).decode() not in text


def test_destroying_and_deleting_forget_the_payload(api: Api, cloud: EmbeddedCloud) -> None:
    """Nothing of a payload is left in the store."""
    _create(api)
    _add(api)
    _add(api)
    api.call("POST", f"{_SECRETS}/api-key/versions/1:destroy")
    assert len(cloud.store.list("_secretmanager/payloads")) == 1
    assert api.call("DELETE", f"{_SECRETS}/api-key").status_code == 200
    assert not cloud.store.list("_secretmanager/payloads")
    assert api.call("GET", "_emulator/inventory").json() == {}


def test_a_secret_made_again_starts_over(api: Api) -> None:
    """Versions count from 1 and the policy is empty."""
    _create(api)
    _add(api)
    member = "user:a@example.com"
    policy = {"bindings": [{"role": "roles/secretmanager.admin", "members": [member]}]}
    api.call("POST", f"{_SECRETS}/api-key:setIamPolicy", body={"policy": policy})
    api.call("DELETE", f"{_SECRETS}/api-key")
    _create(api)
    assert _add(api)["name"].endswith("/1")
    assert member not in api.call("GET", f"{_SECRETS}/api-key:getIamPolicy").text


def test_patches_follow_the_mask(api: Api) -> None:
    """Only what updateMask names changes; etags are conditions; what is not emulated is refused."""
    made = _create(api, labels={"a": "1"}, annotations={"n": "1"})
    _add(api)
    path = f"{_SECRETS}/api-key"
    body = {"labels": {"b": "2"}, "annotations": {}}
    changed = api.call("PATCH", path, body=body, updateMask="labels").json()
    assert (changed["labels"], changed["annotations"]) == ({"b": "2"}, {"n": "1"})
    aliases = {"versionAliases": {"live": "1"}}
    refused = api.call("PATCH", path, body=aliases, updateMask="versionAliases")
    assert error_of(refused)[0] == 501
    stale = api.call("PATCH", path, body={"etag": made["etag"]}, updateMask="labels")
    assert error_of(stale)[1] == "FAILED_PRECONDITION"
    unknown = api.call("PATCH", path, body={}, updateMask="name")
    assert error_of(unknown)[1] == "INVALID_ARGUMENT"


def test_secrets_expire(api: Api, clock: ManualClock) -> None:
    """After its ttl a secret is gone."""
    made = _create(api, ttl="3600s")
    assert made["expireTime"] > made["createTime"]
    clock.advance(3599)
    assert api.call("GET", f"{_SECRETS}/api-key").status_code == 200
    clock.advance(1)
    assert api.call("GET", f"{_SECRETS}/api-key").status_code == 404


def test_lists_are_filtered(api: Api) -> None:
    """Secrets by label, versions by state, newest version first."""
    _create(api, "s1", labels={"env": "prod"})
    _create(api, "s2")
    found = api.call("GET", _SECRETS, filter="labels.env=prod").json()
    assert [each["name"][-2:] for each in found["secrets"]] == ["s1"]
    assert found["totalSize"] == 1
    for _ in range(3):
        _add(api, key="s1")
    api.call("POST", f"{_SECRETS}/s1/versions/2:disable")
    path = f"{_SECRETS}/s1/versions"
    enabled = api.call("GET", path, filter="state:ENABLED").json()["versions"]
    assert [each["name"][-1] for each in enabled] == ["3", "1"]
    odd = api.call("GET", _SECRETS, filter="(a=1 OR b=2)")
    assert odd.status_code == 501
