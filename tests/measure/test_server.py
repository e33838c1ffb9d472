"""What a running server says of itself, over real HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.measure.fake_server import KEY, MODEL, FakeServer
from tpuflex.errors import AccessError, ApiError, ServerDownError
from tpuflex.measure.server import ServedModel, ServerClient


def test_what_it_says() -> None:
    """Its models, its version and what it counts."""
    with FakeServer().running() as server:
        assert server.models() == (ServedModel(id=MODEL, max_model_len=512),)
        assert server.version() == "0.32.0"
        assert server.metrics().generation_tokens == 752
        assert server.code("/health") == 200
        assert server.code("/v1/models") == 401

    assert KEY not in repr(server)


READS: dict[str, Callable[[ServerClient], object]] = {
    "/v1/models": ServerClient.models,
    "/version": ServerClient.version,
    "/metrics": ServerClient.metrics,
}


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize(
    "text",
    [
        "<html></html>",
        "[]",
        '{"data": 1, "version": 1}',
        json.dumps({"data": [{"id": "x" * 2000}], "version": "\x1b[31m"}),
        json.dumps({"data": [{"id": "m", "max_model_len": -1}], "version": "x" * 101}),
        "x" * 5_000_000,
        500,
        301,
    ],
)
def test_an_answer_that_is_none(path: str, text: str | int) -> None:
    """It is refused, however long it is and whatever is in it."""
    fake = FakeServer()
    fake.documents[path] = [text]

    with fake.running() as server, pytest.raises(ApiError) as caught:
        READS[path](server)

    assert len(caught.value.message) < 200


@pytest.mark.parametrize("path", READS)
def test_a_key_that_it_refuses(path: str) -> None:
    """The error says what mends it."""
    with FakeServer(key="another").running() as server, pytest.raises(AccessError) as caught:
        READS[path](server)

    assert "`tpuflex restart`" in str(caught.value.hint)


def test_one_that_is_not_there() -> None:
    """The error names the endpoint, and has the exit code of one that does not serve."""
    with FakeServer().running() as server:
        pass

    with pytest.raises(ServerDownError, match=r"no connection to http://127\.0\.0\.1") as caught:
        server.metrics()
    assert caught.value.exit_code == 7


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('{"in_flight": 2, "closed": false}', 2),
        ('{"in_flight": -1}', None),
        ("x", None),
        (404, None),
    ],
)
def test_requests_in_flight(said: str | int, expected: int | None) -> None:
    """They are known where the guard says so."""
    with FakeServer(documents={"/tpuflex/requests": [said]}).running() as server:
        assert server.in_flight() == expected
