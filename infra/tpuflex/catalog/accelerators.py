"""TPU accelerator types: chips, hosts, topology, runtime version, memory."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import date

from tpuflex.catalog import Source

_V6E = Source("https://cloud.google.com/tpu/docs/v6e", date(2026, 8, 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One accelerator type as the Cloud TPU API spells it.

    Attributes:
        name: accelerator type, such as ``v6e-8``.
        generation: TPU generation, such as ``v6e``; prices are per generation.
        chips: chips in the slice.
        hosts: virtual machines of the slice; more than one needs multi-host serving.
        topology: shape of the slice, such as ``2x4``.
        runtime_version: TPU software version that Google's documentation gives for it.
        hbm_gb_per_chip: high-bandwidth memory per chip in GB, nominal.
        source: where the row comes from.
    """

    name: str
    generation: str
    chips: int
    hosts: int
    topology: str
    runtime_version: str
    hbm_gb_per_chip: int
    source: Source


def _v6e(chips: int, hosts: int, topology: str) -> Accelerator:
    return Accelerator(
        name=f"v6e-{chips}",
        generation="v6e",
        chips=chips,
        hosts=hosts,
        topology=topology,
        runtime_version="v2-alpha-tpuv6e",
        hbm_gb_per_chip=32,
        source=_V6E,
    )


ACCELERATORS: dict[str, Accelerator] = {
    row.name: row
    for row in (
        _v6e(1, 1, "1x1"),
        _v6e(4, 1, "2x2"),
        _v6e(8, 1, "2x4"),
        # From 16 chips on, each host has four chips; v6e-8 is the largest single machine.
        _v6e(16, 4, "4x4"),
        _v6e(32, 8, "4x8"),
        _v6e(64, 16, "8x8"),
        _v6e(128, 32, "8x16"),
        _v6e(256, 64, "16x16"),
    )
}


def accelerator(name: str) -> Accelerator | None:
    """The accelerator type called ``name``, or None."""
    return ACCELERATORS.get(name)


def nearest_accelerators(name: str, count: int = 3) -> tuple[str, ...]:
    """The ``count`` names most like ``name``, best first; filled up with the smallest types."""
    close = difflib.get_close_matches(name.lower(), ACCELERATORS, n=count, cutoff=0.5)
    return tuple(dict.fromkeys((*close, *ACCELERATORS)))[:count]
