"""Pages of lists, the same in every service but for the names of their fields."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from embedded_cloud.core.paging import decode_token, encode_token, page
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, Api, flex_start
from tests.embedded_cloud.compute_api import GLOBAL, NETWORK

_PLACE = f"v2alpha1/projects/{PROJECT}/locations/us-east5-a"
_SECRETS = f"v1/projects/{PROJECT}/secrets"
_IDS = ("item-c", "item-a", "item-b")

#: Path -> the answer's field that holds the list.
_LISTS = {
    "storage/v1/b": "items",
    "storage/v1/b/item-a/o": "items",
    f"{_PLACE}/queuedResources": "queuedResources",
    f"{_PLACE}/operations": "operations",
    f"{_PLACE}/acceleratorTypes": "acceleratorTypes",
    _SECRETS: "secrets",
    f"{_SECRETS}/item-a/versions": "versions",
    f"v1/projects/{PROJECT}/serviceAccounts": "accounts",
    f"v1/projects/{PROJECT}/services": "services",
    f"{GLOBAL}/networks": "items",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A cloud with three resources of every kind, for all tests of this file."""
    state_dir = tmp_path_factory.mktemp("paging") / "emulator"
    with EmbeddedCloud(state_dir, token=TOKEN) as cloud:
        _fill(api := Api(cloud.url))
        yield api


def _fill(api: Api) -> None:
    for item in _IDS:
        body: Any = flex_start()
        body["tpu"]["nodeSpec"][0]["nodeId"] = item
        calls: list[tuple[str, Any, dict[str, str]]] = [
            ("storage/v1/b", {"name": item}, {"project": PROJECT}),
            (f"{_PLACE}/queuedResources", body, {"queuedResourceId": item}),
            (_SECRETS, {"replication": {"automatic": {}}}, {"secretId": item}),
            (f"v1/projects/{PROJECT}/serviceAccounts", {"accountId": item}, {}),
            (f"{GLOBAL}/networks", {**NETWORK, "name": item}, {}),
        ]
        for path, sent, query in calls:
            assert api.call("POST", path, body=sent, **query).ok, path
    for item in _IDS:
        payload = {"payload": {"data": base64.b64encode(item.encode()).decode()}}
        api.call("POST", f"{_SECRETS}/item-a:addVersion", body=payload)
        upload = {"uploadType": "media", "name": item}
        api.call("POST", "upload/storage/v1/b/item-a/o", body={}, **upload)


def _query(path: str) -> dict[str, str]:
    return {"project": PROJECT} if path == "storage/v1/b" else {}


def _names(entries: list[dict[str, Any]]) -> list[str]:
    """The names alone: a request's state may change from one page to the next."""
    return [entry["name"] for entry in entries]


@pytest.mark.parametrize("path", _LISTS)
def test_pages_join_to_the_whole_list(filled: Api, path: str) -> None:
    """Each entry once, in the order of the whole list; the last page leads to no other."""
    whole = _names(filled.call("GET", path, **_query(path)).json()[_LISTS[path]])
    size = "maxResults" if _LISTS[path] == "items" else "pageSize"
    token, joined = "", []
    while True:
        query = {**_query(path), size: "2", "pageToken": token}
        body = filled.call("GET", path, **query).json()
        assert len(body[_LISTS[path]]) <= 2
        joined += _names(body[_LISTS[path]])
        if not (token := body.get("nextPageToken", "")):
            break
    assert len(whole) >= 3
    assert joined == whole


@pytest.mark.parametrize("path", _LISTS)
@pytest.mark.parametrize("wrong", [{"pageToken": "!"}, {"pageSize": "-1", "maxResults": "-1"}])
def test_wrong_pages_are_refused(filled: Api, path: str, wrong: dict[str, str]) -> None:
    """400, as Google answers, for a token of the caller's own making and a negative size."""
    size = "maxResults" if _LISTS[path] == "items" else "pageSize"
    query = {key: value for key, value in wrong.items() if key in ("pageToken", size)}
    answer = filled.call("GET", path, **_query(path), **query)
    assert answer.status_code == 400, answer.text


def test_pages_continue_after_the_last_key_listed() -> None:
    """What is removed between two pages shifts nothing."""
    shown, token = page(["a", "b", "c"], key=str, size=2, token=None)
    assert shown == ["a", "b"]
    assert page(["b", "c"], key=str, size=2, token=token) == (["c"], None)
    assert page(["c", "b", "a"], key=str, size=2, token=encode_token("b"), descending=True) == (
        ["a"],
        None,
    )
    with pytest.raises(ValueError, match="token"):
        page(["a"], key=str, size=1, token="!!!")


@pytest.mark.parametrize("token", ["!", "!!!!", "=", "YQ", "YQ=", "!YQ==", "YQ==\n", "_w==", "é"])
def test_what_is_no_page_token_is_refused(token: str) -> None:
    """Not read as an empty token, which would be the first page again and again."""
    with pytest.raises(ValueError, match="token"):
        decode_token(token)
