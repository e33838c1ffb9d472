"""HTTP calls on every kind of resource turned into calls on the state, and answers into JSON."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from embedded_cloud.clock import Clock, rfc3339_offset
from embedded_cloud.compute.errors import (
    already_exists,
    in_use,
    invalid,
    not_found,
    stale_fingerprint,
)
from embedded_cloud.compute.filters import matches
from embedded_cloud.compute.operations import Operations, unique_id
from embedded_cloud.compute.paths import Scope, relative
from embedded_cloud.compute.state import (
    ResourceKind,
    Resources,
    Target,
    check_name,
    fingerprint,
)
from embedded_cloud.compute.wire import Wire
from embedded_cloud.errors import CloudError
from embedded_cloud.json_types import JsonObject, as_object, child, flag, merge, text
from embedded_cloud.paging import Paging
from embedded_cloud.routing import Call, Reply

#: Set only by Compute; ignored in requests.
_OUTPUT = frozenset({"id", "kind", "selfLink", "creationTimestamp", "selfLinkWithId"})


class ResourceHandlers:
    """Handlers of the methods of one kind."""

    def __init__(
        self,
        kind: ResourceKind,
        resources: Resources,
        operations: Operations,
        wire: Wire,
        clock: Clock,
    ) -> None:
        self._kind = kind
        self._resources = resources
        self._operations = operations
        self._wire = wire
        self._clock = clock

    def insert(self, call: Call) -> Reply:
        """POST to the collection."""
        scope = self._scope(call)
        request_id = call.query.get("requestId", "")
        if repeated := self._operations.repeated(scope, request_id):
            return Reply(body=self._wire.operation(repeated))
        target, stored = self._made(call, scope)
        return self._store(target, stored, "insert", request_id)

    def _made(self, call: Call, scope: Scope) -> tuple[Target, JsonObject]:
        """What an insert asks for, complete; refused if there is one of that name."""
        asked = merge({}, self._asked(call))
        target = self._target(scope, check_name(asked))
        if self._resources.exists(target.path):
            raise already_exists(target.path)
        stamp = rfc3339_offset(self._clock.now())
        stored: JsonObject = {
            **self._kind.complete(target, asked, None),
            "id": unique_id(target.path, stamp),
            "creationTimestamp": stamp,
            "selfLink": target.path,
        }
        return target, stored

    def get(self, call: Call) -> Reply:
        """GET of one."""
        _, stored = self._require(call)
        return Reply(body=self._answered(stored))

    def list(self, call: Call) -> Reply:
        """GET of the collection."""
        scope = self._scope(call)
        collection = f"{scope.path}/{self._kind.collection}"
        shown = self._shown(f"{collection}/")
        return list_reply(call, self._wire, self._kind.singular, collection, shown)

    def aggregated(self, call: Call) -> Reply:
        """GET of the collection in all regions at once."""
        project = call.params["project"]
        shown = self._shown(f"projects/{project}/")
        return Reply(body=self._wire.aggregated(self._kind, project, filtered(call, shown)))

    def patch(self, call: Call) -> Reply:
        """PATCH of one: objects merge, lists are replaced, null removes."""
        target, before = self._require(call)
        return self._change(call, target, before, merge(before, self._asked(call)), "patch")

    def update(self, call: Call) -> Reply:
        """PUT of one: everything changes; absent fields get their defaults."""
        target, before = self._require(call)
        asked = merge({}, self._asked(call))
        changed = {"name": target.name, "network": before.get("network"), **asked}
        return self._change(call, target, before, changed, "update")

    def delete(self, call: Call) -> Reply:
        """DELETE of one."""
        scope = self._scope(call)
        request_id = call.query.get("requestId", "")
        if repeated := self._operations.repeated(scope, request_id):
            return Reply(body=self._wire.operation(repeated))
        target, stored = self._require(call)
        for user in self._kind.users(target):
            raise in_use(self._kind.singular, target.path, user)
        self._resources.store.delete(f"compute/{self._kind.collection}", target.path)
        operation = self._operations.done(scope, "delete", stored, request_id)
        return Reply(body=self._wire.operation(operation))

    def _change_fields(self, call: Call, fields: JsonObject, verb: str) -> Reply:
        """A custom method that sets ``fields``; it needs no fingerprint."""
        target, before = self._require(call)
        stored = {**before, **self._kind.complete(target, {**before, **fields}, None)}
        return self._store(target, stored, verb, call.query.get("requestId", ""))

    def _change(
        self, call: Call, target: Target, before: JsonObject, changed: JsonObject, verb: str
    ) -> Reply:
        sent = text(call.body or {}, "fingerprint")
        if self._kind.needs_fingerprint and sent != text(before, "fingerprint"):
            raise stale_fingerprint()
        if text(changed, "name") != target.name:
            raise not_found(self._kind.path(target.scope, text(changed, "name")))
        kept = {key: before[key] for key in _OUTPUT if key in before}
        stored = {**self._kind.complete(target, changed, before), **kept}
        return self._store(target, stored, verb, call.query.get("requestId", ""))

    def _store(self, target: Target, stored: JsonObject, verb: str, request_id: str) -> Reply:
        self._resources.store.put(f"compute/{self._kind.collection}", target.path, stored)
        operation = self._operations.done(target.scope, verb, stored, request_id)
        return Reply(body=self._wire.operation(operation))

    def _asked(self, call: Call) -> JsonObject:
        """The body with links shortened to paths, without what only Compute sets."""
        body = as_object(relative(call.body or {}, call.params["project"]))
        return {key: value for key, value in body.items() if key not in _OUTPUT}

    def _require(self, call: Call) -> tuple[Target, JsonObject]:
        target = self._target(self._scope(call), call.id)
        stored = self._resources.get(target.path)
        if stored is None:
            raise not_found(target.path)
        return target, stored

    def _shown(self, prefix: str) -> Sequence[JsonObject]:
        """The resources whose path starts with ``prefix``, as answered."""
        stored = self._resources.all(self._kind.collection, prefix)
        return [self._answered(each) for each in stored]

    def _answered(self, stored: JsonObject) -> JsonObject:
        return self._wire.resource(self._kind, stored)

    def _scope(self, call: Call) -> Scope:
        scope = Scope.of(call.params)
        scope.check()
        return scope

    def _target(self, scope: Scope, name: str) -> Target:
        return Target(self._resources, scope, self._kind.path(scope, name))


class SubnetworkHandlers(ResourceHandlers):
    """Handlers of subnetworks, with their two methods of their own."""

    def set_private_google_access(self, call: Call) -> Reply:
        """POST …/setPrivateIpGoogleAccess."""
        fields: JsonObject = {
            "privateIpGoogleAccess": flag(call.body or {}, "privateIpGoogleAccess")
        }
        return self._change_fields(call, fields, "setPrivateIpGoogleAccess")

    def expand_range(self, call: Call) -> Reply:
        """POST …/expandIpCidrRange: a range can only grow."""
        new = text(call.body or {}, "ipCidrRange")
        old = text(self._require(call)[1], "ipCidrRange")
        try:
            grows = ipaddress.IPv4Network(new).supernet_of(ipaddress.IPv4Network(old))
        except ValueError as error:
            raise invalid("ipCidrRange", new, f"Must be a CIDR range: {error}.") from error
        if not grows or new == old:
            raise invalid("ipCidrRange", new, f"Must contain and be larger than {old}.")
        return self._change_fields(call, {"ipCidrRange": new}, "expandIpCidrRange")


class AddressHandlers(ResourceHandlers):
    """Handlers of addresses, whose labels have a method and a fingerprint of their own."""

    def set_labels(self, call: Call) -> Reply:
        """POST …/setLabels: all labels are replaced."""
        body = call.body or {}
        target, before = self._require(call)
        if text(body, "labelFingerprint") != text(before, "labelFingerprint"):
            raise stale_fingerprint()
        labels = child(body, "labels")
        stored = {**before, "labels": labels, "labelFingerprint": fingerprint(labels)}
        return self._store(target, stored, "setLabels", call.query.get("requestId", ""))


def list_reply(
    call: Call, wire: Wire, singular: str, path: str, shown: Sequence[JsonObject]
) -> Reply:
    """A page of what passes the call's filter, by name."""
    head = wire.list_head(singular, path)
    return _PAGING.resources(call, "items", filtered(call, shown), head=head)


def filtered(call: Call, shown: Sequence[JsonObject]) -> list[JsonObject]:
    """The resources that pass the call's filter."""
    expression = call.query.get("filter", "")
    return [each for each in shown if matches(expression, each)]


_PAGING = Paging(
    default=500,
    maximum=500,
    parameter="maxResults",
    bad_size=lambda size: invalid("maxResults", size, "Must not be negative."),
    bad_token=lambda: CloudError(
        400, "INVALID_ARGUMENT", "Invalid value for field 'pageToken'.", legacy_reason="invalid"
    ),
)
