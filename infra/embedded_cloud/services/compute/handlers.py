"""HTTP calls on every kind of resource turned into calls on the state, and answers into JSON.

https://cloud.google.com/compute/docs/reference/rest/v1/networks/list (parameter filter).
A filter that is not understood is refused, never ignored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence

from embedded_cloud.core.clock import Clock, rfc3339_offset
from embedded_cloud.core.errors import CloudError
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    as_object,
    child,
    flag,
    merge,
    text,
)
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.routing import Call, Reply
from embedded_cloud.services.compute.errors import (
    already_exists,
    in_use,
    invalid,
    not_found,
    stale_fingerprint,
)
from embedded_cloud.services.compute.operations import Operations, unique_id
from embedded_cloud.services.compute.paths import Scope, linked, relative
from embedded_cloud.services.compute.state import (
    ResourceKind,
    Resources,
    Target,
    check_name,
    fingerprint,
)


class Wire:
    """Turns stored resources into answers.

    Args:
        resources: to find what refers to a resource.
        base_url: the emulator's address.
    """

    def __init__(self, resources: Resources, base_url: Callable[[], str]) -> None:
        self._resources = resources
        self._base_url = base_url

    @property
    def base(self) -> str:
        """What links begin with."""
        return f"{self._base_url()}/compute/v1"

    def resource(self, kind: ResourceKind, stored: JsonObject) -> JsonObject:
        """A resource as answered."""
        path = text(stored, "selfLink")
        shown: JsonObject = {"kind": f"compute#{kind.singular}", **stored}
        if kind.collection == "networks":
            network_id = f"{path.rpartition('/')[0]}/{text(stored, 'id')}"
            shown["selfLinkWithId"] = network_id
            project = path.split("/")[1]
            inside = [*self._resources.users("subnetworks", project, "network", path)]
            if inside:
                shown["subnetworks"] = [*inside]
        if kind.collection == "addresses":
            self._add_users(shown, path)
        return as_object(linked(shown, self.base))

    def operation(self, stored: JsonObject) -> JsonObject:
        """An operation as answered."""
        return as_object(linked(stored, self.base))

    def list_head(self, singular: str, path: str) -> JsonObject:
        """A list without items. ``path`` says what is listed: ``projects/p/global/networks``."""
        return {"kind": f"compute#{singular}List", "id": path, "selfLink": f"{self.base}/{path}"}

    def aggregated(self, kind: ResourceKind, project: str, items: list[JsonObject]) -> JsonObject:
        """An aggregated list: by region or zone, without those that have nothing."""
        scopes: dict[str, list[JsonValue]] = {}
        for item in items:
            scopes.setdefault(_place(item), []).append(item)
        path = f"projects/{project}/aggregated/{kind.collection}"
        return {
            "kind": f"compute#{kind.singular}AggregatedList",
            "id": path,
            "selfLink": f"{self.base}/{path}",
            "items": {scope: {kind.collection: listed} for scope, listed in scopes.items()},
        }

    def _add_users(self, shown: JsonObject, path: str) -> None:
        scope = Scope(path.split("/")[1], path.split("/")[3] if "/regions/" in path else "")
        for router in self._resources.all("routers", f"{scope.path}/"):
            nats = router.get("nats")
            if isinstance(nats, list) and f"'{path}'" in repr(nats):
                shown["status"] = "IN_USE"
                shown["users"] = [text(router, "selfLink")]


def _place(item: JsonObject) -> str:
    """``zones/z``, ``regions/r`` or ``global``."""
    for kind in ("zone", "region"):
        if name := text(item, kind).rpartition("/")[2]:
            return f"{kind}s/{name}"
    return "global"


_TERM = re.compile(
    r"""\(?\s*(?P<field>[\w.]+)\s*
        (?P<op>!=|<=|>=|=|:|<|>|\beq\b|\bne\b)\s*
        (?P<value>"[^"]*"|'[^']*'|[^\s()]+)
        \s*\)?""",
    re.VERBOSE,
)


def matches(expression: str, resource: JsonObject) -> bool:
    """Whether ``resource`` (as answered) passes the filter; an empty one passes all.

    Raises:
        CloudError: 400, the filter is not one that is understood here.
    """
    return all(_holds(term, resource) for term in _terms(expression))


def _terms(expression: str) -> list[re.Match[str]]:
    terms: list[re.Match[str]] = []
    at = 0
    text = expression.strip()
    while at < len(text):
        term = _TERM.match(text, at)
        if not term:
            raise _not_understood(expression)
        terms.append(term)
        gap = re.compile(r"\s*(?:AND\s+)?").match(text, term.end())
        at = gap.end() if gap else term.end()
    return terms


def _holds(term: re.Match[str], resource: JsonObject) -> bool:
    value: JsonValue = resource
    for key in term["field"].split("."):
        value = value.get(key) if isinstance(value, dict) else None
    shown = _shown(value)
    operand = term["value"].strip("\"'")
    operator = term["op"]
    if operator in ("eq", "ne"):
        # The older syntax compares with a regular expression over the whole value.
        try:
            matched = re.fullmatch(operand, shown) is not None
        except re.error as error:
            raise _not_understood(operand) from error
        return matched == (operator == "eq")
    if operator in ("=", "!="):
        pattern = ".*".join(re.escape(part) for part in operand.split("*"))
        return (re.fullmatch(pattern, shown) is not None) == (operator == "=")
    if operator == ":":
        return value is not None if operand == "*" else operand.lower() in shown.lower()
    raise _not_understood(term[0])


def _shown(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _not_understood(expression: str) -> CloudError:
    return CloudError(
        400,
        "INVALID_ARGUMENT",
        f"Invalid value for field 'filter': '{expression}'. Invalid list filter expression.",
        legacy_reason="invalid",
    )


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
