"""Secrets are known by their shape, and words that begin like one are none."""

from __future__ import annotations

import pytest

from tpuflex.settings.secret_shapes import holds_secret, masked, names_secret

TAIL = "aB3dEfGhIjKlMnOpQrSt"


@pytest.mark.parametrize(
    "value",
    [
        f"hf_{TAIL}",
        f"sk-proj-{TAIL}",
        f"ghp_{TAIL}",
        f"before=glpat-{TAIL}",
        "-----BEGIN RSA PRIVATE KEY-----",
        "postgres://user:password@host/base",
        {"deep": [{"auth": f"hf_{TAIL}"}]},
        {f"hf_{TAIL}": 1},
        f"Bearer {TAIL}",
        f"eyJhbGciOiJIUzI1NiJ9.{TAIL}.{TAIL}",
        f"-----BEGIN PRIVATE KEY-----\n{TAIL}\n-----END PRIVATE KEY-----",
    ],
)
def test_a_secret_is_found_wherever_it_stands(value: object) -> None:
    """In a text, in a document and among its keys; and it is not shown."""
    assert holds_secret(value)
    assert TAIL not in masked(str(value))
    assert "password" not in masked(str(value))


@pytest.mark.parametrize(
    "value",
    ["acme/sk-bert-base-multilingual-cased", "acme/hf_model_of_ours", "https://h/a@b", "10", 10],
)
def test_a_name_or_an_address_is_none(value: object) -> None:
    """A model may be named like the beginning of a token."""
    assert not holds_secret(value)


def test_names() -> None:
    """By the last word, in any case; a number of tokens is no token."""
    assert names_secret("HF_TOKEN")
    assert names_secret("openai_api_key")
    assert not names_secret("MAX_NUM_BATCHED_TOKENS")
