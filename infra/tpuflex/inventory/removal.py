"""Deletion of one resource of any kind, after all of its marks were read once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from tpuflex.errors import ApiError, ConflictError, NotFoundError
from tpuflex.google.apis import Apis
from tpuflex.google.paging import objects, pages
from tpuflex.google.project import POLICY, account_of, deleted_account, grants, without
from tpuflex.inventory.cloud_resource import account_resource
from tpuflex.inventory.listing import read_again
from tpuflex.inventory.ownership import Maker, differences, reason

if TYPE_CHECKING:
    from tpuflex.google.transport import Api, JsonObject
    from tpuflex.inventory.cloud_resource import CloudResource

#: Record sets that the API makes with each zone and deletes with it; at the zone's own name they
#: cannot be deleted (https://cloud.google.com/dns/docs/zones#delete-zone).
_OWN_TYPES = frozenset({"NS", "SOA"})
#: Says why a resource as it is now may not be deleted, whosever it is; empty if it may.
Objection = Callable[["CloudResource"], str]


def remove(resource: CloudResource, maker: Maker, apis: Apis, objection: Objection) -> None:
    """Ask for the deletion of ``resource``; it is over when :func:`gone`.

    It is read first, and only deleted if it is still the one that was listed and still
    ``maker``'s by every mark. Where the API has a precondition, it makes sure that nothing was
    changed in between.

    Raises:
        NotFoundError: it is gone already.
        ConflictError: not possible in its present state; perhaps later.
        AccessError, ApiError: the API refuses, or it is not ours any more.
    """
    if resource.kind.found_by == "policy":
        _remove_role(resource, maker, apis)
        return
    now = _still_ours(resource, maker, apis)
    if objected := objection(now):
        raise ApiError(objected)
    api = resource.kind.client(apis)
    if resource.kind.holds_objects:
        _empty(resource, maker, apis)
    path = resource.path
    if now.unique_id:
        path = f"{path.rpartition('/')[0]}/{now.unique_id}"
    if resource.kind.holds_record_sets:
        delete_record_sets(path, api)
    api.call("DELETE", path, query={**resource.kind.deletion, **now.conditions} or None)


def gone(resource: CloudResource, apis: Apis) -> bool:
    """Whether ``resource`` is not there any more; a new one of its name is another.

    Raises:
        AccessError, ApiError: it cannot be determined.
    """
    if resource.kind.found_by == "policy":
        api = resource.kind.client(apis)
        policy = api.call("POST", f"{resource.path}:getIamPolicy", body=POLICY)
        return not grants(policy, resource.name, resource.member)
    now = read_again(apis, resource)
    return now is None or resource.recreated_as(now)


def _empty(resource: CloudResource, maker: Maker, apis: Apis) -> None:
    """Delete every version of every object of a bucket. That may take long, so it is asked for each
    page whose the bucket is; an object is named with its generation, which another would not
    have."""
    api = resource.kind.client(apis)
    while True:
        page = api.call(
            "GET", f"{resource.path}/o", query={"versions": "true", "maxResults": "500"}
        )
        found = list(objects(page, "items"))
        if not found:
            return
        _still_ours(resource, maker, apis)
        for entry in found:
            name = quote(str(entry.get("name")), safe="")
            generation = str(entry.get("generation"))
            try:
                api.call("DELETE", f"{resource.path}/o/{name}", query={"generation": generation})
            except NotFoundError:
                continue


def _remove_role(resource: CloudResource, maker: Maker, apis: Apis) -> None:
    """Take one member out of one role, if its account is still ours, or gone; the policy's etag
    keeps others' changes."""
    api = resource.kind.client(apis)
    policy = api.call("POST", f"{resource.path}:getIamPolicy", body=POLICY)
    if not grants(policy, resource.name, resource.member):
        raise NotFoundError(f"{resource.title} is gone")
    if not deleted_account(resource.member):
        account = read_again(apis, account_resource(account_of(resource.member), maker.project))
        if account is None:
            raise ConflictError("its account is gone, and the policy does not say so yet")
        _require_ours(replace(resource, marker=account.marker), maker)
    body: JsonObject = {"policy": without(policy, resource.name, resource.member)}
    api.call("POST", f"{resource.path}:setIamPolicy", body=body)


def _still_ours(resource: CloudResource, maker: Maker, apis: Apis) -> CloudResource:
    now = read_again(apis, resource)
    if now is None or resource.recreated_as(now):
        raise NotFoundError(f"{resource.title} is gone")
    _require_ours(now, maker)
    return now


def _require_ours(resource: CloudResource, maker: Maker) -> None:
    if found := differences(resource, maker):
        raise ApiError(f"it is not ours any more: {reason(found)}")


def delete_record_sets(zone: str, api: Api) -> None:
    """Delete every record set of the zone at the path ``zone`` but the zone's own.

    Raises:
        NotFoundError: there is no such zone.
        AccessError, ApiError: the API refuses.
    """
    own = api.call("GET", zone).get("dnsName")
    listed = [one for page in pages(api, f"{zone}/rrsets") for one in objects(page, "rrsets")]
    for record_set in listed:
        name, type_ = str(record_set.get("name")), str(record_set.get("type"))
        if type_ in _OWN_TYPES and name == own:
            continue
        try:
            api.call("DELETE", f"{zone}/rrsets/{quote(name, safe='')}/{type_}")
        except NotFoundError:
            continue
