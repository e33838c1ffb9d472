"""Which credential is in use is told from environment and files; no server is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tpuflex.engine.environment import plugins_own, with_quota_project
from tpuflex.errors import AccessError
from tpuflex.google.credentials import Credential, Kind, credentials_file, describe

USER = {
    "type": "authorized_user",
    "client_id": "764086051850-x.apps.googleusercontent.com",
    "client_secret": "hidden-1",
    "refresh_token": "1//hidden-2",
}
KEY = {
    "type": "service_account",
    "client_email": "deployer@p.iam.gserviceaccount.com",
    "private_key": "hidden-3",
    "token_uri": "https://oauth2.googleapis.com/token",
}
_IMPERSONATION = (
    "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
    "target@p.iam.gserviceaccount.com:generateAccessToken"
)
IMPERSONATED = {
    "type": "impersonated_service_account",
    "service_account_impersonation_url": _IMPERSONATION,
    "source_credentials": USER,
}
EXTERNAL = {
    "type": "external_account",
    "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p",
    "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    "token_url": "https://sts.googleapis.com/v1/token",
    "credential_source": {"file": "/hidden-4"},
}
QUOTA = {"quota_project_id": "quota-project"}


def environment(home: Path, info: Any, **more: str) -> dict[str, str]:
    """An environment whose credentials file has this content."""
    file = home / "adc.json"
    file.write_text(info if isinstance(info, str) else json.dumps(info))
    return {"HOME": str(home), "GOOGLE_APPLICATION_CREDENTIALS": str(file), **more}


@pytest.mark.parametrize(
    ("info", "more", "kind", "account", "quota"),
    [
        (USER, {}, Kind.USER, "", ""),
        (USER | {"account": "a@example.com"}, {}, Kind.USER, "a@example.com", ""),
        (USER | QUOTA, {}, Kind.USER, "", "quota-project"),
        (USER | QUOTA, {"GOOGLE_CLOUD_QUOTA_PROJECT": "named"}, Kind.USER, "", "named"),
        (KEY, {}, Kind.SERVICE_ACCOUNT, KEY["client_email"], ""),
        (IMPERSONATED, {}, Kind.IMPERSONATED, "target@p.iam.gserviceaccount.com", ""),
        (
            IMPERSONATED | QUOTA,
            {},
            Kind.IMPERSONATED,
            "target@p.iam.gserviceaccount.com",
            "quota-project",
        ),
        (EXTERNAL, {}, Kind.EXTERNAL_ACCOUNT, "", ""),
        (
            EXTERNAL | {"service_account_impersonation_url": _IMPERSONATION},
            {},
            Kind.EXTERNAL_ACCOUNT,
            "target@p.iam.gserviceaccount.com",
            "",
        ),
    ],
)
def test_a_file_says_what_it_is(
    tmp_path: Path, info: Any, more: dict[str, str], kind: Kind, account: str, quota: str
) -> None:
    """Kind, account and quota project come from the file; the environment wins."""
    environ = environment(tmp_path, info, **more)

    found = describe(environ)

    assert found == Credential(kind, environ["GOOGLE_APPLICATION_CREDENTIALS"], account, quota)
    assert found.lacks_quota_project == (kind is Kind.USER and not quota)
    assert "hidden" not in f"{found}{credentials_file(environ)!r}"


def test_the_order_of_sources(tmp_path: Path) -> None:
    """A token, then the named file, then gcloud's own file, then the metadata server."""
    assert describe({"HOME": str(tmp_path)}).kind is Kind.METADATA
    at_home = tmp_path / ".config/gcloud/application_default_credentials.json"
    at_home.parent.mkdir(parents=True)
    at_home.write_text(json.dumps(USER))
    assert describe({"HOME": str(tmp_path)}).source == str(at_home)
    moved = tmp_path / "moved"
    assert describe({"HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(moved)}).kind is Kind.METADATA
    environ = environment(tmp_path, KEY)
    assert describe(environ).kind is Kind.SERVICE_ACCOUNT
    token = describe({**environ, "GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.hidden"})
    assert token == Credential(Kind.ACCESS_TOKEN, "GOOGLE_OAUTH_ACCESS_TOKEN")


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        ("{", "is not a JSON object"),
        ("[" * 60_000, "is not a JSON object"),
        ("[1]", "is not a JSON object"),
        ("x" * 70_000, "more than 65536 bytes"),
        ({}, "is of type None; expected one of authorized_user"),
        ({"type": ["authorized_user"]}, "expected one of authorized_user"),
        ({"type": "gdch_service_account"}, "is of type 'gdch_service_account'"),
        (
            {"type": "authorized_user"},
            ": client_id, client_secret, refresh_token: text is expected",
        ),
        (USER | {"refresh_token": 5}, ": refresh_token: text is expected"),
        (USER | {"quota_project_id": ["p"]}, ": quota_project_id: text is expected"),
        (IMPERSONATED | {"source_credentials": 5}, ": source_credentials: an object is expected"),
        (
            IMPERSONATED | {"source_credentials": {"type": "\x1b[31m"}},
            r": source_credentials is of type '\x1b[31m'",
        ),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, info: Any, problem: str) -> None:
    """It is named with what is wrong and the way out; none of its secrets is repeated."""
    with pytest.raises(AccessError) as refused:
        describe(environment(tmp_path, info))

    assert refused.value.message.startswith("GOOGLE_APPLICATION_CREDENTIALS names ")
    assert problem in refused.value.message
    assert "gcloud auth application-default login" in str(refused.value.hint)
    assert "hidden" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A name that leads nowhere is an error; gcloud's file is looked for only without a name."""
    named = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none.json")}
    with pytest.raises(AccessError, match=r"none\.json, which cannot be read: No such file"):
        describe(named)


@pytest.mark.parametrize(
    ("info", "embedded"),
    [
        (USER, False),
        (KEY, False),
        (EXTERNAL, False),
        (USER | {"refresh_token": "1//tpuflex-embedded.x"}, True),
        (KEY | {"private_key_id": "tpuflex-embedded-1"}, True),
        (EXTERNAL | {"audience": "//x/workloadIdentityPools/tpuflex-embedded/providers/y"}, True),
        (IMPERSONATED, False),
        (
            IMPERSONATED
            | {"source_credentials": USER | {"refresh_token": "1//tpuflex-embedded.x"}},
            True,
        ),
    ],
)
def test_secrets_of_the_embedded_cloud_are_known(
    tmp_path: Path, info: dict[str, Any], embedded: bool
) -> None:
    """A file for the embedded cloud is told from one of Google's by the secret that it holds."""
    file = credentials_file(environment(tmp_path, info))
    assert file is not None
    assert file.embedded is embedded


@pytest.mark.parametrize(
    ("info", "more", "project"),
    [
        (USER, {}, "stack-project"),
        (USER | QUOTA, {}, "quota-project"),
        (USER | QUOTA, {"GOOGLE_CLOUD_QUOTA_PROJECT": "named"}, "named"),
        (KEY, {}, ""),
        (KEY, {"GOOGLE_CLOUD_QUOTA_PROJECT": "named"}, "named"),
        (USER, {"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.x"}, ""),
        (USER, {"USER_PROJECT_OVERRIDE": "false"}, ""),
        (USER, {"GOOGLE_BILLING_PROJECT": "own"}, ""),
    ],
)
def test_the_plugin_is_told_the_quota_project(
    tmp_path: Path, info: Any, more: dict[str, str], project: str
) -> None:
    """Its own variables name it, unless the user has set them or there is nothing to name."""
    environ = environment(tmp_path, info, **more)
    told = {"USER_PROJECT_OVERRIDE": "true", "GOOGLE_BILLING_PROJECT": project} if project else {}

    assert with_quota_project(environ, "stack-project") == {**environ, **told}


def test_credentials_that_only_the_plugin_reads() -> None:
    """They are named, so that nobody wonders who acted."""
    environ = {"GOOGLE_CREDENTIALS": "{}", "GCLOUD_KEYFILE_JSON": "", "GOOGLE_PROJECT": "p"}

    assert plugins_own(environ) == ("GOOGLE_CREDENTIALS",)
