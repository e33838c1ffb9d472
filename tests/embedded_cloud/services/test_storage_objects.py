"""Objects over the JSON API: generations, conditions, downloads, copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import Api
from tests.embedded_cloud.storage_api import AUTH, BUCKET, make_bucket, path_of, put, upload


def _media(api: Api, name: str, headers: dict[str, str] | None = None, **query: str) -> Any:
    return requests.get(
        f"{api.url}/{path_of(name)}",
        params={"alt": "media", **query},
        headers=AUTH | (headers or {}),
        timeout=30,
    )


def test_an_object_describes_itself(store: Api) -> None:
    """Size, hashes, generation, content type and links are in its resource."""
    made = put(store, "a/b c:d.txt", b"hello")
    assert (made["size"], made["contentType"], made["metageneration"]) == ("5", "text/plain", "1")
    assert (made["crc32c"], made["md5Hash"]) == ("mnG7TA==", "XUFAKrxLKna5cZ2REBfFkg==")
    assert made == store.call("GET", path_of("a/b c:d.txt")).json()
    fetched = requests.get(made["mediaLink"], headers=AUTH, timeout=30)
    assert fetched.content == b"hello"


def test_ranges_of_a_download(store: Api) -> None:
    """206 with Content-Range, or 416 after the end."""
    put(store, "x", b"0123456789")
    part = _media(store, "x", {"Range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, b"234")
    assert part.headers["Content-Range"] == "bytes 2-4/10"
    assert _media(store, "x", {"Range": "bytes=-2"}).content == b"89"
    beyond = _media(store, "x", {"Range": "bytes=10-"})
    assert beyond.status_code == 416
    assert beyond.headers["Content-Range"] == "bytes */10"


def test_a_read_of_a_known_generation_is_304(store: Api) -> None:
    """ifGenerationNotMatch saves sending metadata and bytes."""
    generation = put(store, "x", b"1")["generation"]
    for query in ({}, {"alt": "media"}):
        answer = store.call("GET", path_of("x"), ifGenerationNotMatch=generation, **query)
        assert answer.status_code == 304
    assert store.call("GET", path_of("x"), ifMetagenerationMatch="2").status_code == 412


def test_versioned_buckets_keep_old_generations(api: Api, clock: ManualClock) -> None:
    """Overwritten and deleted objects stay as generations, and keep the bucket undeletable."""
    make_bucket(api, versioning={"enabled": True})
    first = put(api, "x", b"1")["generation"]
    clock.advance(1)
    second = put(api, "x", b"2")["generation"]
    assert _media(api, "x", generation=first).content == b"1"
    assert api.call("DELETE", path_of("x")).status_code == 204
    assert api.call("GET", path_of("x")).status_code == 404
    assert "items" not in api.call("GET", f"{BUCKET}/o").json()
    listed = api.call("GET", f"{BUCKET}/o", versions="true").json()["items"]
    assert [each["generation"] for each in listed] == [first, second]
    assert all("timeDeleted" in each for each in listed)
    refused = api.call("DELETE", BUCKET)
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        409,
        "The bucket you tried to delete is not empty.",
    )
    for generation in (first, second):
        assert api.call("DELETE", path_of("x"), generation=generation).status_code == 204
    assert api.call("DELETE", BUCKET).status_code == 204


def test_bytes_go_with_their_object(store: Api, cloud: EmbeddedCloud) -> None:
    """No file is left on disk once no record refers to it."""
    objects = Path(cloud.state_dir) / "objects"
    put(store, "x", b"1")
    put(store, "x", b"22")
    assert sum(file.is_file() for file in objects.rglob("*")) == 1
    store.call("DELETE", path_of("x"))
    assert not any(file.is_file() for file in objects.rglob("*"))


def test_held_objects_stay(store: Api) -> None:
    """A temporary hold forbids deleting and overwriting."""
    put(store, "x", b"1")
    store.call("PATCH", path_of("x"), body={"temporaryHold": True})
    refused = store.call("DELETE", path_of("x"))
    assert refused.status_code == 403
    assert refused.json()["error"]["message"] == (
        "Object 'bk-1/x' is under active Temporary hold and cannot be deleted, overwritten or"
        " archived until hold is removed."
    )
    store.call("PATCH", path_of("x"), body={"temporaryHold": False})
    assert store.call("DELETE", path_of("x")).status_code == 204


def test_retained_objects_stay_until_their_time(store: Api, clock: ManualClock) -> None:
    """A retention policy forbids deleting and overwriting an object until it is old enough, names
    the time, and ends with the policy."""
    policy = {"retentionPolicy": {"retentionPeriod": "3600"}}
    kept = make_bucket(store, "kept", **policy)
    lock = {"ifMetagenerationMatch": "1"}
    assert store.call("POST", f"{BUCKET}/lockRetentionPolicy", **lock).status_code == 400
    assert kept["retentionPolicy"]["retentionPeriod"] == "3600"
    made = put(store, "x", b"1", bucket="kept")
    put(store, "y", b"1", bucket="kept")
    for refused in (store.call("DELETE", path_of("x", "kept")), upload(store, "x", b"2", "kept")):
        (error,) = refused.json()["error"]["errors"]
        assert (refused.status_code, error["reason"]) == (403, "retentionPolicyNotMet")
        assert "or object retention and cannot be deleted or overwritten until" in error["message"]
    assert made["retentionExpirationTime"] > made["timeCreated"]
    assert store.call("PATCH", path_of("x", "kept"), body={"metadata": {"a": "b"}}).ok
    clock.advance(3601)
    assert store.call("DELETE", path_of("x", "kept")).status_code == 204
    put(store, "z", b"1", bucket="kept")
    store.call("PATCH", "/storage/v1/b/kept", body={"retentionPolicy": None})
    assert store.call("DELETE", path_of("z", "kept")).status_code == 204


def test_copies_are_objects_of_their_own(store: Api) -> None:
    """A copy outlives its source, keeps its metadata, and honours conditions."""
    make_bucket(store, "bk-2")
    made = put(store, "a/x", b"hello")
    path = f"{path_of('a/x')}/rewriteTo/b/bk-2/o/y"
    answer = store.call("POST", path, ifSourceGenerationMatch=made["generation"]).json()
    copied = answer["resource"]
    assert copied["contentType"] == "text/plain"
    assert copied["generation"] != made["generation"]
    store.call("DELETE", path_of("a/x"))
    assert store.call("GET", path_of("y", "bk-2"), alt="media").content == b"hello"
    assert store.call("POST", path).status_code == 404


_MIB = 2**20


def test_a_rewrite_leaves_nothing_before_its_end(store: Api, clock: ManualClock) -> None:
    """There is no object in between; conditions hold at the last call, too; and a token is of its
    own rewrite, and for a week."""
    make_bucket(store, "far", location="EUROPE-WEST4")
    made = put(store, "x", bytes(2 * _MIB))
    path = f"{path_of('x')}/rewriteTo/b/far/o/x"
    asked = {"maxBytesRewrittenPerCall": str(_MIB), "ifGenerationMatch": "0"}
    token = store.call("POST", path, **asked).json()["rewriteToken"]
    other = f"{path_of('x')}/rewriteTo/b/far/o/y"
    refused = [
        store.call("POST", other, rewriteToken=token),
        store.call("POST", path, rewriteToken="forged"),
        store.call("POST", path, rewriteToken=token, maxBytesRewrittenPerCall=str(2 * _MIB)),
        store.call("POST", path, maxBytesRewrittenPerCall="1000"),
    ]
    assert [each.status_code for each in refused] == [400] * 4
    assert store.call("GET", path_of("x", "far")).status_code == 404
    put(store, "x", b"a colleague's", bucket="far")
    assert store.call("POST", path, rewriteToken=token, **asked).status_code == 412
    store.call("DELETE", path_of("x", "far"))
    store.call("DELETE", path_of("x"))
    gone = store.call("POST", path, rewriteToken=token, sourceGeneration=made["generation"])
    assert gone.status_code == 404
    put(store, "x", bytes(2 * _MIB))
    late = store.call("POST", path, **asked).json()["rewriteToken"]
    clock.advance(8 * 24 * 3600)
    assert store.call("POST", path, rewriteToken=late, **asked).status_code == 410


def test_names_that_look_alike_stay_apart(store: Api) -> None:
    """A name may contain the separator that is used inside."""
    put(store, "x", b"1")
    put(store, "x#1", b"2")
    assert _media(store, "x").content == b"1"
    store.call("DELETE", path_of("x"))
    assert _media(store, "x").status_code == 404
    assert _media(store, "x#1").content == b"2"


@pytest.mark.parametrize("name", ["..", "a\nb", "x" * 1025])
def test_object_names_that_google_refuses(store: Api, name: str) -> None:
    """No name can address the disk."""
    assert upload(store, name).status_code == 400
