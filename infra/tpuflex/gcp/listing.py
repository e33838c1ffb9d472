"""Lists of Google's APIs, and everything of the table of kinds that they hold.

What could not be looked at is reported, never taken for empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuflex.catalog.zones import region_of
from tpuflex.errors import AccessError, ApiError, NotFoundError, ServiceDisabledError
from tpuflex.gcp import kinds
from tpuflex.gcp.kinds import Kind
from tpuflex.gcp.markers import marker_of
from tpuflex.gcp.timing import DEFAULT_BUDGET

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tpuflex.gcp.endpoints import Endpoints
    from tpuflex.gcp.transport import Api, JsonObject

#: In the place of a zone: all of them. gcloud lists TPUs so (``--zone=-``), but the reference of
#: the REST API does not mention it. So it only ever adds to what is listed zone by zone, and a
#: refusal, or a zone that is unreachable, means no more than that nothing was added.
ANY_ZONE = "-"
#: Lists under way at once.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Apis:
    """One client per service."""

    tpu: Api
    storage: Api
    secretmanager: Api
    compute: Api
    iam: Api
    resourcemanager: Api
    dns: Api

    def of(self, kind: Kind) -> Api:
        """The client of the API that has resources of ``kind``."""
        api: Api = getattr(self, kind.service)
        return api


def apis(endpoints: Endpoints, connect: Callable[[str], Api]) -> Apis:
    """The clients for ``endpoints``; ``connect`` makes one for a base URL."""
    return Apis(
        tpu=connect(endpoints.tpu),
        storage=connect(endpoints.storage),
        secretmanager=connect(endpoints.secretmanager),
        compute=connect(endpoints.compute),
        iam=connect(endpoints.iam),
        resourcemanager=connect(endpoints.resourcemanager),
        dns=connect(endpoints.dns),
    )


@dataclass(frozen=True, slots=True)
class CloudResource:
    """One resource in the cloud.

    Attributes:
        kind: its row in the table.
        name: its short name or email; of a project role, the role.
        location: zone, region or ``global``.
        id: its id as a state spells it.
        path: its path in its API.
        owner: owner marker; empty where it carries none.
        project: Pulumi project by its label; empty where it has no labels.
        stack: stack by its label; empty where it has no labels.
        state: its state, if it has one.
        holder: of a node, the queued resource that made it.
        member: of a project role, who has it.
    """

    kind: Kind
    name: str
    location: str
    id: str
    path: str
    owner: str
    project: str = ""
    stack: str = ""
    state: str = ""
    holder: str = ""
    member: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What exists, and the places that did not answer, each with the reason."""

    resources: tuple[CloudResource, ...]
    unseen: tuple[str, ...] = ()


def list_all(
    apis: Apis, project: str, zones: tuple[str, ...], accounts: Mapping[str, str]
) -> Listing:
    """Everything that exists of each kind, ours or not, in the order of deletion.

    Args:
        apis: clients.
        project: Google Cloud project id.
        zones: those that must be looked into, and their regions; elsewhere as for
            :data:`ANY_ZONE`, because an earlier program may have asked there.
        accounts: owner marker by service account email, for the roles in the project's policy:
            a binding carries no marker but the account's name. Other roles are not listed.

    A service that refuses does not end the listing: it is in ``unseen``.
    """

    def in_api(look: tuple[Kind, str]) -> Listing:
        return _listed(apis, *look, project, zones)

    def in_policy(kind: Kind) -> Listing:
        return _until_refused("project policy", _roles(apis, kind, project, accounts))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        listings = [
            *pool.map(in_api, _looks(_found_by("api"), zones)),
            *pool.map(in_policy, _found_by("policy")),
        ]
    found = _joined(listings)
    ordered = sorted(found.resources, key=lambda resource: kinds.deletion_rank(resource.kind))
    return Listing(tuple(ordered), found.unseen)


def list_marked(
    apis: Apis, project: str, zones: tuple[str, ...], accounts: Mapping[str, str]
) -> Listing:
    """Every resource that tpuflex made for any stack, by its owner marker; as :func:`list_all`
    else."""
    listing = _marked(list_all(apis, project, zones, accounts))
    return Listing(tuple(each for each in listing.resources if each.kind.made), listing.unseen)


def list_slices(apis: Apis, project: str, zones: tuple[str, ...]) -> Listing:
    """The queued resources and nodes with an owner marker: those of ``zones`` first, then those
    elsewhere; ``zones`` and ``unseen`` as for :func:`list_all`."""
    tpu = [kind for kind in _found_by("api") if kind.service == "tpu"]
    return _marked(_joined(_listed(apis, *look, project, zones) for look in _looks(tpu, zones)))


def owner_now(apis: Apis, resource: CloudResource) -> str | None:
    """The owner marker that ``resource`` carries now; None if it is gone.

    Raises:
        AccessError, ApiError: it cannot be read.
    """
    try:
        answer = apis.of(resource.kind).call("GET", resource.path)
    except NotFoundError:
        return None
    return marker_of(resource.kind, answer).owner


def pages(
    api: Api, path: str, query: Mapping[str, str] | None = None, *, budget: float = DEFAULT_BUDGET
) -> Iterator[JsonObject]:
    """Every page of the list at ``path``."""
    token = ""
    while True:
        paging = {"pageToken": token} if token else {}
        page = api.call("GET", path, query={**(query or {}), **paging}, budget=budget)
        yield page
        token = str(page.get("nextPageToken") or "")
        if not token:
            return


def entries(page: JsonObject, key: str) -> list[JsonValue]:
    """The list under ``key``; empty if there is none."""
    listed = page.get(key)
    return listed if isinstance(listed, list) else []


def objects(page: JsonObject, key: str) -> Iterator[JsonObject]:
    """The objects of the list under ``key``."""
    return (entry for entry in entries(page, key) if isinstance(entry, dict))


def state_of(answer: Mapping[str, Any]) -> str:
    """The state that an API's answer about a resource names; empty if it names none."""
    state = answer.get("state", "")
    return str(state.get("state", "") if isinstance(state, dict) else state)


def _found_by(how: str) -> list[Kind]:
    return [kind for kind in kinds.KINDS if kind.found_by == how]


def _looks(of: Iterable[Kind], zones: tuple[str, ...]) -> list[tuple[Kind, str]]:
    """Each kind with each place where it is listed; all other zones come last."""
    where = {
        "project": ("",),
        "region": tuple(dict.fromkeys(map(region_of, zones))),
        "zone": zones,
    }
    listed = list(of)
    named = [(kind, place) for kind in listed for place in where[kind.location]]
    return [*named, *((kind, ANY_ZONE) for kind in listed if kind.location == "zone")]


def _listed(apis: Apis, kind: Kind, place: str, project: str, zones: tuple[str, ...]) -> Listing:
    values: dict[str, str] = {kind.location: place, "project": project}
    query = {kind.query: project} if kind.query else None

    def parts() -> Iterator[Listing]:
        listed = pages(apis.of(kind), kind.collection.format_map(values), query)
        for page in _if_enabled(kind, listed):
            unreachable = entries(page, "unreachable")
            yield Listing(
                tuple(_resource(kind, entry, values) for entry in objects(page, kind.items)),
                tuple(f"{kind.name}s: {location} is unreachable" for location in unreachable),
            )

    listing = _until_refused(f"{kind.name}s in {place}" if place else f"{kind.name}s", parts())
    if place != ANY_ZONE:
        return listing
    return Listing(tuple(other for other in listing.resources if other.location not in zones))


def _if_enabled(kind: Kind, listed: Iterator[JsonObject]) -> Iterator[JsonObject]:
    """The pages of a list; none where an API that need not be enabled is not."""
    try:
        yield from listed
    except ServiceDisabledError:
        if not kind.optional_api:
            raise


def _resource(kind: Kind, entry: JsonObject, where: Mapping[str, str]) -> CloudResource:
    name = str(entry.get("email") or str(entry.get("name", "")).rpartition("/")[2])
    values = {**where, "name": name}
    if values.get("zone") == ANY_ZONE:  # the full name, projects/P/locations/Z/…, tells which
        values["zone"] = (str(entry.get("name")).split("/") + [""] * 4)[3]
    place = "global" if kind.location == "project" else values[kind.location]
    marker = marker_of(kind, entry)
    return CloudResource(
        kind=kind,
        name=name,
        location=str(entry.get("location") or place).lower(),
        id=kind.id.format_map(values),
        path=kind.path.format_map(values),
        owner=marker.owner,
        project=marker.project,
        stack=marker.stack,
        state=state_of(entry),
        holder=str(entry.get("queuedResource") or ""),
    )


def _roles(apis: Apis, kind: Kind, project: str, accounts: Mapping[str, str]) -> Iterator[Listing]:
    path = f"{kind.root}projects/{project}"
    policy = apis.of(kind).call("POST", f"{path}:getIamPolicy", body={})
    for binding in objects(policy, "bindings"):
        role = str(binding.get("role"))
        for member in map(str, entries(binding, "members")):
            # A deleted account's roles stay, as deleted:serviceAccount:EMAIL?uid=…
            email = member.partition("serviceAccount:")[2].partition("?")[0]
            if email in accounts:
                found = CloudResource(
                    kind=kind,
                    name=role,
                    location="global",
                    id=f"{project}/{role}/{member}",
                    path=path,
                    owner=accounts[email],
                    state="of a deleted account" if member.startswith("deleted:") else "",
                    member=member,
                )
                yield Listing((found,))


def _until_refused(place: str, parts: Iterator[Listing]) -> Listing:
    """``parts`` as one, up to a refusal; ``place`` that does not exist holds nothing."""
    listings: list[Listing] = []
    try:
        listings.extend(parts)
    except NotFoundError:
        pass
    except (AccessError, ApiError) as error:
        listings.append(Listing((), (f"{place}: {error.message}",)))
    return _joined(listings)


def _joined(listings: Iterable[Listing]) -> Listing:
    every = list(listings)
    return Listing(
        tuple(resource for listing in every for resource in listing.resources),
        tuple(place for listing in every for place in listing.unseen),
    )


def _marked(listing: Listing) -> Listing:
    return Listing(tuple(each for each in listing.resources if each.owner), listing.unseen)
