"""Where requests go, and which token goes with them."""

from __future__ import annotations

from dataclasses import fields

import pytest
import requests

from tests.loopback import overrides
from tpuflex.errors import AccessError, SettingsError
from tpuflex.google.endpoints import Endpoints, is_loopback
from tpuflex.google.session import AuthorizedSession, authorized_session

BASE = "http://127.0.0.1:8470"
LOCAL = {
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{BASE}/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{BASE}/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{BASE}/storage/v1/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{BASE}/compute/v1/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": f"{BASE}/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{BASE}/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": f"{BASE}/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_DNS": f"{BASE}/dns/v1/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": f"{BASE}/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{BASE}/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING": f"{BASE}/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_ARTIFACTREGISTRY": f"{BASE}/",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS": f"{BASE}/",
}
REAL_TOKEN = "ya29.a0RealLooking"
EMBEDDED = "ya29.tpuflex-embedded.of-a-test"


def authorization(session: AuthorizedSession, url: str) -> str:
    """The Authorization header that would be sent to ``url``."""
    prepared = session.prepare_request(requests.Request("GET", url))
    return str(prepared.headers["Authorization"])


def test_google_is_the_default() -> None:
    """Without overrides every API is Google's own."""
    found = Endpoints.from_environ({})

    assert found == Endpoints()
    assert found.tpu == "https://tpu.googleapis.com"
    assert not found.embedded


def test_gclouds_overrides_are_read() -> None:
    """gcloud's override variables move every API, without their API paths."""
    found = Endpoints.from_environ(LOCAL)

    assert found == Endpoints(**{each.name: BASE for each in fields(Endpoints)})
    assert overrides(BASE) == LOCAL
    assert found.embedded


def test_one_override_is_not_the_embedded_cloud() -> None:
    """Only when every API is on loopback is it the embedded cloud."""
    assert not Endpoints.from_environ(dict([next(iter(LOCAL.items()))])).embedded


@pytest.mark.parametrize("url", ["tpu.example", "ftp://127.0.0.1/", "http://tpu.example/"])
def test_unusable_overrides_are_refused(url: str) -> None:
    """An override that is no URL, or would send a token in clear text, is refused by name."""
    with pytest.raises(SettingsError) as refused:
        Endpoints.from_environ({"CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": url})

    assert refused.value.findings[0].key == "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"


@pytest.mark.parametrize(
    "url",
    [
        "http://198.51.100.7\\@127.0.0.1/",
        "http://127.0.0.1\\@198.51.100.7/",
        "http://198.51.100.7@127.0.0.1/",
        "http://:@127.0.0.1/",
        "http://127.0.0.1 .example/",
        "http://127.0.0.1\t/",
        "http://127.0.0.1\n.example/",
        "http://127.0.0.1%2f.example/",
        "http://127.0.0.1\uff0f.example/",
        "http://\u2460\u2461\u2467.0.0.1/",
        "http://[::1]198.51.100.7/",
        "http://[::1%25eth0]/",
        "http://127.0.0.1:port/",
        "http://127.0.0.1:99999/",
    ],
)
def test_a_url_that_parsers_read_differently_is_refused(url: str) -> None:
    """urllib3 takes the backslash for the end of the host, urllib does not: what is loopback to
    one must be so to all. An override that is not is refused by name."""
    assert not is_loopback(url)
    with pytest.raises(SettingsError) as refused:
        Endpoints.from_environ({"CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": url})

    assert refused.value.findings[0].key == "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"


@pytest.mark.parametrize(
    "url",
    [
        BASE,
        "http://localhost:8470/v1/",
        "http://[::1]:8470",
        "//127.0.0.1:1",
        f"{BASE}/storage/v1/b/x/o/a%2Fb?alt=media&q=a@b",
        f"{BASE}/v2alpha1/projects/p/locations/-/queuedResources?filter=a%20b#part",
        f"{BASE}/storage/v1/b/x/o/a@b.example",
    ],
)
def test_what_is_on_this_machine(url: str) -> None:
    """An address of its own, or localhost; path and query are free."""
    assert is_loopback(url)


def test_loopback_gets_only_the_embedded_token() -> None:
    """The embedded cloud never sees a real token, not even by mistake."""
    endpoints = Endpoints.from_environ(LOCAL)
    session = authorized_session(endpoints, {"GOOGLE_OAUTH_ACCESS_TOKEN": EMBEDDED})

    assert authorization(session, f"{BASE}/v2alpha1/x") == f"Bearer {EMBEDDED}"
    assert not session.trust_env
    with pytest.raises(AccessError) as refused:
        authorized_session(endpoints, {"GOOGLE_OAUTH_ACCESS_TOKEN": REAL_TOKEN})
    assert REAL_TOKEN not in str(refused.value)
    with pytest.raises(AccessError, match="not set") as missing:
        authorized_session(endpoints, {})
    assert "tpuflex emulator env" in str(missing.value.hint)
    with pytest.raises(AccessError, match=r"tpu\.googleapis\.com"):
        authorization(session, "https://tpu.googleapis.com/v2alpha1/x")


def test_google_gets_only_real_tokens() -> None:
    """Google's token goes to Google over TLS and nowhere else."""
    session = authorized_session(Endpoints(), {"GOOGLE_OAUTH_ACCESS_TOKEN": REAL_TOKEN})

    assert authorization(session, "https://tpu.googleapis.com/x") == f"Bearer {REAL_TOKEN}"
    for url in (
        BASE,
        "https://tpu.example/x",
        "http://tpu.googleapis.com/x",
        "http://us-east5-docker.pkg.dev/v2/",
        "https://docker.pkg.dev.example/v2/",
        "https://evil.gcr.io/v2/",
    ):
        with pytest.raises(AccessError) as refused:
            authorization(session, url)
        assert REAL_TOKEN not in str(refused.value)
    with pytest.raises(AccessError):
        authorized_session(Endpoints(), {"GOOGLE_OAUTH_ACCESS_TOKEN": EMBEDDED})


def test_mixed_endpoints_never_leak() -> None:
    """With some APIs on loopback, a real token is still refused there."""
    mixed = Endpoints(tpu=BASE)
    session = authorized_session(mixed, {"GOOGLE_OAUTH_ACCESS_TOKEN": REAL_TOKEN})

    with pytest.raises(AccessError):
        authorization(session, f"{BASE}/v2alpha1/x")
