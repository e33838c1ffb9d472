"""Delete what carries our marker, whatever it is, one careful step at a time."""

from __future__ import annotations

from urllib.parse import quote

from pydantic import JsonValue

from tpuflex.errors import AlreadyExistsError, NotFoundError
from tpuflex.gcp.inventory import Apis
from tpuflex.gcp.listing import entries, objects
from tpuflex.gcp.marked import Marked, reread
from tpuflex.gcp.transport import Api, JsonObject

#: Version 3 keeps conditions (https://cloud.google.com/iam/docs/policies).
_POLICY: JsonObject = {"options": {"requestedPolicyVersion": 3}}


def remove(item: Marked, apis: Apis) -> None:
    """Ask for the deletion of ``item``; it is over when :func:`gone`.

    The marker is read first: what carries another one by now, or none, is not touched.

    Raises:
        NotFoundError: it is gone already.
        ConflictError: not possible in its present state; perhaps later.
        AccessError, ApiError: the API refuses, or it is not ours any more.
    """
    api: Api = getattr(apis, item.service)
    if item.kind == "project role":
        _remove_role(item, api)
        return
    owner = reread(api, item)
    if owner is None:
        raise NotFoundError(f"{item.kind} {item.name} is gone")
    if owner != item.owner:
        raise AlreadyExistsError(f"it carries another marker by now ({owner or 'none'})")
    if item.kind == "bucket":
        _empty(item, api)
    query = {"force": "true"} if item.kind == "queued resource" else None
    api.call("DELETE", item.path, query=query)


def gone(item: Marked, apis: Apis) -> bool:
    """Whether ``item`` is not there any more.

    Raises:
        AccessError, ApiError: it cannot be told.
    """
    api: Api = getattr(apis, item.service)
    if item.kind != "project role":
        return reread(api, item) is None
    policy = api.call("POST", f"{item.path}:getIamPolicy", body=_POLICY)
    return not any(_grants(binding, item) for binding in objects(policy, "bindings"))


def _empty(item: Marked, api: Api) -> None:
    """Delete every version of every object of a bucket."""
    while True:
        page = api.call("GET", f"{item.path}/o", query={"versions": "true", "maxResults": "500"})
        found = list(objects(page, "items"))
        for entry in found:
            name = quote(str(entry.get("name")), safe="")
            generation = str(entry.get("generation"))
            try:
                api.call("DELETE", f"{item.path}/o/{name}", query={"generation": generation})
            except NotFoundError:
                continue
        if not found:
            return


def _remove_role(item: Marked, api: Api) -> None:
    """Take one member out of one role; the policy's etag keeps others' changes."""
    policy = api.call("POST", f"{item.path}:getIamPolicy", body=_POLICY)
    bindings: list[JsonValue] = []
    for binding in objects(policy, "bindings"):
        members = entries(binding, "members")
        if _grants(binding, item):
            members = [member for member in members if member != item.holder]
        if members:
            bindings.append({**binding, "members": members})
    body: JsonObject = {"policy": {**policy, "bindings": bindings}}
    api.call("POST", f"{item.path}:setIamPolicy", body=body)


def _grants(binding: JsonObject, item: Marked) -> bool:
    return binding.get("role") == item.name and item.holder in entries(binding, "members")
