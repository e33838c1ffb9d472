"""Everything in the cloud that belongs to one endpoint, by owner marker and by name.

Teardown is proved with this list, so it asks every service itself and does not look into
Pulumi's state. What could not be looked at is reported, never taken for empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.gcp.endpoints import Endpoints
from tpuflex.gcp.listing import ANY_ZONE, entries, objects, pages, zone_of
from tpuflex.gcp.transport import Api, JsonObject
from tpuflex.naming import LABEL_OWNER, Names, generation_of

#: Roles under which the components name their Compute Engine resources.
COMPUTE_ROLES = ("net", "subnet", "router", "ssh", "serving")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in the cloud.

    Attributes:
        kind: what it is, such as ``queued resource``.
        name: its name or email.
        location: zone, region or ``global``.
        detail: its state or size, if that says something.
    """

    kind: str
    name: str
    location: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What exists, and what could not be looked at.

    Attributes:
        items: everything of the endpoint that exists.
        unseen: places that did not answer, each with the reason.
    """

    items: tuple[Item, ...]
    unseen: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it is proved that nothing exists."""
        return not self.items and not self.unseen


@dataclass(frozen=True, slots=True)
class Scope:
    """What to look for, and where.

    Attributes:
        project: Google Cloud project id.
        zones: every zone in which the stack asks for capacity.
        names: names and owner marker of the endpoint.
    """

    project: str
    zones: tuple[str, ...]
    names: Names

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions of the zones."""
        return tuple(dict.fromkeys(zone.rpartition("-")[0] for zone in self.zones))

    def owns(self, name: str, labels: object = None, description: object = "") -> bool:
        """Whether a resource is the endpoint's: by its marker, or by its exact name."""
        if isinstance(labels, Mapping) and LABEL_OWNER in labels:
            return bool(labels[LABEL_OWNER] == self.names.owner)
        if self.names.description in str(description) or name in self._names():
            return True
        return generation_of(self.names.prefix, name) is not None

    def _names(self) -> frozenset[str]:
        names = self.names
        return frozenset(
            (
                *(names.compute(role) for role in COMPUTE_ROLES),
                *(names.bucket(self.project, region) for region in self.regions),
                names.secret("api-key"),
                names.secret("hf-token"),
                self.service_account,
            )
        )

    @property
    def service_account(self) -> str:
        """Email of the hosts' service account."""
        return f"{self.names.service_account_id()}@{self.project}.iam.gserviceaccount.com"


@dataclass(frozen=True, slots=True)
class Apis:
    """One client per service."""

    tpu: Api
    storage: Api
    secretmanager: Api
    compute: Api
    iam: Api
    resourcemanager: Api


def apis(endpoints: Endpoints, connect: Callable[[str], Api]) -> Apis:
    """The clients for ``endpoints``; ``connect`` makes one for a base URL."""
    return Apis(
        tpu=connect(endpoints.tpu),
        storage=connect(endpoints.storage),
        secretmanager=connect(endpoints.secretmanager),
        compute=connect(endpoints.compute),
        iam=connect(endpoints.iam),
        resourcemanager=connect(endpoints.resourcemanager),
    )


def take_inventory(scope: Scope, apis: Apis) -> Inventory:
    """Ask every service what of the endpoint exists.

    Refusals of a service do not end the listing: they are in ``unseen``.
    """
    items: list[Item] = []
    unseen: list[str] = []
    for place, look in _places(scope, apis):
        try:
            items.extend(look(unseen))
        except NotFoundError:
            continue
        except (AccessError, ApiError) as error:
            unseen.append(f"{place}: {error.message}")
    return Inventory(tuple(items), tuple(unseen))


Look = Callable[[list[str]], Iterator[Item]]


def _places(scope: Scope, apis: Apis) -> Iterator[tuple[str, Look]]:
    for zone in scope.zones:
        yield f"queued resources in {zone}", _tpu(scope, apis, zone, "queuedResources")
        yield f"nodes in {zone}", _tpu(scope, apis, zone, "nodes")
    # An earlier program, or a run that was killed, may have asked in other zones.
    yield "queued resources elsewhere", _elsewhere(scope, apis, "queuedResources")
    yield "nodes elsewhere", _elsewhere(scope, apis, "nodes")
    yield "buckets", lambda _: _buckets(scope, apis)
    yield "secrets", lambda _: _secrets(scope, apis)
    yield "service accounts", lambda _: _accounts(scope, apis)
    yield "project policy", lambda _: _bindings(scope, apis)
    for kind, collection in (("firewall rule", "global/firewalls"), ("network", "global/networks")):
        yield collection, _compute(scope, apis, kind, collection, "global")
    for region in scope.regions:
        for kind, collection in (
            ("router", "routers"),
            ("subnetwork", "subnetworks"),
            ("address", "addresses"),
        ):
            path = f"regions/{region}/{collection}"
            yield path, _compute(scope, apis, kind, path, region)


def _tpu(scope: Scope, apis: Apis, zone: str, collection: str) -> Look:
    kind = {"queuedResources": "queued resource", "nodes": "node"}[collection]

    def look(unseen: list[str]) -> Iterator[Item]:
        path = f"/v2alpha1/projects/{scope.project}/locations/{zone}/{collection}"
        for page in pages(apis.tpu, path):
            for place in entries(page, "unreachable"):
                unseen.append(f"{kind}s: {place} is unreachable")
            for entry in objects(page, collection):
                name = str(entry.get("name", "")).rpartition("/")[2]
                if scope.owns(name, _tpu_labels(entry)):
                    there = zone_of(entry) if zone == ANY_ZONE else zone
                    yield Item(kind, name, there, _tpu_state(entry))

    return look


def _elsewhere(scope: Scope, apis: Apis, collection: str) -> Look:
    everywhere = _tpu(scope, apis, ANY_ZONE, collection)

    def look(_unseen: list[str]) -> Iterator[Item]:
        with suppress(AccessError, ApiError):
            yield from (item for item in everywhere([]) if item.location not in scope.zones)

    return look


def _tpu_labels(entry: JsonObject) -> object:
    """A queued resource has no labels of its own: those of its node spec count."""
    if "tpu" not in entry:
        return entry.get("labels")
    tpu = entry["tpu"]
    specs = tpu.get("nodeSpec") if isinstance(tpu, dict) else None
    first = specs[0] if isinstance(specs, list) and specs else None
    node = first.get("node") if isinstance(first, dict) else None
    return node.get("labels") if isinstance(node, dict) else None


def _tpu_state(entry: JsonObject) -> str:
    state = entry.get("state", "")
    return str(state.get("state", "") if isinstance(state, dict) else state)


def _buckets(scope: Scope, apis: Apis) -> Iterator[Item]:
    for page in pages(apis.storage, "/storage/v1/b", {"project": scope.project}):
        for entry in objects(page, "items"):
            if scope.owns(str(entry.get("name")), entry.get("labels")):
                yield Item("bucket", str(entry["name"]), str(entry.get("location", "")).lower())


def _secrets(scope: Scope, apis: Apis) -> Iterator[Item]:
    for page in pages(apis.secretmanager, f"/v1/projects/{scope.project}/secrets"):
        for entry in objects(page, "secrets"):
            name = str(entry.get("name", "")).rpartition("/")[2]
            if scope.owns(name, entry.get("labels")):
                yield Item("secret", name, "global")


def _accounts(scope: Scope, apis: Apis) -> Iterator[Item]:
    for page in pages(apis.iam, f"/v1/projects/{scope.project}/serviceAccounts"):
        for entry in objects(page, "accounts"):
            email = str(entry.get("email", ""))
            if scope.owns(email, description=entry.get("description")):
                yield Item("service account", email, "global")


def _bindings(scope: Scope, apis: Apis) -> Iterator[Item]:
    policy = apis.resourcemanager.call(
        "POST", f"/v1/projects/{scope.project}:getIamPolicy", body={}
    )
    for binding in objects(policy, "bindings"):
        for member in entries(binding, "members"):
            # A deleted account's bindings stay as deleted:serviceAccount:EMAIL?uid=…
            if f"serviceAccount:{scope.service_account}" in str(member):
                gone = "of a deleted account" if str(member).startswith("deleted:") else ""
                yield Item("project role", str(binding.get("role")), "global", gone)


def _compute(scope: Scope, apis: Apis, kind: str, path: str, location: str) -> Look:
    def look(_unseen: list[str]) -> Iterator[Item]:
        for page in pages(apis.compute, f"/compute/v1/projects/{scope.project}/{path}"):
            for entry in objects(page, "items"):
                name = str(entry.get("name"))
                if scope.owns(name, entry.get("labels"), entry.get("description")):
                    yield Item(kind, name, location)

    return look
