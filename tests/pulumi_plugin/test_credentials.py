"""Texts without what looks like a credential."""

from __future__ import annotations

import time

import pytest

from pulumi_plugin.credentials import REMOVED, scrub

TOKEN = "ya29.a0Canary_token-123"
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


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
        ("GOCSPX-abcdefghijklmnop0123 pul-0123456789abcdef01", "[removed] [removed]"),
        ("sk-proj-abcdefghijklmnopqrstu ghr_abcdefghijklmnop", "[removed] [removed]"),
        (r"said \nhf_abcdefghij0123\nsk-abcdefghijklmnop0123", r"said \n[removed]\n[removed]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\ndef", "[removed]"),
        (
            f"1 {KEY_LINE}\n2 x\n-----END PRIVATE KEY-----",
            "1 [removed]\n2 x\n-----END PRIVATE KEY-----",
        ),
        ("sha256:" + "0123456789abcdef" * 4, "sha256:" + "0123456789abcdef" * 4),
        ("curl -H 'Authorization: Bearer $KEY'", "curl -H 'Authorization: Bearer $KEY'"),
        (
            "hf_config, hf_overrides and acme/sk-bert-base-cased",
            "hf_config, hf_overrides and acme/sk-bert-base-cased",
        ),
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


#: Beginnings of credentials, which a text could repeat.
BEGINNINGS = (
    *("sk-", "sk-a", "hf_", "eyJ", "eyJa.", "ya29.", "1//", "1//0", "pul-", "AIza", "v1:", "xoxb-"),
    *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY", "://", "://a:"),
    *("?key=", "bearer ", "bearer\t\t", "authorization: basic ", "api_key", "api_key "),
    *("api_key=(", "A", "+"),
)


@pytest.mark.parametrize("part", BEGINNINGS)
def test_work_grows_as_a_text_does(part: str) -> None:
    """A text is chosen by who calls the endpoint. One that makes a pattern look twice over the same
    run costs minutes of the processor at this length, and hundredths of a second otherwise."""
    text = part * (300_000 // len(part))
    began = time.process_time()
    scrub(text)
    assert time.process_time() - began < 10


def test_a_key_of_a_long_line() -> None:
    """What stands in a run of one kind of letters is found also in a long one."""
    assert scrub("A" * 100_000 + " " + TOKEN).endswith(REMOVED)
