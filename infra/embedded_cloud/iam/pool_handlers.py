"""HTTP calls on workload identity pools and their providers.

Every change is an operation that is done when it is answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from embedded_cloud.errors import invalid_argument
from embedded_cloud.iam.pools import Pools
from embedded_cloud.json_types import JsonObject, text
from embedded_cloud.paging import Paging
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Handler, Reply

_PAGING = Paging(default=50, maximum=1000)
_TYPE = "type.googleapis.com/google.iam.admin.v1."
_POOL_FIELDS = frozenset({"displayName", "description", "disabled"})
_PROVIDER_FIELDS = _POOL_FIELDS | {"attributeMapping", "attributeCondition", "oidc"}


class PoolHandlers:
    """Handlers of ``projects.locations.workloadIdentityPools`` and of its ``providers``."""

    def __init__(self, pools: Pools, project_number: Callable[[str], str]) -> None:
        self._pools = pools
        self._number_of = project_number

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
        }

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
        project = call.params["project"]
        return project if project.isdecimal() else self._number_of(require(project))

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
