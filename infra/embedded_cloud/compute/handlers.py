"""insert, get, list, patch, update and delete of every kind: wire format only."""

from __future__ import annotations

from embedded_cloud import paging
from embedded_cloud.clock import Clock
from embedded_cloud.compute.errors import already_exists, in_use, not_found, stale_fingerprint
from embedded_cloud.compute.filters import matches
from embedded_cloud.compute.kinds import Kind, Resources, Target, check_name
from embedded_cloud.compute.operations import Operations, unique_id
from embedded_cloud.compute.paths import Scope, relative
from embedded_cloud.compute.times import rfc3339_offset
from embedded_cloud.compute.wire import Wire
from embedded_cloud.errors import CloudError
from embedded_cloud.json_types import JsonObject, as_object, text
from embedded_cloud.merge_patch import merge
from embedded_cloud.routing import Call, Reply

#: Set by Compute alone, whatever a caller sends.
_OUTPUT = frozenset({"id", "kind", "selfLink", "creationTimestamp", "selfLinkWithId"})


class KindHandlers:
    """Answers of the methods of one kind."""

    def __init__(
        self, kind: Kind, resources: Resources, operations: Operations, wire: Wire, clock: Clock
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
        return self._store(target, stored, "insert", request_id)

    def get(self, call: Call) -> Reply:
        """GET of one."""
        _, stored = self._require(call)
        return Reply(body=self._wire.resource(self._kind, stored))

    def page(self, call: Call) -> Reply:
        """GET of the collection."""
        scope = self._scope(call)
        prefix = f"{scope.path}/{self._kind.collection}/"
        shown, token = self._page(call, prefix)
        listed = prefix.rstrip("/")
        return Reply(body=self._wire.page(self._kind.singular, listed, shown, token))

    def aggregated(self, call: Call) -> Reply:
        """GET of the collection in all regions at once."""
        project = call.params["project"]
        found = self._resources.all(self._kind.collection, f"projects/{project}/")
        shown = self._filtered(call, found)
        return Reply(body=self._wire.aggregated(self._kind, project, shown))

    def patch(self, call: Call) -> Reply:
        """PATCH of one: objects merge, lists are replaced, null removes."""
        target, before = self._require(call)
        return self._change(call, target, before, merge(before, self._asked(call)), "patch")

    def update(self, call: Call) -> Reply:
        """PUT of one: everything changes; what is absent goes to its default."""
        target, before = self._require(call)
        asked = merge({}, self._asked(call))
        wanted = {"name": target.name, "network": before.get("network"), **asked}
        return self._change(call, target, before, wanted, "update")

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

    def stored(self, call: Call) -> JsonObject:
        """The resource that the path names, as stored. Raises CloudError 404."""
        return self._require(call)[1]

    def change_fields(self, call: Call, fields: JsonObject, verb: str) -> Reply:
        """A custom method that sets ``fields``; it needs no fingerprint."""
        target, before = self._require(call)
        stored = {**before, **self._kind.complete(target, {**before, **fields}, None)}
        return self._store(target, stored, verb, call.query.get("requestId", ""))

    def _change(
        self, call: Call, target: Target, before: JsonObject, wanted: JsonObject, verb: str
    ) -> Reply:
        sent = text(call.body or {}, "fingerprint")
        if self._kind.needs_fingerprint and sent != text(before, "fingerprint"):
            raise stale_fingerprint()
        if text(wanted, "name") != target.name:
            raise not_found(self._kind.path(target.scope, text(wanted, "name")))
        kept = {key: before[key] for key in _OUTPUT if key in before}
        stored = {**self._kind.complete(target, wanted, before), **kept}
        return self._store(target, stored, verb, call.query.get("requestId", ""))

    def _store(self, target: Target, stored: JsonObject, verb: str, request_id: str) -> Reply:
        self._resources.store.put(f"compute/{self._kind.collection}", target.path, stored)
        operation = self._operations.done(target.scope, verb, stored, request_id)
        return Reply(body=self._wire.operation(operation))

    def _asked(self, call: Call) -> JsonObject:
        """The body, links cut down to paths, without what only Compute sets."""
        body = as_object(relative(call.body or {}, call.params["project"]))
        return {key: value for key, value in body.items() if key not in _OUTPUT}

    def _require(self, call: Call) -> tuple[Target, JsonObject]:
        target = self._target(self._scope(call), call.params["name"])
        stored = self._resources.get(target.path)
        if stored is None:
            raise not_found(target.path)
        return target, stored

    def _scope(self, call: Call) -> Scope:
        scope = Scope(call.params["project"], call.params.get("region", ""))
        scope.check()
        return scope

    def _target(self, scope: Scope, name: str) -> Target:
        return Target(self._resources, scope, self._kind.path(scope, name))

    def _page(self, call: Call, prefix: str) -> tuple[list[JsonObject], str | None]:
        found = self._filtered(call, self._resources.all(self._kind.collection, prefix))
        return paged(call, found)

    def _filtered(self, call: Call, found: list[JsonObject]) -> list[JsonObject]:
        expression = call.query.get("filter", "")
        shown = [self._wire.resource(self._kind, stored) for stored in found]
        return [each for each in shown if matches(expression, each)]


def paged(call: Call, found: list[JsonObject]) -> tuple[list[JsonObject], str | None]:
    """One page of ``found``, sorted by name: 500 unless asked otherwise, at most 500."""
    size = int(call.query.get("maxResults", "500")) or 500
    try:
        return paging.page(
            sorted(found, key=_name),
            key=_name,
            size=min(size, 500),
            token=call.query.get("pageToken"),
        )
    except ValueError as error:
        raise CloudError(
            400,
            "INVALID_ARGUMENT",
            "Invalid value for field 'pageToken'.",
            legacy_reason="invalid",
        ) from error


def _name(resource: JsonObject) -> str:
    return text(resource, "name")
