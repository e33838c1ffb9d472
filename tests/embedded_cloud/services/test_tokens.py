"""The embedded cloud's token servers, asked by google-auth through our own session."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from embedded_cloud.core.access import USER_ACCOUNT
from embedded_cloud.core.clock import OffsetClock, SystemClock
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.services.tokens.credentials import KINDS
from embedded_cloud.services.tokens.identities import deployer
from tests.embedded_cloud.api import TOKEN, error_of
from tpuflex.errors import AccessError
from tpuflex.google.credentials import Kind, describe
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.session import EMBEDDED_TOKEN, AuthorizedSession, authorized_session

PROJECT = "my-project"
SECRETS = f"/v1/projects/{PROJECT}/secrets"
#: Kind of the embedded cloud -> what our client says of it.
DESCRIBED = {
    "user": (Kind.USER, ""),
    "service-account": (Kind.SERVICE_ACCOUNT, deployer(PROJECT)),
    "impersonated": (Kind.IMPERSONATED, deployer(PROJECT)),
    "external": (Kind.EXTERNAL_ACCOUNT, deployer(PROJECT)),
    "metadata": (Kind.METADATA, deployer(PROJECT)),
}


@pytest.fixture
def clock() -> OffsetClock:
    """The machine's time, which clients go by, until it is moved."""
    return OffsetClock(SystemClock(), 0)


@pytest.fixture
def running(tmp_path: Path, clock: OffsetClock) -> Iterator[EmbeddedCloud]:
    """A cloud whose tokens live for ten minutes, and that demands quota projects."""
    strictness: JsonObject = {"tokens": {"lifetime_s": 600, "quota_project_required": True}}
    with EmbeddedCloud(
        tmp_path / "emulator", clock=clock, project=PROJECT, strictness=strictness
    ) as cloud:
        yield cloud


def session(cloud: EmbeddedCloud, kind: str, project: str = "", **more: str) -> AuthorizedSession:
    """Our session, with credentials of this kind."""
    environ = {**cloud.environ(kind), **more}
    return authorized_session(Endpoints.from_environ(environ), environ, project)


def log_in(cloud: EmbeddedCloud, kind: str) -> dict[str, Any]:
    """What the credentials file of this kind holds."""
    return dict(json.loads(Path(cloud.environ(kind)["GOOGLE_APPLICATION_CREDENTIALS"]).read_text()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_credential_opens_the_apis(
    running: EmbeddedCloud, clock: OffsetClock, kind: str
) -> None:
    """Google-auth gets a token for each kind, which expires; then it gets another."""
    environ = running.environ(kind)
    assert "GOOGLE_OAUTH_ACCESS_TOKEN" not in environ
    with session(running, kind) as calls:
        found = calls.credential()
        assert (found.kind, found.account) == DESCRIBED[kind]
        assert calls.get(running.url + "/v1/projects/my-project/serviceAccounts").status_code == 200
        clock.advance(601)
        expired = calls.get(running.url + "/v1/projects/my-project/serviceAccounts")
        assert expired.status_code == 401
        assert 'error="invalid_token"' in expired.headers["WWW-Authenticate"]
        calls.refresh_token()
        assert calls.get(running.url + "/v1/projects/my-project/serviceAccounts").status_code == 200
    assert describe(environ).kind is DESCRIBED[kind][0]


def test_a_users_call_of_a_client_based_api_needs_a_quota_project(running: EmbeddedCloud) -> None:
    """Refused in Google's words without one; the stack's project or the credential's is it."""
    url = running.url + SECRETS
    status, code, message = error_of(session(running, "user").get(url))
    assert (status, code) == (403, "PERMISSION_DENIED")
    assert "The secretmanager.googleapis.com API requires a quota project" in message
    assert session(running, "user", PROJECT).get(url).status_code == 200
    named = session(running, "user", GOOGLE_CLOUD_QUOTA_PROJECT=PROJECT)
    assert named.get(url).status_code == 200
    assert session(running, "service-account").get(url).status_code == 200
    assert session(running, "token").get(url).status_code == 200


def test_secrets_are_others_after_each_start(tmp_path: Path) -> None:
    """P3: what was handed out before is worth nothing, and is renewed in its place, 0600."""
    with EmbeddedCloud(tmp_path / "emulator", project=PROJECT) as cloud:
        before = {kind: log_in(cloud, kind) for kind in ("user", "service-account")}
        path = Path(cloud.environ("user")["GOOGLE_APPLICATION_CREDENTIALS"])
    with EmbeddedCloud(tmp_path / "emulator", project=PROJECT) as cloud:
        user, key = before["user"], before["service-account"]
        for form in ({"grant_type": "refresh_token", "refresh_token": user["refresh_token"]}, {}):
            refused = requests.post(f"{cloud.url}/token", data=form, timeout=60)
            assert refused.status_code == 400
        renewed = json.loads(path.read_text())
        assert renewed["refresh_token"] != user["refresh_token"]
        assert log_in(cloud, "service-account")["private_key"] != key["private_key"]
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_log_in_meanwhile_is_taken(running: EmbeddedCloud) -> None:
    """A refresh token that is refused is read again from its file, where a new one may lie."""
    environ = running.environ("user")
    file = Path(environ["GOOGLE_APPLICATION_CREDENTIALS"])
    good = file.read_text()
    file.write_text(json.dumps(json.loads(good) | {"refresh_token": "1//tpuflex-embedded.x"}))
    calls = authorized_session(Endpoints.from_environ(environ), environ)
    with pytest.raises(AccessError):
        calls.credential()

    file.write_text(good)

    assert calls.credential().kind is Kind.USER


@pytest.mark.parametrize(
    ("path", "form", "error"),
    [
        ("token", {"grant_type": "password"}, "unsupported_grant_type"),
        ("token", {"grant_type": "refresh_token", "refresh_token": "1//x"}, "invalid_grant"),
        (
            "token",
            {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "a.b.c"},
            "invalid_grant",
        ),
        (
            "token",
            {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "\x00"},
            "invalid_grant",
        ),
        ("v1/token", {"grant_type": "refresh_token"}, "unsupported_grant_type"),
        (
            "v1/token",
            {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "audience": "x"},
            "invalid_target",
        ),
    ],
)
def test_what_the_token_servers_refuse(
    running: EmbeddedCloud, path: str, form: dict[str, str], error: str
) -> None:
    """400 in the form of RFC 6749, and no token."""
    refused = requests.post(f"{running.url}/{path}", data=form, timeout=60)

    assert refused.status_code == 400
    assert refused.json().keys() == {"error", "error_description"}
    assert refused.json()["error"] == error


def test_a_broken_form_is_refused(running: EmbeddedCloud) -> None:
    """Bytes that are no form get an answer, too."""
    for body in (b"\xff\xfe", b"&".join(b"a=%d" % number for number in range(100))):
        refused = requests.post(f"{running.url}/token", data=body, timeout=60)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


def test_there_is_no_metadata_server_unless_asked_for(running: EmbeddedCloud) -> None:
    """It gives tokens to every process of the owner, so it is there only when wanted, for clients
    that say what they talk to, and not through a proxy."""
    url = f"{running.url}/computeMetadata/v1/project/project-id"
    flavor = {"Metadata-Flavor": "Google"}
    for address in (url, running.url + "/"):
        assert requests.get(address, headers=flavor, timeout=60).status_code == 404
    running.environ("metadata")
    assert requests.get(url, timeout=60).status_code == 404
    proxied = {**flavor, "X-Forwarded-For": "192.0.2.1"}
    assert requests.get(url, headers=proxied, timeout=60).status_code == 404
    found = requests.get(url, headers=flavor, timeout=60)
    assert (found.text, found.headers["Metadata-Flavor"]) == (PROJECT, "Google")
    assert requests.get(running.url + "/", headers=flavor, timeout=60).status_code == 200
    missing = requests.get(url + "s", headers=flavor, timeout=60)
    assert missing.status_code == 404


def test_only_the_owners_token_controls_the_cloud(running: EmbeddedCloud) -> None:
    """P3: tokens that expire open the APIs; clock, faults and new credentials are the owner's."""
    calls = session(running, "user")
    for method, action in (("GET", "clock"), ("POST", "reset"), ("POST", "credentials")):
        refused = calls.request(method, f"{running.url}/_emulator/{action}", json={})
        assert refused.status_code == 403


def test_a_host_gets_no_token_of_another_account(running: EmbeddedCloud) -> None:
    """P3: the host's token does not become the deployer's through impersonation."""
    url = f"{running.url}/v1/projects/-/serviceAccounts/{deployer(PROJECT)}:generateAccessToken"
    token = running.cloud.access.host_token("us-east5-a/n/0")
    refused = requests.post(
        url, json={"scope": ["x"]}, headers={"Authorization": f"Bearer {token}"}, timeout=10
    )
    assert refused.status_code == 403


@pytest.mark.parametrize(
    ("account", "body", "status"),
    [
        (deployer(PROJECT), {"scope": ["x"], "lifetime": "300s"}, 200),
        (deployer(PROJECT), {}, 400),
        (deployer(PROJECT), {"scope": ["x"], "lifetime": "3601s"}, 400),
        (deployer(PROJECT), {"scope": ["x"], "lifetime": "soon"}, 400),
        (f"nobody@{PROJECT}.iam.gserviceaccount.com", {"scope": ["x"]}, 404),
    ],
)
def test_impersonation(
    running: EmbeddedCloud, account: str, body: dict[str, Any], status: int
) -> None:
    """A token for an account that exists, for an hour at most, in the form that clients read."""
    url = f"{running.url}/v1/projects/-/serviceAccounts/{account}:generateAccessToken"

    answer = session(running, "token").post(url, json=body)

    assert answer.status_code == status
    if status == 200:
        assert answer.json()["accessToken"].startswith(EMBEDDED_TOKEN)
        # Whole seconds: no other form is read by google-auth.
        expires = datetime.strptime(answer.json()["expireTime"], "%Y-%m-%dT%H:%M:%S%z")
        assert 290 < expires.timestamp() - running.clock.now() <= 300


@pytest.mark.parametrize(("status", "error"), [(503, requests.ConnectionError), (403, AccessError)])
def test_a_token_server_that_is_away_refuses_nobody(
    running: EmbeddedCloud, status: int, error: type[Exception]
) -> None:
    """503 of the second of two steps is worth another try; 403 is a refusal."""
    method = "iamcredentials.projects.serviceAccounts.generateAccessToken"
    rule = {
        "where": {"method_id": method},
        "times": 0,
        "effect": {"kind": "answer", "status": status},
    }
    with session(running, "token") as owner:
        put = owner.post(f"{running.url}/_emulator/faults", json={"rules": [rule]})
        assert put.status_code == 200, put.text

    with pytest.raises(error):
        session(running, "impersonated").credential()


def test_no_secret_reaches_the_history(running: EmbeddedCloud) -> None:
    """Requests for tokens are recorded as calls, without what they carry."""
    session(running, "impersonated").credential()
    kept = json.dumps([running.cloud.history.entries(0)])

    assert "oauth2.token" in kept
    assert "generateAccessToken" in kept
    assert "tpuflex-embedded." not in kept
    assert USER_ACCOUNT not in kept
    assert TOKEN not in kept
