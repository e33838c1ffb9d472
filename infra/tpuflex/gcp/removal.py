"""Deletion of one resource of any kind, after its owner marker was read once more."""

from __future__ import annotations

from urllib.parse import quote

from pydantic import JsonValue

from tpuflex.errors import AlreadyExistsError, NotFoundError
from tpuflex.gcp.dns_records import delete_record_sets
from tpuflex.gcp.listing import Apis, CloudResource, entries, objects, owner_now
from tpuflex.gcp.transport import Api, JsonObject

#: Version 3 keeps conditions (https://cloud.google.com/iam/docs/policies).
_POLICY: JsonObject = {"options": {"requestedPolicyVersion": 3}}


def remove(resource: CloudResource, apis: Apis) -> None:
    """Ask for the deletion of ``resource``; it is over when :func:`gone`.

    The marker is read first: what carries another one by now, or none, is not touched.

    Raises:
        NotFoundError: it is gone already.
        ConflictError: not possible in its present state; perhaps later.
        AccessError, ApiError: the API refuses, or it is not ours any more.
    """
    api = apis.of(resource.kind)
    if resource.kind.found_by == "policy":
        _remove_role(resource, api)
        return
    owner = owner_now(apis, resource)
    if owner is None:
        raise NotFoundError(f"{resource.kind.name} {resource.name} is gone")
    if owner != resource.owner:
        raise AlreadyExistsError(f"it carries another marker by now ({owner or 'none'})")
    if resource.kind.holds_objects:
        _empty(resource, api)
    if resource.kind.holds_record_sets:
        delete_record_sets(resource.path, api)
    api.call("DELETE", resource.path, query=resource.kind.deletion or None)


def gone(resource: CloudResource, apis: Apis) -> bool:
    """Whether ``resource`` is not there any more.

    Raises:
        AccessError, ApiError: it cannot be told.
    """
    if resource.kind.found_by != "policy":
        return owner_now(apis, resource) is None
    policy = apis.of(resource.kind).call("POST", f"{resource.path}:getIamPolicy", body=_POLICY)
    return not any(_grants(binding, resource) for binding in objects(policy, "bindings"))


def _empty(resource: CloudResource, api: Api) -> None:
    """Delete every version of every object of a bucket."""
    while True:
        page = api.call(
            "GET", f"{resource.path}/o", query={"versions": "true", "maxResults": "500"}
        )
        found = list(objects(page, "items"))
        for entry in found:
            name = quote(str(entry.get("name")), safe="")
            generation = str(entry.get("generation"))
            try:
                api.call("DELETE", f"{resource.path}/o/{name}", query={"generation": generation})
            except NotFoundError:
                continue
        if not found:
            return


def _remove_role(resource: CloudResource, api: Api) -> None:
    """Take one member out of one role; the policy's etag keeps others' changes."""
    policy = api.call("POST", f"{resource.path}:getIamPolicy", body=_POLICY)
    bindings: list[JsonValue] = []
    for binding in objects(policy, "bindings"):
        members = entries(binding, "members")
        if _grants(binding, resource):
            members = [member for member in members if member != resource.member]
        if members:
            bindings.append({**binding, "members": members})
    body: JsonObject = {"policy": {**policy, "bindings": bindings}}
    api.call("POST", f"{resource.path}:setIamPolicy", body=body)


def _grants(binding: JsonObject, resource: CloudResource) -> bool:
    return binding.get("role") == resource.name and resource.member in entries(binding, "members")
