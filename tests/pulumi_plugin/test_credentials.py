"""Texts without what looks like a credential."""

from __future__ import annotations

import pytest

from pulumi_plugin.credentials import scrub

TOKEN = "ya29.a0Canary_token-123"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"before {TOKEN} after", "before [removed] after"),
        (f"Authorization: Bearer {TOKEN}", "Authorization: [removed]"),
        ("https://x/y?access_token=abcdef0123", "https://x/y?[removed]"),
        ("https://x/?key=abc&alt=json", "https://x/?[removed]&alt=json"),
        ("https://x/?X-Goog-Signature=abc", "https://x/?[removed]"),
        ("AIza" + "x" * 35 + " and hf_abcdefghij0123", "[removed] and [removed]"),
        ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl b", "a [removed] b"),
        ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- x", "[removed] x"),
        ("monkey=banana", "monkey=banana"),
        ("Authorization: Basic am86c2VjcmV0", "Authorization: [removed]"),
        ("https://jo:secret@example.com/simple", "https://[removed]@example.com/simple"),
        ("sk-abcdefghijklmnop0123, ghp_abcdefghijklmnop0123", "[removed], [removed]"),
        (
            "vllm serve --api-key 4nAkWnq8s0 --port 8000",
            "vllm serve --api-key [removed] --port 8000",
        ),
        ("args: {'api_key': ['4nAkWnq8s0'], 'port': 8000}", "args: {'[removed]'], 'port': 8000}"),
        ("PULUMI_CONFIG_PASSPHRASE=correct-horse x", "PULUMI_CONFIG_[removed] x"),
        (
            "the secret api-key: version 1 is not there",
            "the secret api-key: version 1 is not there",
        ),
        ("max_tokens=128000000 token: none", "max_tokens=128000000 token: none"),
    ],
)
def test_credentials_are_scrubbed(text: str, left: str) -> None:
    """Nothing that looks like a credential leaves a plugin, and nothing around it is lost."""
    assert scrub(text) == left


def test_known_secrets_are_removed_wherever_they_stand() -> None:
    """A value that looks like nothing is removed where it is known."""
    assert scrub("a plain-word b", ["plain-word"]) == "a [removed] b"
