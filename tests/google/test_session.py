"""What a session adds to requests, and what it sends again, with Google's answers from a list."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from tests.unit.test_credentials import KEY, USER
from tpuflex.errors import AccessError
from tpuflex.google.credentials import Credential, Kind
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.session import (
    EMBEDDED_TOKEN,
    AuthorizedSession,
    GivenToken,
    authorized_session,
    require_credentials,
)

URL = "https://secretmanager.googleapis.com/v1/projects/p/secrets"
OK: tuple[int, dict[str, Any]] = (200, {})
EXPIRED = (401, {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "no"}})
NO_QUOTA_PROJECT = (
    403,
    {
        "error": {
            "code": 403,
            "status": "PERMISSION_DENIED",
            "message": "The secretmanager.googleapis.com API requires a quota project, which is not"
            " set by default.",
            "details": [{"reason": "SERVICE_DISABLED"}],
        }
    },
)
DENIED = (403, {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "denied"}})


class Google(BaseAdapter):
    """Answers from a list, and keeps what was asked."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        super().__init__()
        self.answers = list(answers)
        self.sent: list[tuple[str, str]] = []

    def send(
        self, request: requests.PreparedRequest, *_how: Any, **_named: Any
    ) -> requests.Response:
        """Answer one request."""
        project = request.headers.get("X-Goog-User-Project", "-")
        self.sent.append((request.headers["Authorization"].removeprefix("Bearer "), project))
        status, body = self.answers.pop(0)
        response = requests.Response()
        response.status_code, response.request, response.url = status, request, str(request.url)
        response.raw = io.BytesIO(json.dumps(body).encode())
        return response

    def close(self) -> None:
        """Do nothing."""


class Elsewhere(Google):
    """Sends every request for a host of Google's on to another place."""

    def __init__(self, place: str, *answers: tuple[int, Any]) -> None:
        super().__init__((307, {}), *answers)
        self.place = place
        self.headers: list[tuple[str, str, str]] = []

    def send(self, request: requests.PreparedRequest, *how: Any, **named: Any) -> requests.Response:
        """Answer one request."""
        headers = request.headers
        token, project = headers.get("Authorization", "-"), headers.get("X-Goog-User-Project", "-")
        self.headers.append((str(request.url), token, project))
        headers.setdefault("Authorization", "-")
        response = super().send(request, *how, **named)
        if token == "-":
            headers.pop("Authorization")
        if response.status_code == 307:
            response.headers["Location"] = self.place
        return response


class Renewable(GivenToken):
    """Another token after each renewal."""

    def refresh(self) -> None:
        """Count on."""
        self._token += "+"


def session(google: Google, **how: Any) -> AuthorizedSession:
    made = AuthorizedSession(how.pop("tokens", GivenToken("ya29.x")), embedded=False, **how)
    made.mount("https://", google)
    return made


def test_the_quota_project_of_a_credential_goes_with_every_request() -> None:
    """A credential's quota project is sent to every API, as google-auth does it."""
    google = Google(OK, OK)
    calls = session(google, tokens=GivenToken("ya29.x", "quota-project"), project="p")

    calls.get(URL)
    calls.post("https://tpu.googleapis.com/v2alpha1/x", data=b"{}")

    assert google.sent == [("ya29.x", "quota-project")] * 2


def test_the_stacks_project_where_an_api_demands_one() -> None:
    """A host that refuses for want of a quota project gets the stack's, then and later."""
    google = Google(NO_QUOTA_PROJECT, OK, OK, OK)
    calls = session(google, project="p")

    assert calls.post(URL, data=b"{}").status_code == 200
    calls.get(URL)
    calls.get("https://tpu.googleapis.com/v2alpha1/x")

    assert [project for _, project in google.sent] == ["-", "p", "p", "-"]


@pytest.mark.parametrize(
    ("answers", "how", "body"),
    [
        ([NO_QUOTA_PROJECT], {}, b""),
        ([DENIED], {"project": "p"}, b""),
        ([NO_QUOTA_PROJECT], {"project": "p"}, io.BytesIO(b"read once")),
        ([NO_QUOTA_PROJECT, NO_QUOTA_PROJECT], {"project": "p"}, b""),
        ([NO_QUOTA_PROJECT], {"project": "p", "tokens": GivenToken("ya29.x", "q")}, b""),
        ([EXPIRED], {}, b""),
        ([EXPIRED], {"renews": True}, io.BytesIO(b"read once")),
        ([EXPIRED, EXPIRED], {"renews": True}, b""),
    ],
)
def test_other_refusals_are_handed_on(answers: Any, how: dict[str, Any], body: Any) -> None:
    """No project to name, another refusal, a body that is gone, or a second no: that is it."""
    google = Google(*answers)

    answer = session(google, **how).post(URL, data=body)

    assert answer.status_code == answers[0][0]
    assert answer.json() == answers[0][1]
    assert google.answers == []


@pytest.mark.parametrize("answer", [OK, EXPIRED, NO_QUOTA_PROJECT])
def test_a_redirect_to_another_host_takes_nothing_along(
    answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the token nor the project, nor what `~/.netrc` has for that host; and however that
    one refuses, it gets none the second time."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine cdn.example login me password canary\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    place = "https://cdn.example/blob?sig=1"
    google = Elsewhere(place, answer)
    calls = session(google, tokens=GivenToken("ya29.x", "pays"), project="p", renews=True)

    assert calls.get(URL).status_code == answer[0]

    assert google.headers == [(URL, "Bearer ya29.x", "pays"), (place, "-", "-")]


def test_a_redirect_within_a_host_keeps_both() -> None:
    """It is the same one who asks the same host."""
    google = Elsewhere(f"{URL}/next", OK)

    session(google, tokens=GivenToken("ya29.x", "pays")).get(URL)

    assert [each[1:] for each in google.headers] == [("Bearer ya29.x", "pays")] * 2


def test_an_expired_token_is_replaced_for_clients_that_cannot() -> None:
    """A session for Google's own client sends a request again with a new token, once."""
    google = Google(EXPIRED, OK)

    assert session(google, tokens=Renewable("ya29.x"), renews=True).get(URL).status_code == 200

    assert [token for token, _ in google.sent] == ["ya29.x", "ya29.x+"]


def test_a_token_never_reaches_the_wrong_cloud() -> None:
    """Whatever the source hands out: a token of the embedded cloud is not sent to Google."""
    google = Google()

    with pytest.raises(AccessError, match="a token that is not for it"):
        session(google, tokens=GivenToken(f"{EMBEDDED_TOKEN}.x")).get(URL)

    assert google.sent == []


def test_a_static_token_says_what_it_is() -> None:
    """Nothing is known of it but the quota project that the environment names."""
    environ = {"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.x", "GOOGLE_CLOUD_QUOTA_PROJECT": "q"}

    found = authorized_session(Endpoints(), environ).credential()

    assert found == Credential(Kind.ACCESS_TOKEN, "GOOGLE_OAUTH_ACCESS_TOKEN", quota_project="q")


EMBEDDED_USER = USER | {"refresh_token": "1//tpuflex-embedded.x"}
LOCAL = Endpoints(**dict.fromkeys(Endpoints.__slots__, "http://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("endpoints", "info", "problem"),
    [
        (
            Endpoints(),
            EMBEDDED_USER,
            "holds credentials of the embedded cloud, which",
        ),
        (LOCAL, USER, "holds credentials that are not the embedded cloud's"),
        (LOCAL, KEY, "holds credentials that are not the embedded cloud's"),
        (Endpoints(), KEY, "cannot be used as credentials (DefaultCredentialsError)"),
    ],
)
def test_files_stay_with_their_cloud(
    tmp_path: Path, endpoints: Endpoints, info: Any, problem: str
) -> None:
    """A file of the other cloud is refused before any of it is sent, and so is a broken one."""
    file = tmp_path / "adc.json"
    file.write_text(json.dumps(info))
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}

    for act in (
        lambda: require_credentials(endpoints, environ),
        lambda: authorized_session(endpoints, environ).credential(),
    ):
        with pytest.raises(AccessError) as refused:
            act()
        assert refused.value.message.startswith(f"{file} {problem}")
        assert "hidden" not in str(refused.value)


def test_a_metadata_server_elsewhere_is_not_the_embedded_clouds() -> None:
    """With endpoints on this machine, a metadata server that is not on it is refused."""
    environ = {"GCE_METADATA_HOST": "169.254.169.254", "CLOUDSDK_CONFIG": "/nowhere"}

    with pytest.raises(AccessError, match="GCE_METADATA_HOST does not name this machine"):
        require_credentials(LOCAL, environ)
