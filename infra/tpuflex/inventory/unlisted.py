"""What could not be looked at in the cloud: said once for each reason, what to do about it, and
what the state knows of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import starmap
from typing import TYPE_CHECKING

from tpuflex.inventory.cloud_resource import asked_fields
from tpuflex.inventory.inventory import Item
from tpuflex.inventory.kinds import KINDS, NODE, SLICE, of_type
from tpuflex.inventory.resource_ids import regions_in, zones_in
from tpuflex.roles.refusal import refusal_remedy

if TYPE_CHECKING:
    from tpuflex.inventory.inventory import Inventory
    from tpuflex.inventory.listing import Unlisted

#: What differs between two refusals for one reason: the resource.
_RESOURCE = re.compile(r"'?(?://\S+/)?\bprojects/\S+")
#: Said in place of a resource's state.
NOT_READ = "known by the state only"


def reasons(unlisted: Iterable[Unlisted]) -> list[str]:
    """``unlisted`` as a line for each reason: ``nodes in a and 3 more places, networks: no
    permission``."""
    grouped: dict[str, tuple[dict[str, list[str]], str]] = {}
    for each in unlisted:
        kinds, _ = grouped.setdefault(_RESOURCE.sub("", each.brief), ({}, each.brief))
        kinds.setdefault(each.what, []).append(each.where)
    return [
        ": ".join(filter(None, (", ".join(starmap(_places, kinds.items())), why)))
        for kinds, why in grouped.values()
    ]


def unlisted_remedy(unlisted: Iterable[object], project: str) -> str:
    """What to do so that ``unlisted`` of ``project`` can be looked at; empty if nobody knows."""
    return refusal_remedy("\n".join(map(str, unlisted)), project)


def recorded(resources: Iterable[Mapping[str, object]], inventory: Inventory) -> tuple[Item, ...]:
    """What the state knows of kinds that ``inventory`` could not look at everywhere, and does not
    list, in the order of deletion.

    Args:
        resources: the state's, as the engine stores them.
        inventory: what was listed.
    """
    listed = {(item.kind, item.name) for item in inventory.items}
    found: dict[tuple[str, str], Item] = {}
    for resource in resources:
        kind, id_ = of_type(str(resource.get("type"))), str(resource.get("id") or "")
        if kind is None or not id_:
            continue
        name = _output(resource, "role") or id_.rpartition("/")[2]
        if kind.named_by_google:
            name = str(asked_fields(kind, _outputs(resource)).get("displayName") or name)
        # The node of a slice is in no state: it goes with its request.
        for each in (SLICE, NODE) if kind == SLICE else (kind,):
            key = each.name, name
            if each.name in inventory.unlisted_kinds and key not in listed:
                found[key] = Item(*key, _place(resource, id_), NOT_READ, known=True)
    order = [kind.name for kind in KINDS]
    return tuple(sorted(found.values(), key=lambda item: order.index(item.kind)))


def _places(kind: str, places: list[str]) -> str:
    more = len(places) - 1
    also = f" and {more} more place{'s' if more > 1 else ''}" if more else ""
    return (f"{kind} in {places[0]}" if places[0] else kind) + also


def _place(resource: Mapping[str, object], id_: str) -> str:
    at = (*zones_in([id_]), *regions_in([id_]))
    return at[0] if at else _output(resource, "location").lower() or "global"


def _output(resource: Mapping[str, object], key: str) -> str:
    return str(_outputs(resource).get(key) or "")


def _outputs(resource: Mapping[str, object]) -> Mapping[str, object]:
    outputs = resource.get("outputs")
    return outputs if isinstance(outputs, Mapping) else {}
