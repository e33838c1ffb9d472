"""Everything in the cloud that belongs to one endpoint, or has its name.

Teardown is proved with this list, so it asks every service itself. What cannot be listed is
reported, never taken for empty. What merely has one of the endpoint's names is listed separately
and never deleted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.catalog.zones import region_of
from tpuflex.errors import TpuflexError
from tpuflex.google.apis import Apis
from tpuflex.google.project import account_of, project_number
from tpuflex.inventory import kinds
from tpuflex.inventory.listing import Unlisted, list_all
from tpuflex.inventory.ownership import NO_STATE_ID, Maker, differences, reason
from tpuflex.inventory.resource_ids import regions_in, zones_in
from tpuflex.naming import Names, account_email

if TYPE_CHECKING:
    from tpuflex.inventory.cloud_resource import CloudResource


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in the cloud.

    Attributes:
        kind: what it is, such as ``queued resource``.
        name: its name or email.
        location: zone, region or ``global``.
        detail: its state or size, if that says something.
        foreign: why it is not proved to be ours; empty for what is.
        known: whether the state has a record of it.
    """

    kind: str
    name: str
    location: str
    detail: str = ""
    foreign: str = ""
    known: bool = False

    def to_json(self) -> dict[str, str | None]:
        """It in the documents of ``--json``."""
        return {
            "kind": self.kind,
            "name": self.name,
            "location": self.location,
            "detail": self.detail,
            "foreign": self.foreign or None,
        }


@dataclass(frozen=True, slots=True)
class Inventory:
    """What exists, and what could not be looked at.

    Attributes:
        items: everything of the endpoint that exists, or has its name, in the order of deletion.
        unlisted: places that did not answer, each with the reason.
        unlisted_kinds: names of the kinds of which something may be in those places.
        kept: paths of what the endpoint uses and others have made: it stays.
    """

    items: tuple[Item, ...]
    unlisted: tuple[Unlisted, ...] = ()
    unlisted_kinds: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()

    @property
    def ours(self) -> tuple[Item, ...]:
        """What is proved to be ours."""
        return tuple(item for item in self.items if not item.foreign)

    @property
    def foreign(self) -> tuple[Item, ...]:
        """What is not proved to be ours."""
        return tuple(item for item in self.items if item.foreign)

    @property
    def empty(self) -> bool:
        """Whether it is proved that nothing exists."""
        return not self.items and not self.unlisted


@dataclass(frozen=True, slots=True)
class Scope:
    """What to look for, and where.

    Attributes:
        project: Google Cloud project id.
        zones: every zone in which the stack asks for capacity; its file may have been changed, so
            the places of what is ``known`` are looked at, too.
        names: names and owner marker of the endpoint.
        states: ids of the states that are ours, :data:`~tpuflex.inventory.ownership.NO_STATE_ID`
            among them for a state of a version that gave none.
        known: ids of what the state knows: that is ours, whatever it carries.
        kept: paths of what the endpoint uses and others have made.
    """

    project: str
    zones: tuple[str, ...]
    names: Names
    states: frozenset[str] = frozenset({NO_STATE_ID})
    known: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions of the zones, and of what is known."""
        return tuple(dict.fromkeys((*map(region_of, self.zones), *regions_in(self.known))))

    @property
    def service_account(self) -> str:
        """Email of the hosts' service account."""
        return account_email(self.names.service_account_id(), self.project)

    def lists(self, resource: CloudResource) -> bool:
        """Whether ``resource`` belongs into the list: by its marker, or by a name that only the
        endpoint gives. Of what is marked by a description, which anyone may write, the name counts
        even beside a foreign marker: this list proves that nothing is left."""
        if resource.member:
            return account_of(resource.member) == self.service_account
        if resource.marker.owner == self.names.owner:
            return True
        if resource.marker.owner and resource.kind.marker != "description":
            return False
        given = (self.names, self.project, self.regions)
        return any(kind.named(resource.name, *given) for kind in kinds.KINDS)

    def holder(self, resource: CloudResource) -> str:
        """Id of the queued resource that holds ``resource``, as a state spells it; or empty."""
        place = resource.holder.partition("/locations/")[2]
        return f"projects/{self.project}/locations/{place}" if place else ""

    def foreign(self, resource: CloudResource, number: str) -> str:
        """Why ``resource`` is not proved to be ours, in a project of that ``number``; empty if it
        is."""
        if resource.id in self.known:
            return ""
        return reason(differences(resource, Maker(self.names, self.project, number, self.states)))


def take_inventory(scope: Scope, apis: Apis) -> Inventory:
    """Ask every service what of the endpoint exists.

    A service that refuses does not end the listing: it is in ``unlisted``.
    """
    zones = tuple(dict.fromkeys((*scope.zones, *zones_in(scope.known))))
    listing = list_all(apis, scope.project, zones, (scope.service_account,), scope.regions)
    listed = [resource for resource in listing.resources if scope.lists(resource)]
    number = ""
    if any(resource.kind.shared_names for resource in listed):
        with suppress(TpuflexError):  # then nothing proves that they are ours
            number = project_number(apis.resourcemanager, scope.project)
    why = {resource.id: scope.foreign(resource, number) for resource in listed}
    holders = {id_ for id_, foreign in why.items() if not foreign} | scope.known
    items = (
        Item(
            resource.kind.name,
            resource.name,
            resource.location,
            resource.state,
            # Whose a node is that a request holds, the request says: nobody can relabel that.
            "" if scope.holder(resource) in holders else why[resource.id],
            not scope.known.isdisjoint((resource.id, scope.holder(resource))),
        )
        for resource in listed
    )
    return Inventory(tuple(items), listing.unlisted, listing.unlisted_kinds, scope.kept)
