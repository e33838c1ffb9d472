"""Workload identity pools and their providers.

What is deleted can be restored for 30 days, and its id stays taken meanwhile
(https://cloud.google.com/iam/docs/manage-workload-identity-pools-providers#delete-pool).

Every change is an operation that is done when it is answered.
"""

from __future__ import annotations

import hashlib
import re

from embedded_cloud.core.clock import Clock, rfc3339
from embedded_cloud.core.errors import (
    already_exists,
    failed_precondition,
    invalid_argument,
    not_found,
)
from embedded_cloud.core.json_types import JsonObject, child, string_map, text
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import number_of
from embedded_cloud.core.routing import Call, Handler, Reply
from embedded_cloud.core.store import Store

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


_PAGING = Paging(default=50, maximum=1000)
_TYPE = "type.googleapis.com/google.iam.admin.v1."
_POOL_FIELDS = frozenset({"displayName", "description", "disabled"})
_PROVIDER_FIELDS = _POOL_FIELDS | {"attributeMapping", "attributeCondition", "oidc"}


class PoolHandlers:
    """Handlers of ``projects.locations.workloadIdentityPools`` and of its ``providers``."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    def handlers(self) -> dict[str, Handler]:
        """The handlers by method id; pools and providers have the same methods."""
        pools = "iam.projects.locations.workloadIdentityPools"
        by_verb: dict[str, Handler] = {
            "create": self.create,
            "list": self.list,
            "get": self.get,
            "patch": self.patch,
            "delete": self.delete,
            "undelete": self.undelete,
        }
        return {
            f"{kind}.{verb}": handler
            for kind in (pools, f"{pools}.providers")
            for verb, handler in by_verb.items()
        } | {f"{pools}.listAttestationRules": self.list_attestation_rules}

    def create(self, call: Call) -> Reply:
        """POST …/workloadIdentityPools, …/providers."""
        kind = "Provider" if "/providers" in call.path else ""
        id_ = call.query.get(f"workloadIdentityPool{kind}Id", "")
        fields = _PROVIDER_FIELDS if kind else _POOL_FIELDS
        asked = {key: value for key, value in (call.body or {}).items() if key in fields}
        return self._done(self._pools.create(self._parent(call), id_, asked))

    def get(self, call: Call) -> Reply:
        """GET …/{pool}, …/{provider}."""
        return Reply(body=self._pools.require(self._name(call)))

    def list(self, call: Call) -> Reply:
        """GET …/workloadIdentityPools, …/providers; what is deleted only with showDeleted."""
        field = "workloadIdentityPools"
        if call.method_id.endswith("providers.list"):
            field = "workloadIdentityPoolProviders"
        deleted = call.query.get("showDeleted", "").lower() == "true"
        found = self._pools.all(self._parent(call), deleted=deleted)
        return _PAGING.resources(call, field, found)

    def list_attestation_rules(self, call: Call) -> Reply:
        """GET …/{pool}:listAttestationRules: there are none, because none can be made here.
        pulumi-gcp asks whenever it reads a pool."""
        self._pools.require(self._name(call))
        return Reply(body={})

    def patch(self, call: Call) -> Reply:
        """PATCH …: only what updateMask names changes."""
        sent, name = call.body or {}, self._name(call)
        mask = [path.partition(".")[0] for path in call.query.get("updateMask", "").split(",")]
        fields = _PROVIDER_FIELDS if "/providers/" in name else _POOL_FIELDS
        if not fields.issuperset(mask):
            raise invalid_argument(f"updateMask may name {', '.join(sorted(fields))} only.")
        changes: JsonObject = {key: sent.get(key) for key in mask}
        return self._done(self._pools.amend(name, changes))

    def delete(self, call: Call) -> Reply:
        """DELETE …: it can be restored for 30 days."""
        return self._done(self._pools.delete(self._name(call)))

    def undelete(self, call: Call) -> Reply:
        """POST …:undelete."""
        return self._done(self._pools.undelete(self._name(call)))

    def _parent(self, call: Call) -> str:
        """What the names of a collection's members begin with."""
        place = f"projects/{self._number(call)}/locations/{call.params['location']}"
        pool = call.params.get("workloadIdentityPool")
        pools = f"{place}/workloadIdentityPools/"
        return f"{pools}{pool}/providers/" if pool else pools

    def _name(self, call: Call) -> str:
        if call.params.get("provider"):
            return f"{self._parent(call)}{call.params['provider']}"
        return self._parent(call).removesuffix("/providers/")

    def _number(self, call: Call) -> str:
        """Google names pools by the project's number, whichever the path has."""
        return number_of(call.params["project"])

    def _done(self, resource: JsonObject) -> Reply:
        name = text(resource, "name")
        kind = "WorkloadIdentityPoolProvider" if "/providers/" in name else "WorkloadIdentityPool"
        seed = repr(sorted(resource.items(), key=str)).encode()
        operation = hashlib.sha256(seed).hexdigest()[:24]
        return Reply(
            body={
                "name": f"{name}/operations/{operation}",
                "done": True,
                "response": {"@type": f"{_TYPE}{kind}", **resource},
            }
        )
