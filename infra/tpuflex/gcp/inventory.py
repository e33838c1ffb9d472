"""Everything in the cloud that belongs to one endpoint, by owner marker and by name.

Teardown is proved with this list, so it asks every service itself and does not look into
Pulumi's state. What could not be looked at is reported, never taken for empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.catalog.zones import region_of
from tpuflex.gcp import kinds
from tpuflex.gcp.listing import Apis, CloudResource, list_all
from tpuflex.naming import Names, account_email


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
        items: everything of the endpoint that exists, in the order of deletion.
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
        return tuple(dict.fromkeys(map(region_of, self.zones)))

    @property
    def service_account(self) -> str:
        """Email of the hosts' service account."""
        return account_email(self.names.service_account_id(), self.project)

    def owns(self, resource: CloudResource) -> bool:
        """Whether ``resource`` is the endpoint's: by its marker, or by a name that only the
        endpoint gives. Of what is marked by a description, which anyone may write, the name counts
        even beside a foreign marker: this list proves that nothing is left."""
        if resource.owner == self.names.owner:
            return True
        if resource.owner and resource.kind.marker != "description":
            return False
        given = (self.names, self.project, self.regions)
        return any(kind.named(resource.name, *given) for kind in kinds.KINDS)


def take_inventory(scope: Scope, apis: Apis) -> Inventory:
    """Ask every service what of the endpoint exists.

    A service that refuses does not end the listing: it is in ``unseen``.
    """
    accounts = {scope.service_account: scope.names.owner}
    listing = list_all(apis, scope.project, scope.zones, accounts)
    items = (
        Item(resource.kind.name, resource.name, resource.location, resource.state)
        for resource in listing.resources
        if scope.owns(resource)
    )
    return Inventory(tuple(items), listing.unseen)
