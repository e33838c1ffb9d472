"""Managed zones, their record sets, and the changes that were made to them. No HTTP.

The words of :func:`not_empty` are from tetratelabs/tetrate-service-bridge-sandbox#256, the others
from the error messages in https://cloud.google.com/dns/docs/troubleshooting.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Sequence

from embedded_cloud.core.clock import Clock, rfc3339
from embedded_cloud.core.errors import CloudError, precondition_failed
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    child,
    children,
    number,
    text,
    texts,
)
from embedded_cloud.core.store import Store


def invalid(field: str, value: object) -> CloudError:
    """400: a field's value is not allowed."""
    message = f"Invalid value for '{field}': '{value}'"
    return CloudError(400, "INVALID_ARGUMENT", message, legacy_reason="invalid")


def required(field: str) -> CloudError:
    """400: a field is missing."""
    message = f"The '{field}' parameter is required but was missing."
    return CloudError(400, "INVALID_ARGUMENT", message, legacy_reason="required")


def not_found(field: str, name: str) -> CloudError:
    """404: what ``field`` of the request names does not exist."""
    return CloudError(404, "NOT_FOUND", f"The '{field}' resource named '{name}' does not exist.")


def already_exists(field: str, name: str) -> CloudError:
    """409: what ``field`` of the request would make exists."""
    message = f"The resource '{field}' named '{name}' already exists"
    return CloudError(409, "ALREADY_EXISTS", message)


def not_empty(zone: str) -> CloudError:
    """400: a zone with record sets other than its own NS and SOA cannot be deleted."""
    return CloudError(
        400,
        "FAILED_PRECONDITION",
        f"The resource named '{zone}' cannot be deleted because it contains one or more "
        "'resource records'.",
        legacy_reason="containerNotEmpty",
    )


def stale_deletion(field: str) -> CloudError:
    """412: a deletion does not have the present content of its record set."""
    return precondition_failed(f"Precondition not met for '{field}'")


ZONES = "dns/managedZones"
#: They belong to their zone, and go with it: no items of the inventory.
RECORD_SETS = "_dns/resourceRecordSets"
CHANGES = "_dns/changes"
OPERATIONS = "_dns/operations"

_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_DNS_NAME = re.compile(r"\.|(?:\*\.)?(?:[a-z0-9_](?:[-a-z0-9_]{0,61}[a-z0-9_])?\.)+")
_TYPES = frozenset({"A", "AAAA", "CAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT"})
_NETWORK_LINK = re.compile(r"https?://[^/]+/compute/v1/(projects/[^/]+/global/networks/[^/]+)")
#: Made with every zone, and deleted only with it.
_OWN_TYPES = ("NS", "SOA")
_OWN_TTL_S = 21600
_PRIVATE_SERVER = "ns-gcp-private.googledomains.com."


class Zones:
    """The managed zones of all projects."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def all(self, project: str) -> list[JsonObject]:
        """The zones of ``project``."""
        return [value for _, value in self._store.list(ZONES, f"{project}/")]

    def require(self, project: str, name: str) -> JsonObject:
        """The zone with that name or id. Raises CloudError 404."""
        zone = self._store.get(ZONES, f"{project}/{name}")
        if zone is None and name.isdecimal():
            zone = next((each for each in self.all(project) if each["id"] == name), None)
        if zone is None:
            raise not_found("parameters.managedZone", name)
        return zone

    def named(self, project: str, name: str) -> tuple[str, str]:
        """Project and name of the zone with that name or id. Raises CloudError 404."""
        return project, text(self.require(project, name), "name")

    def create(self, project: str, asked: JsonObject) -> JsonObject:
        """A new zone with its NS and SOA record sets.

        Raises:
            CloudError: 400, a field is missing or not allowed; 409, the name is taken.
        """
        name, dns_name = text(asked, "name"), text(asked, "dnsName").lower()
        for field, value in (("name", name), ("dnsName", dns_name)):
            if not value:
                raise required(f"entity.managedZone.{field}")
        if not _NAME.fullmatch(name):
            raise invalid("entity.managedZone.name", name)
        if not _DNS_NAME.fullmatch(dns_name) or dns_name.startswith("*"):
            raise invalid("entity.managedZone.dnsName", dns_name)
        key = f"{project}/{name}"
        if self._store.get(ZONES, key):
            raise already_exists("entity.managedZone", name)
        self._check_networks(asked)
        created = rfc3339(self._clock.now())
        zone: JsonObject = {
            "visibility": "public",
            **asked,
            "kind": "dns#managedZone",
            "dnsName": dns_name,
            "id": str(int.from_bytes(hashlib.sha256(f"{key} {created}".encode()).digest()[:7])),
            "creationTime": created,
        }
        private = zone["visibility"] == "private"
        servers = [_PRIVATE_SERVER] if private else _public_servers()
        zone["nameServers"] = list[JsonValue](servers)
        self._store.put(ZONES, key, zone)
        self._put(project, name, _record_set(dns_name, "NS", servers))
        soa = f"{servers[0]} cloud-dns-hostmaster.google.com. 1 21600 3600 259200 300"
        self._put(project, name, _record_set(dns_name, "SOA", [soa]))
        return zone

    def replace(self, project: str, before: JsonObject, asked: JsonObject) -> JsonObject:
        """Change a zone to ``asked``; what Cloud DNS sets stays.

        Returns:
            The operation, which is done.

        Raises:
            CloudError: 400, what cannot be changed would be.
        """
        for field in ("name", "dnsName", "visibility"):
            if field in asked and asked[field] != before[field]:
                raise invalid(f"entity.managedZone.{field}", asked[field])
        self._check_networks(asked)
        fixed = ("kind", "name", "dnsName", "visibility", "id", "creationTime", "nameServers")
        zone = {**asked, **{key: before[key] for key in fixed}}
        key = f"{project}/{before['name']}"
        self._store.put(ZONES, key, zone)
        number_of_it = len(self._store.list(OPERATIONS, f"{key}/")) + 1
        operation: JsonObject = {
            "kind": "dns#operation",
            "id": hashlib.sha256(f"{key} {number_of_it}".encode()).hexdigest()[:32],
            "startTime": rfc3339(self._clock.now()),
            "status": "done",
            "type": "update",
            "zoneContext": {"oldValue": before, "newValue": zone},
        }
        self._store.put(OPERATIONS, f"{key}/{operation['id']}", operation)
        return operation

    def operation(self, project: str, zone: str, operation_id: str) -> JsonObject:
        """An operation of a zone. Raises CloudError 404."""
        found = self._store.get(OPERATIONS, f"{project}/{zone}/{operation_id}")
        if found is None:
            raise not_found("parameters.operation", operation_id)
        return found

    def delete(self, project: str, name: str) -> None:
        """Delete a zone. Raises CloudError: 404; 400 while it has record sets."""
        zone = self.require(project, name)
        name = text(zone, "name")
        if any(not _is_own(zone, each) for each in self.record_sets(project, name)):
            raise not_empty(name)
        for collection in (RECORD_SETS, CHANGES, OPERATIONS):
            for key, _ in self._store.list(collection, f"{project}/{name}/"):
                self._store.delete(collection, key)
        self._store.delete(ZONES, f"{project}/{name}")

    def record_sets(self, project: str, zone: str) -> list[JsonObject]:
        """The record sets of a zone, by name and type."""
        return [value for _, value in self._store.list(RECORD_SETS, f"{project}/{zone}/")]

    def record_set(self, project: str, zone: str, name: str, type_: str) -> JsonObject:
        """One record set. Raises CloudError 404."""
        found = self._store.get(RECORD_SETS, f"{project}/{zone}/{name.lower()} {type_}")
        if found is None:
            raise not_found("parameters.name", f"{name} ({type_})")
        return found

    def change(
        self,
        project: str,
        name: str,
        additions: Sequence[JsonObject],
        deletions: Sequence[JsonObject],
    ) -> JsonObject:
        """Make a change as a whole or not at all, and remember it; it is done when it is answered.

        Raises:
            CloudError: 400, a record set is not allowed; 404 or 412, a deletion is not there,
                or has another content; 409, an addition exists.
        """
        zone = self.require(project, name)
        name = text(zone, "name")
        if not additions and not deletions:
            raise required("entity.change")
        present = {_key(each): each for each in self.record_sets(project, name)}
        for index, asked in enumerate(deletions):
            _check_deletion(zone, present, asked, f"entity.change.deletions[{index}]")
            del present[_key(asked)]
        for index, asked in enumerate(additions):
            field = f"entity.change.additions[{index}]"
            added = _checked(zone, asked, field)
            if _key(added) in present:
                raise already_exists(field, _shown(added))
            _check_alone(present, added, field)
            present[_key(added)] = added
        for asked in deletions:
            self._store.delete(RECORD_SETS, f"{project}/{name}/{_key(asked)}")
        for asked in additions:
            self._put(project, name, _checked(zone, asked, "entity.change"))
        return self._remember(project, name, additions, deletions)

    def changes(self, project: str, zone: str) -> list[JsonObject]:
        """The changes of a zone, the oldest first."""
        return [value for _, value in self._store.list(CHANGES, f"{project}/{zone}/")]

    def _check_networks(self, asked: JsonObject) -> None:
        """Name the networks of ``asked`` by Google's links, whatever address was called:
        pulumi-gcp takes a link that begins with anything but ``https`` for a mere name.

        Raises:
            CloudError: 400, a network is not named by its link, or is not there.
        """
        for network in children(child(asked, "privateVisibilityConfig"), "networks"):
            url = text(network, "networkUrl")
            link = _NETWORK_LINK.fullmatch(url)
            if link is None or self._store.get("compute/networks", link[1]) is None:
                raise invalid("entity.managedZone.privateVisibilityConfig.networks", url)
            network["networkUrl"] = f"https://www.googleapis.com/compute/v1/{link[1]}"

    def _remember(
        self,
        project: str,
        zone: str,
        additions: Sequence[JsonObject],
        deletions: Sequence[JsonObject],
    ) -> JsonObject:
        earlier = len(self.changes(project, zone))
        change: JsonObject = {
            "kind": "dns#change",
            "id": str(earlier + 1),
            "startTime": rfc3339(self._clock.now()),
            "status": "done",
        }
        if additions:
            change["additions"] = [*additions]
        if deletions:
            change["deletions"] = [*deletions]
        self._store.put(CHANGES, f"{project}/{zone}/{earlier + 1:09d}", change)
        return change

    def _put(self, project: str, zone: str, record_set: JsonObject) -> None:
        self._store.put(RECORD_SETS, f"{project}/{zone}/{_key(record_set)}", record_set)


def _public_servers() -> list[str]:
    return [f"ns-cloud-a{number}.googledomains.com." for number in range(1, 5)]


def _record_set(name: str, type_: str, data: Sequence[str]) -> JsonObject:
    return {
        "kind": "dns#resourceRecordSet",
        "name": name,
        "type": type_,
        "ttl": _OWN_TTL_S,
        "rrdatas": list[JsonValue](data),
    }


def _key(record_set: JsonObject) -> str:
    return f"{text(record_set, 'name').lower()} {text(record_set, 'type')}"


def _shown(record_set: JsonObject) -> str:
    return f"{text(record_set, 'name')} ({text(record_set, 'type')})"


def _is_own(zone: JsonObject, record_set: JsonObject) -> bool:
    return record_set["type"] in _OWN_TYPES and record_set["name"] == zone["dnsName"]


def _check_deletion(
    zone: JsonObject, present: dict[str, JsonObject], asked: JsonObject, field: str
) -> None:
    there = present.get(_key(asked))
    if there is None:
        raise not_found(field, _shown(asked))
    if _is_own(zone, there):
        raise invalid(field, _shown(asked))
    same_data = sorted(texts(asked, "rrdatas")) == sorted(texts(there, "rrdatas"))
    if not same_data or number(asked, "ttl") != number(there, "ttl"):
        raise stale_deletion(field)


def _checked(zone: JsonObject, asked: JsonObject, field: str) -> JsonObject:
    """The record set as it is kept. Raises CloudError 400."""
    name, type_, data = text(asked, "name").lower(), text(asked, "type"), texts(asked, "rrdatas")
    suffix = text(zone, "dnsName")
    inside = suffix == "." or name == suffix or name.endswith(f".{suffix}")
    if not _DNS_NAME.fullmatch(name) or not inside:
        raise invalid(f"{field}.name", name)
    if type_ not in _TYPES:
        raise invalid(f"{field}.type", type_)
    if not data:
        raise required(f"{field}.rrdata")
    for value in data:
        if not _fits(type_, value):
            raise invalid(f"{field}.rrdata[{value}]", value)
    if type_ == "CNAME" and (len(data) > 1 or name == suffix):
        raise invalid(f"{field}.rrdata", _shown(asked))
    ttl = int(number(asked, "ttl"))
    return {**_record_set(name, type_, data), "ttl": ttl}


def _fits(type_: str, value: str) -> bool:
    if type_ == "CNAME":
        return bool(_DNS_NAME.fullmatch(value.lower()))
    if type_ not in ("A", "AAAA"):
        return bool(value)
    try:
        return ipaddress.ip_address(value).version == (4 if type_ == "A" else 6)
    except ValueError:
        return False


def _check_alone(present: dict[str, JsonObject], added: JsonObject, field: str) -> None:
    """A name with a CNAME has no other record set (RFC 1034, 3.6.2). Raises CloudError 409."""
    for there in present.values():
        if there["name"] == added["name"] and "CNAME" in (there["type"], added["type"]):
            raise already_exists(field, _shown(added))
