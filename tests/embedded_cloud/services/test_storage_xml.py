"""Reads by the XML API's path, as Go's storage client sends them (P19)."""

from __future__ import annotations

from urllib.parse import quote

import pytest
import requests

from tests.embedded_cloud.api import Api
from tests.embedded_cloud.storage_api import AUTH, put

#: What Go's storage client says of itself; with STORAGE_EMULATOR_HOST it sends no token.
_GO = {"X-Goog-Api-Client": "gl-go/1.25.0 gccl/1.57.0"}
_NAMES = (".pulumi/meta.yaml", "a b/ü:1.json", "plain")


@pytest.fixture
def store(store: Api) -> Api:
    """An API with a bucket and three objects, each with its name as content."""
    for name in _NAMES:
        put(store, name, name.encode())
    return store


def read(api: Api, path: str, headers: dict[str, str], **query: str) -> requests.Response:
    return requests.get(f"{api.url}/{path}", params=query, headers=headers, timeout=30)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("safe", ["", "/:"])
def test_p19_an_object_is_read_by_bucket_and_name(store: Api, name: str, safe: str) -> None:
    """P19: with slashes encoded, as Go sends them, or plain; with the headers that it reads."""
    answer = read(store, f"bk-1/{quote(name, safe=safe)}", _GO)

    assert (answer.status_code, answer.content) == (200, name.encode())
    assert answer.headers["Content-Type"] == "text/plain"
    assert answer.headers["X-Goog-Hash"].startswith("crc32c=")
    assert int(answer.headers["X-Goog-Generation"]) > 0
    assert "Last-Modified" in answer.headers


def test_p19_a_range_a_generation_and_a_condition(store: Api) -> None:
    """P19: what the client asks for beside the name is honoured."""
    whole = read(store, "bk-1/plain", _GO)
    generation = whole.headers["X-Goog-Generation"]

    part = read(store, "bk-1/plain", {**_GO, "Range": "bytes=1-2"}, generation=generation)
    gone = read(store, "bk-1/plain", _GO, generation="1")
    changed = read(store, "bk-1/plain", {**_GO, "x-goog-if-generation-match": "1"})
    same = read(store, "bk-1/plain", {**_GO, "x-goog-if-generation-match": generation})

    assert (part.status_code, part.text) == (206, "la")
    assert gone.status_code == 404
    assert changed.status_code == 412
    assert "<Code>PreconditionFailed</Code>" in changed.text
    assert same.status_code == 200


def test_p19_what_is_not_there_is_said_in_xml(store: Api) -> None:
    """P19: Go's client takes a 404 for "no such object"; an unknown bucket is no path at all, so
    that what a host may ask does not grow."""
    missing = read(store, "bk-1/%3Cnone%3E", _GO)
    elsewhere = read(store, "bk-2/plain", AUTH)

    assert missing.status_code == 404
    assert missing.headers["Content-Type"].startswith("application/xml")
    assert "<Code>NoSuchKey</Code>" in missing.text
    assert "No such object: bk-1/&lt;none&gt;" in missing.text
    assert elsewhere.status_code == 404
    assert "was not found on this server" in elsewhere.json()["error"]["message"]


def test_p19_a_read_without_token_names_its_library(store: Api) -> None:
    """P19: a bare request gets 401, as before; with a token nothing else is needed."""
    assert read(store, "bk-1/plain", {}).status_code == 401
    assert read(store, "bk-1/plain", {"X-Goog-Api-Client": "curl/8"}).status_code == 401
    assert read(store, "bk-1/plain", AUTH).text == "plain"


def test_p19_no_path_of_an_api_is_taken_for_an_object(store: Api) -> None:
    """P19: a documented method that is not emulated is still 501; and a query that is not
    understood is refused."""
    acl = read(store, "storage/v1/b/bk-1/acl", AUTH)
    listed = read(store, "bk-1/plain", AUTH, tagging="")

    assert acl.status_code == 501
    assert listed.status_code in (400, 501)
