"""What the other runs of a Google Cloud project cost, each to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.catalog.zones import region_of
from tpuflex.duration import google_seconds
from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.inventory.listing import ANY_ZONE
from tpuflex.naming import LABEL_OWNER
from tpuflex.planning.cost import OtherRuns
from tpuflex.queued_resource.states import Lifecycle, lifecycle

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.google.queued_resources import TpuClient
    from tpuflex.queued_resource.model import Node, QueuedResource

_CENT = Decimal("0.01")
_OVER = (Lifecycle.ENDED, Lifecycle.FAILED)


def other_runs(
    tpu: TpuClient, catalog: Catalog, project: str, zones: tuple[str, ...], owner: str
) -> OtherRuns:
    """The runs of ``project`` but for those of one endpoint.

    Args:
        tpu: the TPU API.
        catalog: accelerators and prices.
        project: Google Cloud project id.
        zones: those that must be looked into; the others are, as far as the API lists them at once.
        owner: owner marker of the endpoint whose runs do not count.
    """
    requests: dict[str, QueuedResource] = {}
    nodes: dict[str, Node] = {}
    unknown: list[str] = []
    for zone in (*zones, ANY_ZONE):
        with _told(zone, unknown):
            found = tpu.list_queued_resources(project, zone)
            requests |= {each.name: each for each in found.queued_resources}
            unknown += [f"{place} is unreachable" for place in found.unreachable]
        with _told(zone, unknown):
            there = tpu.list_nodes(project, zone)
            nodes |= {each.name: each for each in there.nodes if not each.queued_resource}
            unknown += [f"{place} is unreachable" for place in there.unreachable]
    billed = [each for each in requests.values() if _billed(each, owner)]
    costs = {each.name: _cost(each, catalog) for each in billed}
    unknown += [
        f"{_short(name)} has no known price or length" for name, usd in costs.items() if usd is None
    ]
    unknown += [f"{_short(name)} is a node that nothing ends" for name in nodes]
    known = sum((usd for usd in costs.values() if usd is not None), Decimal(0))
    return OtherRuns(known.quantize(_CENT), len(billed) + len(nodes), tuple(dict.fromkeys(unknown)))


@contextmanager
def _told(zone: str, unknown: list[str]) -> Iterator[None]:
    """While ``zone`` is looked into: a refusal ends that look, and is told."""
    try:
        yield
    except NotFoundError:
        pass  # there is no such place, and nothing in it
    except (AccessError, ApiError) as error:
        unknown.append(f"{'other zones' if zone == ANY_ZONE else zone}: {error.message}")


def _billed(request: QueuedResource, owner: str) -> bool:
    if lifecycle(request.state.state, None) in _OVER:
        return False
    return request.spec.node.labels.get(LABEL_OWNER) != owner


def _cost(request: QueuedResource, catalog: Catalog) -> Decimal | None:
    """US dollars for the whole of the run; None where a price or the length is not known."""
    seconds = google_seconds(request.run_duration.max_run_duration)
    prices = list(_per_hour(request, catalog))
    if seconds is None or not prices or any(price is None for price in prices):
        return None
    return sum((price for price in prices if price is not None), Decimal(0)) * seconds / 3600


def _per_hour(request: QueuedResource, catalog: Catalog) -> Iterator[Decimal | None]:
    """US dollars an hour of each node that it has or will have."""
    region = region_of(request.name.split("/")[3]) if request.name.count("/") > 3 else ""
    for spec in request.tpu.node_spec:
        price = _node_price(spec.node.accelerator_type, region, catalog)
        for _ in spec.node_ids(request.name):
            yield price


def _node_price(accelerator_type: str, region: str, catalog: Catalog) -> Decimal | None:
    row = catalog.accelerator(accelerator_type)
    price = catalog.price(row.generation, region) if row is not None else None
    if row is None or price is None or price.usd_per_chip_hour is None:
        return None
    return price.usd_per_chip_hour * row.chips


def _short(name: str) -> str:
    """ID in ZONE, of a full name."""
    parts = name.split("/")
    return f"{parts[-1]} in {parts[3]}" if len(parts) > 4 else name
