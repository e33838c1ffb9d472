"""Roles: Google's, whose permissions are in ``data/predefined_roles.yaml``, and a project's own.

https://cloud.google.com/iam/docs/creating-custom-roles
"""

from __future__ import annotations

import base64
import pkgutil
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.contract_schema import snake
from embedded_cloud.core.errors import (
    already_exists,
    cloud_error,
    failed_precondition,
    invalid_argument,
    not_found,
)
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    as_object,
    child,
    number,
    text,
    texts,
)
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import require
from embedded_cloud.core.routing import Call, Reply
from embedded_cloud.core.store import Store

_FILE = "data/predefined_roles.yaml"


@dataclass(frozen=True, slots=True)
class PredefinedRole:
    """One role of Google's.

    Attributes:
        name: such as ``roles/viewer``.
        title: what the console shows.
        includes: names of permissions, where ``*`` stands for any text.
        excludes: what these name is not in the role.
    """

    name: str
    title: str
    includes: tuple[str, ...]
    excludes: tuple[str, ...] = ()

    def holds(self, permission: str) -> bool:
        """Whether ``permission`` is in the role."""
        return _matches(permission, self.includes) and not _matches(permission, self.excludes)


@cache
def predefined_roles() -> Mapping[str, PredefinedRole]:
    """The roles that are known, by name."""
    # Here: an embedded cloud that does not enforce IAM needs none of it.
    import yaml

    document = yaml.safe_load(pkgutil.get_data("embedded_cloud.services.iam", _FILE) or b"")
    return {name: _role(name, as_object(row)) for name, row in document.items()}


def _role(name: str, row: JsonObject) -> PredefinedRole:
    return PredefinedRole(
        name, text(row, "title"), tuple(texts(row, "permissions")), tuple(texts(row, "except"))
    )


def _matches(permission: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(permission, pattern) for pattern in patterns)


COLLECTION = "iam/roles"

_ID = re.compile(r"[a-zA-Z0-9_.]{3,64}")
_STAGES = ("ALPHA", "BETA", "GA", "DEPRECATED", "DISABLED", "EAP")
#: Any name in this form is taken: Google has far more permissions than are asked for here.
_PERMISSION = re.compile(r"[a-z]\w*(\.[a-zA-Z]\w*){2}")
#: Only roles of organizations may hold it
#: (https://cloud.google.com/iam/docs/understanding-custom-roles#known_limitations).
_NOT_IN_PROJECTS = frozenset({"resourcemanager.projects.list"})
_DAY_S = 86_400
#: A deleted role can be had back for so long, and its id is taken for so long
#: (https://cloud.google.com/iam/docs/creating-custom-roles#deleting-custom-role).
_UNDELETED_WITHIN_S = 7 * _DAY_S
_TAKEN_FOR_S = 37 * _DAY_S


@dataclass(frozen=True, slots=True)
class CustomRole:
    """A role of a project; ``deleted`` is when it was deleted, or 0."""

    project: str
    role_id: str
    permissions: tuple[str, ...] = ()
    title: str = ""
    description: str = ""
    stage: str = "ALPHA"
    deleted: float = 0.0
    revision: int = 1

    @property
    def name(self) -> str:
        """Full resource name, as bindings give it."""
        return f"projects/{self.project}/roles/{self.role_id}"

    @property
    def etag(self) -> str:
        """Changes with every change."""
        return base64.b64encode(b"\x07" + self.revision.to_bytes(7, "big")).decode()


class CustomRoles:
    """The roles of all projects.

    Args:
        store: where they are kept.
        clock: the cloud's time.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def all(self, project: str) -> list[CustomRole]:
        """The roles of ``project``, the deleted ones among them, by name."""
        listed = self._store.list(COLLECTION, f"projects/{project}/roles/")
        return [role for _, value in listed if not self._forgotten(role := _from_json(value))]

    def require(self, name: str) -> CustomRole:
        """The role called ``name``, deleted or not.

        Raises:
            CloudError: 404.
        """
        value = self._store.get(COLLECTION, name)
        if value is None or self._forgotten(role := _from_json(value)):
            raise not_found(f"The role named {name} was not found.")
        return role

    def create(self, role: CustomRole) -> CustomRole:
        """Keep a new role.

        Raises:
            CloudError: 400, the id, the stage or a permission is not valid, or the id is that of a
                role that was deleted; 409, the id is taken.
        """
        if not _ID.fullmatch(role.role_id):
            raise invalid_argument(
                f"The role ID {role.role_id!r} must match the regular expression {_ID.pattern}."
            )
        value = self._store.get(COLLECTION, role.name)
        if value is not None and not self._forgotten(before := _from_json(value)):
            if before.deleted:
                # GoogleCloudPlatform/gke-autoneg-controller#71
                raise failed_precondition(
                    f"You can't create a role_id ({role.role_id}) which has been marked for"
                    " deletion."
                )
            raise already_exists(
                f"A role named {role.role_id} in projects/{role.project} already exists."
            )
        return self._put(role)

    def change(self, before: CustomRole, after: CustomRole, etag: str = "") -> CustomRole:
        """Replace a role that is not deleted.

        Raises:
            CloudError: 400, it is deleted, or something is not valid; 409, ``etag`` is given and
                stale.
        """
        self._check_etag(before, etag)
        if before.deleted:
            raise failed_precondition(f"The role {before.name} has been deleted.")
        return self._put(replace(after, revision=before.revision + 1))

    def delete(self, role: CustomRole, etag: str = "") -> CustomRole:
        """Mark a role as deleted: its bindings stay, and grant nothing.

        Raises:
            CloudError: 400, it is deleted already; 409, ``etag`` is given and stale.
        """
        return self.change(role, replace(role, deleted=self._clock.now()), etag)

    def undelete(self, role: CustomRole, etag: str = "") -> CustomRole:
        """Take a deletion back.

        Raises:
            CloudError: 400, it is not deleted, or was too long ago; 409, ``etag`` is stale.
        """
        self._check_etag(role, etag)
        if not role.deleted:
            raise failed_precondition(f"The role {role.name} is not deleted.")
        if self._clock.now() > role.deleted + _UNDELETED_WITHIN_S:
            raise failed_precondition(f"The role {role.name} can no longer be undeleted.")
        return self._put(replace(role, deleted=0.0, revision=role.revision + 1))

    def _check_etag(self, role: CustomRole, etag: str) -> None:
        if etag and etag != role.etag:
            raise cloud_error(
                "ABORTED",
                "There were concurrent changes of the role. Please retry the whole"
                " read-modify-write with exponential backoff.",
            )

    def _put(self, role: CustomRole) -> CustomRole:
        if role.stage not in _STAGES:
            raise invalid_argument(f"The stage {role.stage!r} is not one of {', '.join(_STAGES)}.")
        for permission in role.permissions:
            if not _PERMISSION.fullmatch(permission) or permission in _NOT_IN_PROJECTS:
                raise invalid_argument(f"Permission {permission} is not valid.")
        kept = replace(role, permissions=tuple(sorted({*role.permissions})))
        self._store.put(COLLECTION, kept.name, _to_json(kept))
        return kept

    def _forgotten(self, role: CustomRole) -> bool:
        return bool(role.deleted) and self._clock.now() > role.deleted + _TAKEN_FOR_S


def permissions_of(store: Store, name: str) -> frozenset[str] | None:
    """What the custom role ``name`` grants: nothing once it is deleted; None if there is none."""
    value = store.get(COLLECTION, name)
    if value is None:
        return None
    role = _from_json(value)
    granted = not role.deleted and role.stage != "DISABLED"
    return frozenset(role.permissions) if granted else frozenset()


def _to_json(role: CustomRole) -> JsonObject:
    return {
        "project": role.project,
        "roleId": role.role_id,
        "permissions": list[JsonValue](role.permissions),
        "title": role.title,
        "description": role.description,
        "stage": role.stage,
        "deleted": role.deleted,
        "revision": role.revision,
    }


def _from_json(value: JsonObject) -> CustomRole:
    return CustomRole(
        project=text(value, "project"),
        role_id=text(value, "roleId"),
        permissions=tuple(texts(value, "permissions")),
        title=text(value, "title"),
        description=text(value, "description"),
        stage=text(value, "stage"),
        deleted=number(value, "deleted"),
        revision=int(number(value, "revision", 1)),
    )


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
