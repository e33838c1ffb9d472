"""Service accounts. No HTTP."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.errors import (
    CloudError,
    already_exists,
    cloud_error,
    failed_precondition,
    invalid_argument,
    not_found,
    precondition_failure,
)
from embedded_cloud.core.json_types import JsonObject, flag, number, text
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import Strictness

COLLECTION = "iam/serviceAccounts"

_DOMAIN = ".iam.gserviceaccount.com"
#: In the place of a project in the addresses of older service agents
#: (https://cloud.google.com/iam/docs/service-agents); those of the others begin with gcp-sa-.
_AGENTS = frozenset({"cloud-tpu", "compute-system", "gs-project-accounts"})
_ID = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PROJECT = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A service account that a user made."""

    project: str
    account_id: str
    created: float
    display_name: str = ""
    description: str = ""
    disabled: bool = False
    revision: int = 1

    @property
    def email(self) -> str:
        """Its address, which is also its name in policies."""
        return f"{self.account_id}@{self.project}{_DOMAIN}"

    @property
    def name(self) -> str:
        """Full resource name."""
        return f"projects/{self.project}/serviceAccounts/{self.email}"

    @property
    def unique_id(self) -> str:
        """21 digits; an account made again under an old address gets new ones."""
        seed = hashlib.sha256(f"{self.email}\0{self.created!r}".encode()).digest()
        return "1" + str(int.from_bytes(seed[:12], "big"))[:20].zfill(20)

    @property
    def etag(self) -> str:
        """Changes with every change."""
        return base64.b64encode(f"{self.revision:08d}".encode()).decode()


class ServiceAccounts:
    """All service accounts of all projects."""

    def __init__(self, store: Store, clock: Clock, strictness: Callable[[], Strictness]) -> None:
        self._store = store
        self._clock = clock
        self._strictness = strictness

    def all(self, project: str) -> list[ServiceAccount]:
        """The accounts of ``project``, by name."""
        prefix = f"projects/{project}/serviceAccounts/"
        return [_from_json(value) for _, value in self._store.list(COLLECTION, prefix)]

    def require(self, project: str, account: str) -> ServiceAccount:
        """The account by email or unique id; ``-`` as project stands for the account's own.

        Raises:
            CloudError: 404.
        """
        found = named_account(self._store, project, account)
        if found is None:
            raise not_found("Unknown service account")
        return found

    def settled(self, project: str, account: str) -> ServiceAccount:
        """As :meth:`require`, but 404 also for one that was made a moment ago.

        Reads are eventually consistent, so clients poll after they have made an account
        (https://cloud.google.com/iam/docs/service-accounts-create).
        """
        found = self.require(project, account)
        if self._clock.now() < found.created + self._strictness().service_accounts.known_after_s:
            raise not_found("Unknown service account")
        return found

    def create(
        self, project: str, account_id: str, *, display_name: str, description: str
    ) -> ServiceAccount:
        """A new account.

        Raises:
            CloudError: 400, the id or a text is not allowed, or no account is (code 9); 409, the
                id is taken.
        """
        policies = self._strictness().organization_policies
        if policies.enforces("iam.disableServiceAccountCreation"):
            raise _creation_forbidden(project)
        if not 6 <= len(account_id) <= 30:
            raise invalid_argument(
                f'The account ID "{account_id}" does not have a length between 6 and 30.'
            )
        if not _ID.fullmatch(account_id):
            raise invalid_argument(
                f'The account ID "{account_id}" must match the regular expression {_ID.pattern}.'
            )
        check_texts(display_name, description)
        account = ServiceAccount(project, account_id, self._clock.now(), display_name, description)
        if self._store.get(COLLECTION, account.name):
            raise already_exists(
                f"Service account {account_id} already exists within project projects/{project}."
            )
        self._put(account)
        return account

    def amend(
        self,
        account: ServiceAccount,
        *,
        display_name: str | None = None,
        description: str | None = None,
        disabled: bool | None = None,
    ) -> ServiceAccount:
        """Change what is not None. Raises CloudError 400 for a text that is too long."""
        changed = replace(
            account,
            display_name=account.display_name if display_name is None else display_name,
            description=account.description if description is None else description,
            disabled=account.disabled if disabled is None else disabled,
            revision=account.revision + 1,
        )
        check_texts(changed.display_name, changed.description)
        self._put(changed)
        return changed

    def check_etag(self, account: ServiceAccount, etag: str) -> None:
        """Raises CloudError 400 when ``etag`` is given and stale."""
        if etag and etag != account.etag:
            raise failed_precondition("Etag in the request does not match the account's.")

    def delete(self, account: ServiceAccount) -> None:
        """Delete the account."""
        self._store.delete(COLLECTION, account.name)

    def _put(self, account: ServiceAccount) -> None:
        self._store.put(COLLECTION, account.name, _to_json(account))


def named_account(store: Store, project: str, account: str) -> ServiceAccount | None:
    """The account by email or unique id; ``-`` as project stands for the account's own."""
    if "@" in account:
        where = project_of(account) if project == "-" else project
        value = store.get(COLLECTION, f"projects/{where}/serviceAccounts/{account}")
        return None if value is None else _from_json(value)
    prefix = "projects/" if project == "-" else f"projects/{project}/"
    accounts = (_from_json(value) for _, value in store.list(COLLECTION, prefix))
    return next((each for each in accounts if each.unique_id == account), None)


def exists(store: Store, email: str, *, made_by: float) -> bool:
    """Whether the service account ``email`` can be named, if it was made by that time.

    Accounts that Google makes (service agents, the default accounts) are taken to exist.
    """
    project = project_of(email)
    agents = project in _AGENTS or project.startswith("gcp-sa-")
    if agents or not _PROJECT.fullmatch(project):
        return email.endswith(".gserviceaccount.com")
    value = store.get(COLLECTION, f"projects/{project}/serviceAccounts/{email}")
    return value is not None and _from_json(value).created <= made_by


def project_of(email: str) -> str:
    """The project in a user-made account's address; empty for other addresses."""
    _, _, host = email.partition("@")
    return host.removesuffix(_DOMAIN) if host.endswith(_DOMAIN) else ""


def check_texts(display_name: str, description: str) -> None:
    """Raises CloudError 400 when a text is longer than Google allows (bytes of UTF-8)."""
    if len(display_name.encode()) > 100:
        raise invalid_argument("The display name must be at most 100 UTF-8 bytes long.")
    if len(description.encode()) > 256:
        raise invalid_argument("The description must be at most 256 UTF-8 bytes long.")


def _creation_forbidden(project: str) -> CloudError:
    """https://cloud.google.com/iam/docs/troubleshoot-org-policies, with the body of the answer."""
    message = "Service account creation is not allowed on this project."
    violation = precondition_failure(
        type="constraints/iam.disableServiceAccountCreation",
        subject=f"projects/{project}/serviceAccounts/?configvalue=",
        description=message,
    )
    return cloud_error("FAILED_PRECONDITION", message, [violation])


def _to_json(account: ServiceAccount) -> JsonObject:
    return {
        "project": account.project,
        "accountId": account.account_id,
        "created": account.created,
        "displayName": account.display_name,
        "description": account.description,
        "disabled": account.disabled,
        "revision": account.revision,
    }


def _from_json(value: JsonObject) -> ServiceAccount:
    return ServiceAccount(
        project=text(value, "project"),
        account_id=text(value, "accountId"),
        created=number(value, "created"),
        display_name=text(value, "displayName"),
        description=text(value, "description"),
        disabled=flag(value, "disabled"),
        revision=int(number(value, "revision", 1)),
    )
