"""Service Usage: which APIs are enabled."""

from __future__ import annotations

from embedded_cloud.core.projects import project_number
from tests.embedded_cloud.api import PROJECT, Api, error_of

_SERVICES = f"v1/projects/{PROJECT}/services"


def _state(api: Api, name: str) -> str:
    return str(api.call("GET", f"{_SERVICES}/{name}").json()["state"])


def test_a_new_project_has_googles_defaults(api: Api) -> None:
    """Storage is on, TPU is not."""
    assert _state(api, "storage.googleapis.com") == "ENABLED"
    assert _state(api, "tpu.googleapis.com") == "DISABLED"


def test_enabling_answers_an_operation_that_is_done(api: Api) -> None:
    """The operation can be read again, and the state stays."""
    operation = api.call("POST", f"{_SERVICES}/tpu.googleapis.com:enable", body={}).json()
    assert operation["done"] is True
    assert operation["response"]["service"]["state"] == "ENABLED"
    assert api.call("GET", f"v1/{operation['name']}").json() == operation
    assert _state(api, "tpu.googleapis.com") == "ENABLED"
    by_number = f"v1/projects/{project_number(PROJECT)}/services/tpu.googleapis.com"
    assert api.call("GET", by_number).json()["state"] == "ENABLED"
    api.call("POST", f"{_SERVICES}/tpu.googleapis.com:disable", body={})
    assert _state(api, "tpu.googleapis.com") == "DISABLED"


def test_a_batch_is_all_or_nothing(api: Api) -> None:
    """An unknown name in a batch enables nothing."""
    names = ["tpu.googleapis.com", "compute.googleapis.com"]
    bad = {"serviceIds": [*names, "nosuch.googleapis.com"]}
    answer = api.call("POST", f"{_SERVICES}:batchEnable", body=bad)
    assert error_of(answer)[:2] == (403, "PERMISSION_DENIED")
    assert _state(api, "tpu.googleapis.com") == "DISABLED"
    done = api.call("POST", f"{_SERVICES}:batchEnable", body={"serviceIds": names}).json()
    assert [each["config"]["name"] for each in done["response"]["services"]] == names
    assert _state(api, "compute.googleapis.com") == "ENABLED"


def test_lists_are_filtered(api: Api) -> None:
    """state:ENABLED shows exactly what is enabled."""
    listed = api.call("GET", _SERVICES, filter="state:ENABLED").json()["services"]
    assert all(each["state"] == "ENABLED" for each in listed)
    names = [each["config"]["name"] for each in listed]
    assert "storage.googleapis.com" in names
    assert names == sorted(set(names))
    assert error_of(api.call("GET", _SERVICES, filter="title:x"))[0] == 400


def test_enabled_apis_are_not_in_the_inventory(api: Api) -> None:
    """They are settings, not resources that could be left over."""
    api.call("POST", f"{_SERVICES}/tpu.googleapis.com:enable", body={})
    assert api.call("GET", "_emulator/inventory").json() == {}
