"""HTTP calls on roles."""

from __future__ import annotations

from dataclasses import replace

from embedded_cloud.contract_schema import snake
from embedded_cloud.errors import invalid_argument, not_found
from embedded_cloud.iam.custom_roles import CustomRole, CustomRoles
from embedded_cloud.iam.predefined import predefined_roles
from embedded_cloud.json_types import JsonObject, JsonValue, child, text, texts
from embedded_cloud.paging import Paging
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Reply

_PAGING = Paging(default=300, maximum=1000)
_PATCHABLE = frozenset({"title", "description", "included_permissions", "stage"})


class RoleHandlers:
    """Handlers of ``projects.roles``, and of the roles that Google has made."""

    def __init__(self, roles: CustomRoles) -> None:
        self._roles = roles

    def create(self, call: Call) -> Reply:
        """POST /v1/projects/{project}/roles."""
        body = call.body or {}
        sent = child(body, "role")
        role = CustomRole(require(call.params["project"]), text(body, "roleId"))
        return Reply(body=_resource(self._roles.create(_with(role, sent, _PATCHABLE))))

    def get(self, call: Call) -> Reply:
        """GET /v1/projects/{project}/roles/{role}."""
        return Reply(body=_resource(self._role(call)))

    def list(self, call: Call) -> Reply:
        """GET /v1/projects/{project}/roles: without permissions, unless the view is FULL."""
        shown = call.query.get("showDeleted", "").lower() == "true"
        full = call.query.get("view") == "FULL"
        roles = [
            role
            for role in self._roles.all(require(call.params["project"]))
            if shown or not role.deleted
        ]
        return _PAGING.reply(
            call, "roles", roles, lambda role: role.name, lambda role: _resource(role, full=full)
        )

    def patch(self, call: Call) -> Reply:
        """PATCH /v1/projects/{project}/roles/{role}: what updateMask names, or all that is sent."""
        sent, role = call.body or {}, self._role(call)
        named = {snake(path.strip()) for path in call.query.get("updateMask", "").split(",")} - {""}
        if not named <= _PATCHABLE:
            raise invalid_argument(f"updateMask may name {', '.join(sorted(_PATCHABLE))} only.")
        mask = named or _PATCHABLE & {snake(key) for key in sent}
        changed = self._roles.change(role, _with(role, sent, mask), text(sent, "etag"))
        return Reply(body=_resource(changed))

    def delete(self, call: Call) -> Reply:
        """DELETE /v1/projects/{project}/roles/{role}."""
        gone = self._roles.delete(self._role(call), call.query.get("etag", ""))
        return Reply(body=_resource(gone))

    def undelete(self, call: Call) -> Reply:
        """POST …:undelete."""
        back = self._roles.undelete(self._role(call), text(call.body or {}, "etag"))
        return Reply(body=_resource(back))

    def get_predefined(self, call: Call) -> Reply:
        """GET /v1/roles/{role}: with the names that the data here has, patterns among them."""
        role = predefined_roles().get(f"roles/{call.id}")
        if role is None:
            raise not_found(f"The role named roles/{call.id} was not found.")
        return Reply(
            body={
                "name": role.name,
                "title": role.title,
                "stage": "GA",
                "etag": "AA==",
                "includedPermissions": list[JsonValue](role.includes),
            }
        )

    def _role(self, call: Call) -> CustomRole:
        return self._roles.require(f"projects/{require(call.params['project'])}/roles/{call.id}")


def _with(role: CustomRole, sent: JsonObject, mask: frozenset[str] | set[str]) -> CustomRole:
    """``role`` with the fields of ``sent`` that ``mask`` names."""
    if "included_permissions" in mask:
        role = replace(role, permissions=tuple(texts(sent, "includedPermissions")))
    if "stage" in mask and sent.get("stage"):
        role = replace(role, stage=text(sent, "stage"))
    if "title" in mask:
        role = replace(role, title=text(sent, "title"))
    if "description" in mask:
        role = replace(role, description=text(sent, "description"))
    return role


def _resource(role: CustomRole, *, full: bool = True) -> JsonObject:
    resource: JsonObject = {"name": role.name, "stage": role.stage, "etag": role.etag}
    if role.title:
        resource["title"] = role.title
    if role.description:
        resource["description"] = role.description
    if full and role.permissions:
        resource["includedPermissions"] = list[JsonValue](role.permissions)
    if role.deleted:
        resource["deleted"] = True
    return resource
