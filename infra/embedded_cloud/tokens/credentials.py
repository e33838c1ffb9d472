"""Credentials that are handed out to the owner's clients, each as Google's clients find it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from embedded_cloud.access import Caller, Principal
from embedded_cloud.errors import invalid_argument
from embedded_cloud.json_types import JsonObject, text
from embedded_cloud.private_files import private_directory
from embedded_cloud.store import Store
from embedded_cloud.tokens.documents import DOCUMENTS, Issue
from embedded_cloud.tokens.identities import USER_ACCOUNT, Identities, deployer
from tpuflex.trusted_files import write_private

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
        project_number: project id -> number.
    """

    def __init__(
        self,
        directory: Path,
        identities: Identities,
        store: Store,
        base_url: Callable[[], str],
        project_number: Callable[[str], str],
    ) -> None:
        self._directory = directory
        self._identities = identities
        self._store = store
        self._base_url = base_url
        self._project_number = project_number

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
            self._identities.metadata_project = project
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
        private_directory(self._directory)
        subject = self._directory / _SUBJECT_FILE
        write_private(subject, self._identities.subject_token)
        issue = Issue(
            self._identities, self._base_url(), project, self._project_number(project), subject
        )
        document: JsonObject = DOCUMENTS[kind](issue)
        path = self._directory / f"{kind}.json"
        write_private(path, json.dumps(document, indent=2))
        return path
