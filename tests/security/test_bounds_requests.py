"""S17: what is sent to the embedded cloud is read within bounds, and its numbers are numbers."""

from __future__ import annotations

import gzip
import json
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import Api

CREATE = "/v2alpha1/projects/p/locations/us-east5-a/queuedResources?queuedResourceId=q"
UPLOAD = "/upload/storage/v1/b/weights/o?name=x&uploadType="
MEGABYTE = 1024 * 1024
LIMIT = 16 * MEGABYTE


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    with EmbeddedCloud(tmp_path / "emulator") as running:
        api = Api(running.url, token=running.token)
        created = api.call("POST", "/storage/v1/b", body={"name": "weights"}, project="p")
        assert created.status_code == 200, created.text
        yield running


def post(cloud: EmbeddedCloud, path: str, data: object, **headers: str) -> requests.Response:
    return requests.post(
        f"{cloud.url}{path}",
        data=data,  # type: ignore[arg-type]  # bytes, or an iterator for a chunked body
        headers={"Authorization": f"Bearer {cloud.token}", **headers},
        timeout=30,
    )


def well(cloud: EmbeddedCloud) -> bool:
    """Whether the cloud still answers everything."""
    for name in ("health", "clock", "capacity", "hosts", "inventory", "history", "faults"):
        answer = requests.get(
            f"{cloud.url}/_emulator/{name}",
            headers={"Authorization": f"Bearer {cloud.token}"},
            timeout=60,
        )
        if answer.status_code != 200:
            return False
        json.loads(answer.text, parse_constant=pytest.fail)
    return Api(cloud.url, project="p", token=cloud.token).create().status_code in (200, 409)


class TestBytes:
    @pytest.mark.parametrize(
        "path", [CREATE, "/_emulator/clock", "/_emulator/faults", f"{UPLOAD}resumable"]
    )
    def test_a_chunked_body_is_counted(self, cloud: EmbeddedCloud, path: str) -> None:
        """S17: a body without a length that passes the limit is refused, and not kept in memory."""

        def pieces() -> Iterator[bytes]:
            yield b'{"x": "'
            for _ in range(200):
                yield b"x" * MEGABYTE

        tracemalloc.start()
        try:
            answer = post(cloud, path, pieces())
            assert answer.status_code == 413, answer.text[:300]
        except requests.ConnectionError:
            pass  # refused before all was sent
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()

        assert peak < 8 * LIMIT
        assert well(cloud)

    def test_a_compressed_body_is_counted(self, cloud: EmbeddedCloud) -> None:
        """S17: what counts is the size after decompression: 200 kB that become 200 MB."""
        bomb = gzip.compress(b'{"x": "' + b"x" * (200 * MEGABYTE))
        assert len(bomb) < MEGABYTE
        answer = post(cloud, CREATE, bomb, **{"Content-Encoding": "gzip"})

        assert answer.status_code == 413, answer.text[:300]
        assert well(cloud)

    def test_a_body_that_is_not_compressed_as_it_says(self, cloud: EmbeddedCloud) -> None:
        """S17: a client's mistake is a 400."""
        answer = post(cloud, CREATE, b"{}", **{"Content-Encoding": "gzip"})

        assert answer.status_code == 400, answer.text[:300]

    def test_a_length_that_lies(self, cloud: EmbeddedCloud) -> None:
        """S17: a length beyond the limit is refused by itself; a body that is shorter than its
        length stores nothing."""
        address = urlsplit(cloud.url)
        head = (
            f"Host: {address.netloc}\r\nAuthorization: Bearer {cloud.token}\r\n"
            "Content-Type: application/json\r\n"
        )
        for path, length, whole in ((CREATE, LIMIT * 100, False), (f"{UPLOAD}media", 1000, True)):
            with socket.create_connection((address.hostname or "", address.port or 0)) as client:
                client.settimeout(10)
                request = f"POST {path} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{{}}"
                client.sendall(request.encode())
                if whole:
                    client.shutdown(socket.SHUT_WR)
                answer = client.recv(4096)
                assert b" 200 " not in answer
                assert whole or answer.startswith(b"HTTP/1.1 413 ")

        objects = Api(cloud.url, token=cloud.token).call("GET", "/storage/v1/b/weights/o").json()
        assert objects.get("items", []) == []
        assert well(cloud)

    @pytest.mark.parametrize(
        "beginning", [b"", b"--b\r\n", b"--b\r\nContent-Type: application/json\r\n\r\n"]
    )
    def test_a_multipart_body_that_does_not_begin(
        self, cloud: EmbeddedCloud, beginning: bytes
    ) -> None:
        """S17: preamble, headers and the JSON part are bounded; only media is streamed."""

        def pieces() -> Iterator[bytes]:
            yield beginning
            for _ in range(20):
                yield b"x" * MEGABYTE

        kind = {"Content-Type": "multipart/related; boundary=b"}
        try:
            answer = post(cloud, f"{UPLOAD}multipart", pieces(), **kind)
            assert answer.status_code in (400, 413), answer.text[:300]
        except requests.ConnectionError:
            pass
        assert well(cloud)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("clock", '{"advance": NaN}'),
        ("clock", '{"advance": Infinity}'),
        ("clock", '{"advance": 1e999}'),
        ("clock", '{"advance": 1e300}'),
        ("clock", '{"advance": 100000000000}'),
        ("clock", '{"speed": NaN}'),
        ("clock", '{"speed": 1e300}'),
        ("clock", '{"advance": ' + "9" * 400 + "}"),
        ("clock", '{"advance": ' + "9" * 5000 + "}"),
        ("clock", "[" * 100_000),
        ("capacity", '{"grant_after_s": NaN}'),
        ("capacity", '{"grant_after_s": 1e300}'),
        ("capacity", '{"quota": {"*": 1e999}}'),
        ("faults", '{"rules": [{"effect": {"delay": {"seconds": NaN}}}]}'),
        ("faults", '{"random": {"seed": 1, "method_ids": ["x"], "count": 1000000000}}'),
        ("mishap", '{"name": "\\ud800", "mishap": "lost"}'),
    ],
)
def test_control_api_refuses_what_it_cannot_count_with(
    cloud: EmbeddedCloud, name: str, body: str
) -> None:
    """S17: NaN, infinities and numbers beyond any date are refused, and everything goes on."""
    answer = post(cloud, f"/_emulator/{name}", body.encode())

    assert answer.status_code == 400, answer.text[:300]
    assert well(cloud)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "9" * 400])
def test_apis_refuse_what_is_no_number(cloud: EmbeddedCloud, number: str) -> None:
    """S17: a body of an emulated API has the numbers of JSON and no others."""
    answer = post(cloud, CREATE, f'{{"tpu": {{"nodeSpec": [{number}]}}}}'.encode())

    assert answer.status_code == 400
    assert well(cloud)
