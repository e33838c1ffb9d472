"""Workload identity pools and their providers. No HTTP.

What is deleted can be restored for 30 days, and its id stays taken meanwhile
(https://cloud.google.com/iam/docs/manage-workload-identity-pools-providers#delete-pool).
"""

from __future__ import annotations

import re

from embedded_cloud.clock import Clock, rfc3339
from embedded_cloud.errors import (
    already_exists,
    failed_precondition,
    invalid_argument,
    not_found,
)
from embedded_cloud.json_types import JsonObject, child, string_map, text
from embedded_cloud.store import Store

POOLS = "iam/workloadIdentityPools"
#: They go with their pool: no items of the inventory.
PROVIDERS = "_iam/workloadIdentityPoolProviders"
_DELETED = "_iam/deletedWorkloadIdentityPools"

_RESTORABLE_S = 30 * 86_400
_ID = re.compile(r"(?!gcp-)[a-z0-9-]{4,32}")
_SUBJECT = "google.subject"
#: Issuers that serve many organizations: a condition has to say whose tokens count
#: (https://cloud.google.com/iam/docs/workload-identity-federation-with-deployment-pipelines#conditions).
_SHARED_ISSUERS = ("https://token.actions.githubusercontent.com", "https://gitlab.com")


class Pools:
    """The workload identity pools of all projects, and their providers, by full name."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def require(self, name: str) -> JsonObject:
        """The pool or provider with that full name, deleted or not. Raises CloudError 404."""
        found = self._find(name)
        if found is None:
            raise not_found("Requested entity was not found.")
        return found

    def all(self, parent: str, *, deleted: bool) -> list[JsonObject]:
        """The pools, or the providers of a pool, whose names begin with ``parent``."""
        living = [value for _, value in self._store.list(_collection(parent), parent)]
        if not deleted:
            return living
        depth = parent.count("/")
        gone = (value for name, value in self._store.list(_DELETED, parent) if _at(name, depth))
        return living + [value for value in gone if not self._gone(value)]

    def create(self, parent: str, id_: str, asked: JsonObject) -> JsonObject:
        """A new pool, or a new provider of a pool.

        Raises:
            CloudError: 400, the id or a field is not allowed; 404, there is no pool; 409, the id is
                taken, perhaps by one that was deleted.
        """
        name = f"{parent}{id_}"
        if not _ID.fullmatch(id_):
            raise invalid_argument(
                f"The ID {id_!r} must be 4-32 characters, and may contain [a-z0-9-]; the prefix "
                "gcp- is reserved."
            )
        if parent.endswith("/providers/"):
            self.require(parent.removesuffix("/providers/"))
            _check_provider(asked)
        if self._find(name) is not None:
            raise already_exists("Requested entity already exists")
        made: JsonObject = {**asked, "name": name, "state": "ACTIVE"}
        self._store.put(_collection(name), name, made)
        return made

    def amend(self, name: str, changes: JsonObject) -> JsonObject:
        """The pool or provider with ``changes``; a null clears a field.

        Raises:
            CloudError: 400, it is deleted or a field is not allowed; 404, there is none.
        """
        before = self.require(name)
        if text(before, "state") == "DELETED":
            raise failed_precondition("The resource is deleted: undelete it first.")
        merged: JsonObject = {**before, **changes}
        after: JsonObject = {key: value for key, value in merged.items() if value is not None}
        if "/providers/" in name:
            _check_provider(after)
        self._store.put(_collection(name), name, after)
        return after

    def delete(self, name: str) -> JsonObject:
        """Delete it, so that it can be restored. Raises CloudError 404."""
        before = self._store.get(_collection(name), name)
        if before is None:
            raise not_found("Requested entity was not found.")
        expires = rfc3339(self._clock.now() + _RESTORABLE_S)
        gone: JsonObject = {**before, "state": "DELETED", "expireTime": expires}
        self._store.delete(_collection(name), name)
        self._store.put(_DELETED, name, gone)
        for provider, _ in self._store.list(PROVIDERS, f"{name}/providers/"):
            self.delete(provider)
        return gone

    def undelete(self, name: str) -> JsonObject:
        """Restore it; a pool's providers stay deleted.

        Raises:
            CloudError: 400, it is not deleted; 404, there is none.
        """
        found = self.require(name)
        if text(found, "state") != "DELETED":
            raise failed_precondition("The resource is not deleted.")
        self._store.delete(_DELETED, name)
        back: JsonObject = {key: value for key, value in found.items() if key != "expireTime"}
        back["state"] = "ACTIVE"
        self._store.put(_collection(name), name, back)
        return back

    def _find(self, name: str) -> JsonObject | None:
        found = self._store.get(_collection(name), name) or self._store.get(_DELETED, name)
        return None if found is None or self._gone(found) else found

    def _gone(self, found: JsonObject) -> bool:
        expires = text(found, "expireTime")
        return bool(expires) and expires <= rfc3339(self._clock.now())


def _collection(name: str) -> str:
    return PROVIDERS if "/providers/" in name else POOLS


def _at(name: str, depth: int) -> bool:
    return name.count("/") == depth


def _check_provider(asked: JsonObject) -> None:
    """Raises CloudError 400 for what no provider of OpenID Connect may be."""
    issuer = text(child(asked, "oidc"), "issuerUri")
    if not issuer.startswith("https://"):
        raise invalid_argument("The issuer URI must start with https://.")
    if _SUBJECT not in string_map(asked, "attributeMapping"):
        raise invalid_argument(f"The attribute mapping must map {_SUBJECT}.")
    if issuer.rstrip("/") in _SHARED_ISSUERS and "assertion." not in text(
        asked, "attributeCondition"
    ):
        raise invalid_argument(
            "The attribute condition must reference one of the provider's claims."
        )
