"""What a client gets of an upstream's error."""

from __future__ import annotations

import json

import pytest

from tpuflex.gateway.upstream_answer import error_for_client

ERROR = {"message": "too long", "type": "BadRequestError", "param": "max_tokens", "code": "400"}


@pytest.mark.parametrize(
    "error",
    [
        {"error": ERROR},
        {
            "error": {**ERROR, "code": 400, "traceback": "File /srv/secret.py"},
            "request": "sk-secret",
        },
        {"object": "error", **ERROR},
    ],
)
def test_an_error_in_openai_s_form_is_handed_on(error: object) -> None:
    """As vLLM's is, of now and of old; and nothing else that stands beside it."""
    assert json.loads(error_for_client(json.dumps(error).encode()) or b"") == {"error": ERROR}


def test_an_error_is_handed_on_in_few_words() -> None:
    """What has another type than it should is left out."""
    said = b'{"error": {"message": "%b", "type": NaN, "param": {"a": 1}, "code": 1e999}}'
    assert json.loads(error_for_client(said % (b"x" * 10_000)) or b"") == {
        "error": {"message": "x" * 2048, "type": None, "param": None, "code": None}
    }


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>Bad gateway</html>",
        b'{"detail": "Not Found"}',
        b'{"error": "busy"}',
        b'{"error": {"message": 1}}',
        b"[" * 100_000,
        b"[" * 10_000,
        b'{"error": {"message": "\xff"}}',
        b'{"error": {"message": "x", "code": %b}}' % (b"1" * 5000),
    ],
)
def test_what_is_no_such_error_is_not_handed_on(said: bytes) -> None:
    """The client gets the gateway's own words."""
    assert error_for_client(said) is None
