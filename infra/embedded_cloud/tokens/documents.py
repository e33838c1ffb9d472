"""What files of Application Default Credentials hold (https://google.aip.dev/auth/4110)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from embedded_cloud.json_types import JsonObject
from embedded_cloud.tokens.identities import CLIENT_ID, Identities, audience, deployer


@dataclass(frozen=True, slots=True)
class Issue:
    """What a file is made from.

    Attributes:
        identities: the secrets.
        base_url: where the token servers are, without trailing slash.
        project: project of the service account.
        project_number: its number.
        subject_file: where the token of the workload identity provider lies.
    """

    identities: Identities
    base_url: str
    project: str
    project_number: str
    subject_file: Path


def user(issue: Issue) -> JsonObject:
    """A user's, as `gcloud auth application-default login` writes it, without a quota project."""
    return {
        "type": "authorized_user",
        "client_id": CLIENT_ID,
        "client_secret": "tpuflex-embedded",
        "refresh_token": issue.identities.refresh_token,
        # Go's library goes there; Python's goes to Google whatever is written here.
        "token_uri": f"{issue.base_url}/token",
        "universe_domain": "googleapis.com",
        "account": "",
    }


def service_account(issue: Issue) -> JsonObject:
    """A service account's key."""
    account = deployer(issue.project)
    key_id, private = issue.identities.new_key(account)
    return {
        "type": "service_account",
        "project_id": issue.project,
        "private_key_id": key_id,
        "private_key": private,
        "client_email": account,
        "client_id": issue.project_number,
        "token_uri": f"{issue.base_url}/token",
        "universe_domain": "googleapis.com",
    }


def impersonated(issue: Issue) -> JsonObject:
    """A service account that the user acts as."""
    return {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": _impersonation(issue),
        "delegates": [],
        "source_credentials": user(issue),
    }


def external(issue: Issue) -> JsonObject:
    """Workload identity federation, with a token of another provider in a file."""
    return {
        "type": "external_account",
        "audience": audience(issue.project_number),
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{issue.base_url}/v1/token",
        "service_account_impersonation_url": _impersonation(issue),
        "credential_source": {"file": str(issue.subject_file)},
        "universe_domain": "googleapis.com",
    }


#: The kinds that are files.
DOCUMENTS: dict[str, Callable[[Issue], JsonObject]] = {
    "user": user,
    "service-account": service_account,
    "impersonated": impersonated,
    "external": external,
}


def _impersonation(issue: Issue) -> str:
    account = deployer(issue.project)
    return f"{issue.base_url}/v1/projects/-/serviceAccounts/{account}:generateAccessToken"
