"""The three upload protocols, with what goes wrong in each."""

from __future__ import annotations

import http.client
import json
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import TOKEN, Api
from tests.embedded_cloud.storage_api import AUTH, make_bucket

_QUANTUM = 256 * 1024


def _begin(api: Api, metadata: dict[str, Any] | None = None, **query: str) -> requests.Response:
    return requests.post(
        f"{api.url}/upload/storage/v1/b/bk-1/o",
        params={"uploadType": "resumable", "name": "x", **query},
        json=metadata,
        headers=AUTH | {"X-Upload-Content-Type": "model/gguf"},
        timeout=30,
    )


def _chunk(
    uri: str, data: bytes, span: str, headers: dict[str, str] | None = None
) -> requests.Response:
    sent = AUTH | {"Content-Range": span} | (headers or {})
    return requests.put(uri, data=data, headers=sent, timeout=30)


def _content(api: Api) -> bytes:
    return api.call("GET", "storage/v1/b/bk-1/o/x", alt="media").content


def _multipart(api: Api, metadata: dict[str, Any], data: bytes) -> requests.Response:
    body = (
        b"--b\r\nContent-Type: application/json\r\n\r\n"
        + json.dumps(metadata).encode()
        + b"\r\n--b\r\nContent-Type: text/plain\r\n\r\n"
        + data
        + b"\r\n--b--\r\n"
    )
    return requests.post(
        f"{api.url}/upload/storage/v1/b/bk-1/o",
        params={"uploadType": "multipart"},
        data=body,
        headers=AUTH | {"Content-Type": "multipart/related; boundary=b"},
        timeout=30,
    )


def test_multipart_carries_metadata(store: Api) -> None:
    """Name, content type and custom metadata come in the JSON part."""
    made = _multipart(store, {"name": "x", "metadata": {"a": "1"}}, b"hello").json()
    assert (made["name"], made["contentType"]) == ("x", "text/plain")
    assert made["metadata"] == {"a": "1"}
    assert _content(store) == b"hello"


def test_unknown_metadata_is_refused(store: Api) -> None:
    """The JSON part of an upload is checked like any body."""
    answer = _multipart(store, {"name": "x", "colour": "red"}, b"hello")
    assert answer.status_code == 400
    assert "colour" in answer.json()["error"]["message"]


@pytest.mark.parametrize("field", [{"crc32c": "AAAAAA=="}, {"md5Hash": "AAAAAAAAAAAAAAAAAAAAAA=="}])
def test_a_wrong_hash_leaves_nothing(
    store: Api, cloud: EmbeddedCloud, field: dict[str, str]
) -> None:
    """Bytes that do not match their hash are refused and not kept."""
    answer = _multipart(store, {"name": "x", **field}, b"hello")
    assert answer.status_code == 400
    assert "doesn't match calculated" in answer.json()["error"]["message"]
    assert store.call("GET", "storage/v1/b/bk-1/o/x").status_code == 404
    assert not any(f.is_file() for f in (Path(cloud.state_dir) / "objects").rglob("*"))


def test_a_resumable_upload_in_chunks(store: Api) -> None:
    """308 with Range after each chunk, the object after the last."""
    began = _begin(store, {"metadata": {"a": "1"}})
    assert began.status_code == 200
    uri = began.headers["Location"]
    data = bytes(range(256)) * 3 * 1024  # three quanta
    first = _chunk(uri, data[:_QUANTUM], f"bytes 0-{_QUANTUM - 1}/*")
    assert (first.status_code, first.headers["Range"]) == (308, f"bytes=0-{_QUANTUM - 1}")
    status = _chunk(uri, b"", "bytes */*")
    assert (status.status_code, status.headers["Range"]) == (308, f"bytes=0-{_QUANTUM - 1}")
    rest = _chunk(uri, data[_QUANTUM:], f"bytes {_QUANTUM}-{len(data) - 1}/{len(data)}")
    assert rest.status_code == 200
    made = rest.json()
    assert (made["size"], made["contentType"]) == (str(len(data)), "model/gguf")
    assert made["metadata"] == {"a": "1"}
    assert _content(store) == data


def test_asking_about_a_finished_upload(store: Api) -> None:
    """After a lost answer the client asks again: the same object, not a second one."""
    uri = _begin(store).headers["Location"]
    made = _chunk(uri, b"hello", "bytes 0-4/5").json()
    assert _chunk(uri, b"", "bytes */5").json() == made
    assert _chunk(uri, b"hello", "bytes 0-4/5").json() == made


def test_nothing_has_arrived_yet(store: Api) -> None:
    """A session without bytes has no Range."""
    status = _chunk(_begin(store).headers["Location"], b"", "bytes */100")
    assert status.status_code == 308
    assert "Range" not in status.headers


def test_more_bytes_than_announced_end_the_session(store: Api) -> None:
    """A body longer than its header says is refused."""
    uri = _begin(store).headers["Location"]
    assert _chunk(uri, b"0123456789", "bytes 0-3/4").status_code == 400
    assert _chunk(uri, b"", "bytes */4").status_code == 404


def test_hashes_are_checked_at_the_end(store: Api) -> None:
    """X-Goog-Hash with the last chunk decides whether there is an object."""
    uri = _begin(store).headers["Location"]
    answer = _chunk(uri, b"hello", "bytes 0-4/5", {"X-Goog-Hash": "crc32c=AAAAAA=="})
    assert answer.status_code == 400
    uri = _begin(store).headers["Location"]
    answer = _chunk(uri, b"hello", "bytes 0-4/5", {"X-Goog-Hash": "crc32c=mnG7TA=="})
    assert answer.status_code == 200


def test_conditions_hold_at_the_start_and_at_the_end(store: Api) -> None:
    """A condition that breaks while bytes arrive is 412 for the last chunk."""
    uri = _begin(store, ifGenerationMatch="0").headers["Location"]
    _multipart(store, {"name": "x"}, b"other")
    assert _begin(store, ifGenerationMatch="0").status_code == 412
    assert _chunk(uri, b"hello", "bytes 0-4/5").status_code == 412
    assert _content(store) == b"other"


def test_a_cancelled_session_is_gone(store: Api) -> None:
    """DELETE on the session's URI answers 499 and forgets it."""
    uri = _begin(store).headers["Location"]
    assert requests.delete(uri, headers=AUTH, timeout=30).status_code == 499
    assert _chunk(uri, b"hello", "bytes 0-4/5").status_code == 404


def test_an_empty_object_by_every_protocol(store: Api) -> None:
    """No bytes are an object too."""
    assert _multipart(store, {"name": "x"}, b"").json()["size"] == "0"
    uri = _begin(store).headers["Location"]
    assert _chunk(uri, b"", "bytes */0").json()["size"] == "0"


def test_a_broken_connection_keeps_what_arrived(store: Api) -> None:
    """After a cut in mid-chunk the session reports its progress and continues."""
    uri = _begin(store).headers["Location"]
    parts = urlsplit(uri)
    data = b"0123456789abcdef" * (_QUANTUM // 4)  # 1 MiB
    head = (
        f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(data)}\r\n"
        f"Content-Range: bytes 0-{len(data) - 1}/{len(data)}\r\n\r\n"
    )
    arrived = 0
    for attempt in range(100):
        # One that hangs up before it was looked at is nobody, and nothing of it is kept.
        with socket.create_connection((parts.hostname or "", parts.port or 0)) as cut:
            cut.sendall(head.encode() + data[: 3 * _QUANTUM + 5])
            time.sleep(0.01 * attempt)
        answer = _chunk(uri, b"", f"bytes */{len(data)}")
        assert answer.status_code == 308
        arrived = int(answer.headers.get("Range", "bytes=0--1").partition("-")[2]) + 1
        if arrived:
            break
    assert arrived == 3 * _QUANTUM
    span = f"bytes {arrived}-{len(data) - 1}/{len(data)}"
    assert _chunk(uri, data[arrived:], span).status_code == 200
    assert _content(store) == data


def test_a_session_outlives_a_restart(tmp_path: Path) -> None:
    """Bytes received before a restart count after it, hashes included."""
    state = tmp_path / "again"
    data = b"0123456789abcdef" * (_QUANTUM // 8)
    with EmbeddedCloud(state, token=TOKEN) as cloud:
        api = Api(cloud.url)
        make_bucket(api)
        uri = _begin(api).headers["Location"]
        _chunk(uri, data[:_QUANTUM], f"bytes 0-{_QUANTUM - 1}/{len(data)}")
    with EmbeddedCloud(state, token=TOKEN) as cloud:
        uri = cloud.url + uri[uri.index("/upload") :]
        answer = _chunk(uri, b"", f"bytes */{len(data)}")
        assert answer.headers["Range"] == f"bytes=0-{_QUANTUM - 1}"
        span = f"bytes {_QUANTUM}-{len(data) - 1}/{len(data)}"
        assert _chunk(uri, data[_QUANTUM:], span).status_code == 200
        assert _content(Api(cloud.url)) == data


def test_uploads_are_never_held_in_memory(store: Api, cloud: EmbeddedCloud) -> None:
    """Bytes reach the disk while the request is still being sent."""
    uri = _begin(store).headers["Location"]
    parts = urlsplit(uri)
    size = 8 << 20
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.putrequest("PUT", f"{parts.path}?{parts.query}")
    for name, value in (*AUTH.items(), ("Content-Length", str(size))):
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(bytes(size // 2))
    uploads = Path(cloud.state_dir) / "objects" / "uploads"
    for _ in range(500):
        if sum(file.stat().st_size for file in uploads.iterdir()) >= size // 4:
            break
        time.sleep(0.01)
    else:
        pytest.fail("nothing reached the disk before the request ended")
    connection.send(bytes(size // 2))
    assert connection.getresponse().status == 200
    connection.close()
