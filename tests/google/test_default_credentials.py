"""Renewals of Application Default Credentials, by what the token server answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.security.answering import server
from tests.unit.test_credentials import EXTERNAL, IMPERSONATED, USER
from tpuflex.errors import AccessError
from tpuflex.google.credentials import Credential, Kind
from tpuflex.google.default_credentials import DefaultCredentials

_USER = USER | {"refresh_token": "1//tpuflex-embedded.x"}
_FILES: dict[str, dict[str, Any]] = {
    "user": _USER,
    "impersonated": IMPERSONATED | {"source_credentials": _USER},
    "external": EXTERNAL | {"audience": "//x/workloadIdentityPools/tpuflex-embedded/providers/y"},
}
_TOKEN = {"access_token": "ya29.tpuflex-embedded.y", "expires_in": 3599, "token_type": "Bearer"}
_REVOKED = {"error": "invalid_grant", "error_description": "Token has been revoked.\x1b[31m"}


def credentials(home: Path, kind: str, url: str) -> DefaultCredentials:
    """Credentials of this kind, whose token server is at ``url``."""
    if kind == "metadata":
        environ = {"GCE_METADATA_HOST": url.removeprefix("http://"), "HOME": str(home)}
        return DefaultCredentials(environ, url)
    subject = home / "subject"
    subject.write_text("subject")
    info = dict(_FILES[kind])
    if kind == "external":
        info["credential_source"] = {"file": str(subject)}
    (home / "adc.json").write_text(json.dumps(info))
    return DefaultCredentials({"GOOGLE_APPLICATION_CREDENTIALS": str(home / "adc.json")}, url)


@pytest.mark.parametrize("kind", ["user", "impersonated", "external", "metadata"])
@pytest.mark.parametrize("body", [b"<html>log in</html>", b"{}", b"[]", b'"x"', b"", b"\xff"])
def test_an_answer_of_no_use_is_asked_for_again(tmp_path: Path, kind: str, body: bytes) -> None:
    """A login page or half an answer says nothing about the credentials."""
    headers = {"Content-Type": "application/json", "Metadata-Flavor": "Google"}
    with server([body], headers=headers) as (url, _), pytest.raises(requests.ConnectionError):
        credentials(tmp_path, kind, url).token()


# Not the metadata server: google-auth waits for it, in real time.
@pytest.mark.parametrize("kind", ["user", "impersonated", "external"])
def test_a_server_that_is_not_there_is_asked_again(tmp_path: Path, kind: str) -> None:
    """Nobody listens: the credentials may be good."""
    with server([]) as (url, _):
        pass
    with pytest.raises(requests.ConnectionError):
        credentials(tmp_path, kind, url).token()


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("user", "Run: gcloud auth application-default login"),
        ("impersonated", "You need the role roles/iam.serviceAccountTokenCreator"),
        ("external", "See the workload identity pool"),
    ],
)
def test_a_refusal_says_which_credential_and_what_it_needs(
    tmp_path: Path, kind: str, hint: str
) -> None:
    """The file, the server's words spelled out, and the remedy of that kind."""
    with server([json.dumps(_REVOKED).encode()], status=400) as (url, received):
        found = credentials(tmp_path, kind, url)
        with pytest.raises(AccessError) as refused:
            found.token()

    assert str(tmp_path / "adc.json") in refused.value.message
    assert r"Token has been revoked.\x1b[31m" in refused.value.message
    assert str(refused.value.hint).startswith(hint)
    assert "hidden" not in str(refused.value)
    assert received


def test_a_token_is_kept_until_it_expires(tmp_path: Path) -> None:
    """One request for many tokens; a renewal asks again."""
    with server([json.dumps(_TOKEN).encode()]) as (url, received):
        found = credentials(tmp_path, "user", url)
        assert {found.token() for _ in range(3)} == {"ya29.tpuflex-embedded.y"}
        assert len(received) == 1
        found.refresh()
        assert len(received) == 2

    assert found.credential() == Credential(Kind.USER, str(tmp_path / "adc.json"))


def test_an_answer_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    """A token server does not fill our memory."""
    piece = b" " * 1024 * 1024
    with server(piece for _ in range(1000)) as (url, _), pytest.raises(Exception, match="bytes"):
        credentials(tmp_path, "user", url).token()


def test_a_redirect_takes_no_secret_elsewhere(tmp_path: Path) -> None:
    """P3: the embedded cloud's credentials stay on this machine whatever an answer says."""
    headers = {"Location": "https://oauth2.example.com/token"}
    with (
        server([], status=307, headers=headers) as (url, _),
        pytest.raises(AccessError, match=r"refused to send .* to oauth2\.example\.com"),
    ):
        credentials(tmp_path, "user", url).token()
