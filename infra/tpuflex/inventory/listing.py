"""Lists of Google's APIs, and everything of the table of kinds that they hold.

What could not be looked at is reported, never taken for empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpuflex.catalog.zones import region_of
from tpuflex.errors import (
    AccessError,
    ApiError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.paging import entries, objects, pages
from tpuflex.google.project import POLICY, account_of, deleted_account
from tpuflex.inventory import kinds
from tpuflex.inventory.cloud_resource import CloudResource, Marker, described, short_name
from tpuflex.inventory.kinds import Kind

if TYPE_CHECKING:
    from tpuflex.google.apis import Apis
    from tpuflex.google.transport import JsonObject

#: In the place of a zone: all of them. gcloud lists TPUs so (``--zone=-``), but the reference of
#: the REST API does not mention it. So it only ever adds to what is listed zone by zone, and a
#: refusal, or a zone that is unreachable, means no more than that nothing was added.
ANY_ZONE = "-"
#: Lists under way at once.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Unlisted:
    """What could not be looked at, and why.

    Attributes:
        what: what would be there, such as ``queued resources``; empty where the reason says all.
        where: in which zone or region; empty where it is in the whole project.
        why: the reason.
        brief: the reason without the call that was refused.
    """

    what: str
    where: str
    why: str
    brief: str

    @classmethod
    def of(cls, what: str, error: TpuflexError, where: str = "") -> Unlisted:
        """``what`` could not be looked at because of ``error``."""
        return cls(what, where, error.message, error.brief)

    def __str__(self) -> str:
        place = f"{self.what} in {self.where}" if self.where else self.what
        return f"{place}: {self.why}" if place else self.why


@dataclass(frozen=True, slots=True)
class Listing:
    """What exists, and what could not be looked at.

    Attributes:
        resources: what exists.
        unlisted: the places that did not answer, each with the reason.
        unlisted_kinds: names of the kinds of which something may be in those places.
        refused: whether the caller may not look at one of them.
    """

    resources: tuple[CloudResource, ...]
    unlisted: tuple[Unlisted, ...] = ()
    unlisted_kinds: frozenset[str] = frozenset()
    refused: bool = False


def list_all(
    apis: Apis,
    project: str,
    zones: tuple[str, ...],
    accounts: Collection[str] = (),
    regions: tuple[str, ...] = (),
) -> Listing:
    """Everything that exists of each kind, ours or not, in the order of deletion.

    Args:
        apis: clients.
        project: Google Cloud project id.
        zones: those that must be looked into, and their regions; elsewhere as for
            :data:`ANY_ZONE`, because an earlier program may have asked there.
        accounts: emails of service accounts whose roles in the project's policy are listed, beside
            those of every account that carries a marker: a binding carries nothing but the
            account's name. Other roles are not listed.
        regions: further regions that must be looked into.

    A service that refuses does not end the listing: it is in ``unlisted``.
    """

    def in_api(look: tuple[Kind, str]) -> Listing:
        return _listed(apis, *look, project, zones)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = _joined(pool.map(in_api, _looks(_found_by("api"), zones, regions)))
    there = {each.name: each.marker for each in found.resources if each.kind == kinds.ACCOUNT}
    marked = {email for email, marker in there.items() if marker.owner}
    roles = _joined(
        _until_refused(
            kind, "project policy", _roles(apis, kind, project, {*accounts, *marked}, there)
        )
        for kind in _found_by("policy")
    )
    # A list of all regions has those of the stack once more.
    every = {(each.path, each.id): each for each in (*found.resources, *roles.resources)}.values()
    ordered = sorted(every, key=lambda resource: kinds.deletion_rank(resource.kind))
    whole = _joined((found, roles))
    return replace(whole, resources=tuple(ordered))


def list_slices(apis: Apis, project: str, zones: tuple[str, ...]) -> Listing:
    """The queued resources and nodes with an owner marker: those of ``zones`` first, then those
    elsewhere; ``zones`` and ``unlisted`` as for :func:`list_all`."""
    tpu = [kind for kind in _found_by("api") if kind.service == "tpu"]
    found = _joined(_listed(apis, *look, project, zones) for look in _looks(tpu, zones))
    return replace(found, resources=tuple(each for each in found.resources if each.marker.owner))


def list_kind(apis: Apis, kind: Kind, project: str) -> Listing:
    """Everything that exists of ``kind``, which is listed by project; ``unlisted`` as for
    :func:`list_all`."""
    return _listed(apis, kind, "", project, ())


def read_again(apis: Apis, resource: CloudResource) -> CloudResource | None:
    """``resource`` as it is now; None if it is gone. Not for a project role.

    Raises:
        AccessError, ApiError: it cannot be read.
    """
    try:
        answer = resource.kind.client(apis).call("GET", resource.path)
    except NotFoundError:
        return None
    return described(resource.kind, answer, place=resource.location, id_=resource.id)


def _found_by(how: str) -> list[Kind]:
    return [kind for kind in kinds.KINDS if kind.found_by == how]


def _looks(
    of: Iterable[Kind], zones: tuple[str, ...], regions: tuple[str, ...] = ()
) -> list[tuple[Kind, str]]:
    """Each kind with each place where it is listed; all other zones come last."""
    where = {
        "project": ("",),
        "region": tuple(dict.fromkeys((*map(region_of, zones), *regions))),
        "zone": zones,
    }
    listed = list(of)
    named = [(kind, place) for kind in listed for place in where[kind.location]]
    elsewhere = [kind for kind in listed if kind.aggregated or kind.location == "zone"]
    return [*named, *((kind, ANY_ZONE) for kind in elsewhere)]


def _listed(apis: Apis, kind: Kind, place: str, project: str, zones: tuple[str, ...]) -> Listing:
    if kind.aggregated and place == ANY_ZONE:
        return _everywhere(apis, kind, project)
    values: dict[str, str] = {kind.location: place, "project": project}
    query = {kind.query: project} if kind.query else None

    def parts() -> Iterator[Listing]:
        listed = pages(kind.client(apis), kind.collection.format_map(values), query)
        for page in _if_enabled(kind, listed):
            unreachable = entries(page, "unreachable")
            yield Listing(
                tuple(_resource(kind, entry, values) for entry in objects(page, kind.items)),
                tuple(_unreachable(kind, str(location)) for location in unreachable),
                frozenset((kind.name,)) if unreachable else frozenset(),
            )

    listing = _until_refused(kind, place, parts())
    if place != ANY_ZONE:
        return listing
    return Listing(tuple(other for other in listing.resources if other.location not in zones))


def _everywhere(apis: Apis, kind: Kind, project: str) -> Listing:
    """What is of ``kind`` in all regions; those of the stack are listed by themselves, so that a
    refusal, or a region that is unreachable, means no more than that nothing was added.

    https://cloud.google.com/compute/docs/reference/rest/v1/subnetworks/aggregatedList
    """

    def parts() -> Iterator[Listing]:
        for page in pages(kind.client(apis), kind.everywhere.format(project=project)):
            items = page.get("items")
            for scope, held in (items if isinstance(items, dict) else {}).items():
                if isinstance(held, dict):
                    place = str(scope).rpartition("/")[2]
                    values: dict[str, str] = {"project": project, kind.location: place}
                    found = objects(held, kind.plural_key)
                    yield Listing(tuple(_resource(kind, entry, values) for entry in found))

    return Listing(_until_refused(kind, "", parts()).resources)


def _if_enabled(kind: Kind, listed: Iterator[JsonObject]) -> Iterator[JsonObject]:
    """The pages of a list; none where an API that need not be enabled is not."""
    try:
        yield from listed
    except ServiceDisabledError:
        if not kind.optional_api:
            raise


def _resource(kind: Kind, entry: JsonObject, where: Mapping[str, str]) -> CloudResource:
    values = {**where, "name": short_name(entry)}
    if values.get("zone") == ANY_ZONE:  # the full name, projects/P/locations/Z/…, tells which
        values["zone"] = (str(entry.get("name")).split("/") + [""] * 4)[3]
    place = "global" if kind.location == "project" else values[kind.location]
    return described(kind, entry, place=place, id_=kind.id.format_map(values))


def _roles(
    apis: Apis, kind: Kind, project: str, accounts: Collection[str], there: Mapping[str, Marker]
) -> Iterator[Listing]:
    """The roles of ``accounts`` in the project's policy; ``there`` has the markers of the accounts
    that exist."""
    path = f"{kind.root}projects/{project}"
    policy = kind.client(apis).call("POST", f"{path}:getIamPolicy", body=POLICY)
    for binding in objects(policy, "bindings"):
        role = str(binding.get("role"))
        for member in map(str, entries(binding, "members")):
            if account_of(member) in accounts:
                found = CloudResource(
                    kind=kind,
                    # tpuflex grants nothing on conditions, so this one is not its own.
                    name=f"{role} on a condition" if binding.get("condition") else role,
                    location="global",
                    id=f"{project}/{role}/{member}",
                    path=path,
                    marker=there.get(account_of(member), Marker()),
                    state="of a deleted account" if deleted_account(member) else "",
                    member=member,
                )
                yield Listing((found,))


def _unreachable(kind: Kind, location: str) -> Unlisted:
    why = f"{location} is unreachable"
    return Unlisted(kind.plural, "", why, why)


def _until_refused(kind: Kind, place: str, parts: Iterator[Listing]) -> Listing:
    """``parts`` as one, up to a refusal; ``place`` that does not exist holds nothing."""
    listings: list[Listing] = []
    try:
        listings.extend(parts)
    except NotFoundError:
        pass
    except (AccessError, ApiError) as error:
        unlisted = Unlisted.of(kind.plural, error, place)
        refused = isinstance(error, AccessError)
        listings.append(Listing((), (unlisted,), frozenset((kind.name,)), refused))
    return _joined(listings)


def _joined(listings: Iterable[Listing]) -> Listing:
    every = list(listings)
    return Listing(
        tuple(resource for listing in every for resource in listing.resources),
        tuple(place for listing in every for place in listing.unlisted),
        frozenset(name for listing in every for name in listing.unlisted_kinds),
        any(listing.refused for listing in every),
    )
