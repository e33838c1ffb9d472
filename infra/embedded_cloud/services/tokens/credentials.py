"""Credentials that are handed out to the owner's clients, each as Google's clients find it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from embedded_cloud.core.access import USER_ACCOUNT, Caller, Principal
from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.core.projects import project_number
from embedded_cloud.core.store import Store
from embedded_cloud.services.tokens.identities import (
    CLIENT_ID,
    Identities,
    audience,
    deployer,
)
from tpuflex.files.trusted import own_directory, write_private


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


METADATA = "metadata"
USER = "user"
#: All kinds; the token in the environment is none of them.
KINDS = (*DOCUMENTS, METADATA)
_COLLECTION = "_credentials"
_SUBJECT_FILE = "subject-token"


class Credentials:
    """Hands out credentials, and renews what was handed out when the cloud starts again.

    Args:
        directory: where files go, which nobody else may read.
        identities: the secrets of this start.
        store: remembers what was handed out.
        base_url: where the token servers are, once they listen.
    """

    def __init__(
        self,
        directory: Path,
        identities: Identities,
        store: Store,
        base_url: Callable[[], str],
    ) -> None:
        self._directory = directory
        self._identities = identities
        self._store = store
        self._base_url = base_url

    def issue(self, kind: str, project: str) -> dict[str, str]:
        """The variables by which Google's clients find a new credential.

        Args:
            kind: one of :data:`KINDS`.
            project: project of the service account that it is for.

        Raises:
            CloudError: 400: there is no such kind.
        """
        self.caller(kind, project)
        self._store.put(_COLLECTION, kind, {"project": project})
        if kind == METADATA:
            self._identities.serve_metadata(project)
            address = self._base_url().removeprefix("http://")
            return {"GCE_METADATA_HOST": address, "GCE_METADATA_IP": address}
        return {"GOOGLE_APPLICATION_CREDENTIALS": str(self._write(kind, project))}

    def caller(self, kind: str, project: str) -> Caller:
        """Whom a credential stands for.

        Raises:
            CloudError: 400: there is no such kind.
        """
        if kind not in KINDS or not project:
            raise invalid_argument(f"expected a project, and as kind one of {', '.join(KINDS)}")
        if kind == USER:
            return Caller(Principal.USER, USER_ACCOUNT)
        return Caller(Principal.SERVICE_ACCOUNT, deployer(project))

    def renew(self) -> None:
        """Hand out again, with the secrets of this start, what earlier starts have handed out."""
        for kind, record in self._store.list(_COLLECTION):
            self.issue(kind, text(record, "project"))

    def _write(self, kind: str, project: str) -> Path:
        own_directory(self._directory)
        subject = self._directory / _SUBJECT_FILE
        write_private(subject, self._identities.subject_token)
        issue = Issue(self._identities, self._base_url(), project, project_number(project), subject)
        document: JsonObject = DOCUMENTS[kind](issue)
        path = self._directory / f"{kind}.json"
        write_private(path, json.dumps(document, indent=2))
        return path
