"""What a client gets of an upstream's error."""

from __future__ import annotations

import json

import pytest

from tpuflex.gateway.upstream_answer import told_error

TOLD = {"message": "too long", "type": "BadRequestError", "param": "max_tokens", "code": "400"}


@pytest.mark.parametrize(
    "error",
    [
        {"error": TOLD},
        {
            "error": {**TOLD, "code": 400, "traceback": "File /srv/secret.py"},
            "request": "sk-secret",
        },
        {"object": "error", **TOLD},
    ],
)
def test_an_error_in_openai_s_form_is_told(error: object) -> None:
    """As vLLM's is, of now and of old; and nothing else that stands beside it."""
    assert json.loads(told_error(json.dumps(error).encode()) or b"") == {"error": TOLD}


def test_an_error_is_told_in_few_words() -> None:
    """What has another type than it should is left out."""
    said = b'{"error": {"message": "%b", "type": NaN, "param": {"a": 1}, "code": 1e999}}'
    assert json.loads(told_error(said % (b"x" * 10_000)) or b"") == {
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
def test_what_is_no_such_error_is_not_told(said: bytes) -> None:
    """The client gets the gateway's own words."""
    assert told_error(said) is None
