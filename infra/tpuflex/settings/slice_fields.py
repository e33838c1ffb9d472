"""Fields of the slice that the catalog and Flex-start's limits decide."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo, WithJsonSchema

from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.catalog.zones import is_misspelt
from tpuflex.duration import Duration, format_duration
from tpuflex.queued_resource.limits import LONGEST_DRAIN, LONGEST_RUN, SHORTEST_RUN, ZONE_PATTERN
from tpuflex.settings.base import refusal

#: Names that the Cloud TPU API may know, such as v6e-4 and tpu7x-8.
_ACCELERATOR_PATTERN = "[a-z0-9]+(-[a-z0-9]+)+"


@dataclass(frozen=True, slots=True)
class Lookup:
    """Where the fields of a slice are looked up; the validation context of their sections.

    Attributes:
        catalog: the catalog.
        deploying: whether the slice is to be created. What runs already was in the catalog once,
            and must be found and taken down although its row is gone or broken.
    """

    catalog: Catalog
    deploying: bool = True


def _bounded(
    *, least: tuple[timedelta, str] | None = None, most: tuple[timedelta, str] | None = None
) -> AfterValidator:
    """Refuses what is shorter than ``least`` or longer than ``most``, each with why."""

    def check(value: timedelta) -> timedelta:
        if most is not None and value > most[0]:
            raise refusal(
                f"{format_duration(value)} is longer than {most[1]}",
                f"Write {format_duration(most[0])} or less.",
            )
        if least is not None and value < least[0]:
            raise refusal(
                f"{format_duration(value)} is too short to {least[1]}",
                f"Write {format_duration(least[0])} or more.",
            )
        return value

    return AfterValidator(check)


def check_accelerator(name: str, info: ValidationInfo) -> str:
    """``name`` if it is an accelerator type that can be served on.

    The context of ``info`` is a :class:`Lookup`; the catalog of tpuflex by default."""
    lookup = _lookup(info)
    catalog = lookup.catalog
    row = catalog.accelerator(name)
    if row is None:
        if not lookup.deploying and re.fullmatch(_ACCELERATOR_PATTERN, name):
            return name
        nearest = ", ".join(catalog.nearest_accelerators(name))
        raise refusal(f"unknown accelerator type {name!r}", f"Nearest: {nearest}.")
    if not row.flex_start_api:
        raise refusal(
            f"the Cloud TPU API, which tpuflex asks for capacity, does not have {row.name}",
            "Write v6e-8 or smaller.",
        )
    if row.hosts > 1:
        raise refusal(
            f"{row.name} has {row.hosts} hosts, and serving across hosts is not built yet",
            f"Write {_largest(catalog, row.generation) or 'v6e-8'} or smaller.",
        )
    return name


def check_zone(zone: str, info: ValidationInfo) -> str:
    """``zone`` unless its region is misspelt; zones that are only unknown pass.

    The context of ``info`` is a :class:`Lookup`; the catalog of tpuflex by default."""
    lookup = _lookup(info)
    catalog = lookup.catalog
    if any(zone == known for known, _ in catalog.zones):
        return zone
    is_zone = re.fullmatch(ZONE_PATTERN, zone) is not None
    if not is_zone or (lookup.deploying and is_misspelt(zone)):
        nearest = catalog.nearest_zones(zone)
        raise refusal(
            f"there is no zone {zone!r}",
            f"Did you mean {' or '.join(nearest)}?"
            if nearest
            else f"Write a zone such as {', '.join(catalog.accepting_zones('v6e')[:3])}.",
        )
    return zone


def _largest(catalog: Catalog, generation: str) -> str:
    """The accelerator type with the most chips on one host; empty if there is none."""
    single = [
        row
        for row in catalog.accelerators.values()
        if row.generation == generation and row.hosts == 1
    ]
    return max(single, key=lambda row: row.chips).name if single else ""


def _lookup(info: ValidationInfo) -> Lookup:
    return info.context if isinstance(info.context, Lookup) else Lookup(builtin())


RunDuration = Annotated[
    Duration,
    _bounded(
        least=(SHORTEST_RUN, "boot and load weights"), most=(LONGEST_RUN, "Flex-start allows")
    ),
]
Timeout = Annotated[Duration, _bounded(least=(timedelta(minutes=1), "wait for anything"))]
Drain = Annotated[Duration, _bounded(most=(LONGEST_DRAIN, "a drain may last"))]
DrainMargin = Annotated[Duration, _bounded(least=(timedelta(seconds=30), "end requests"))]
AcceleratorType = Annotated[str, AfterValidator(check_accelerator)]
Zone = Annotated[
    str,
    AfterValidator(check_zone),
    WithJsonSchema({"type": "string", "pattern": f"^{ZONE_PATTERN}$", "examples": ["us-east5-a"]}),
]
