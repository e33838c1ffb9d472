"""Where Cloud TPU exists and what it offers there, as the emulator knows it.

Zones with v6e hardware: ``acceleratorTypes.list`` of 2026-08-10 (18 zones, one user's
record). FLEX_START rejections: operation errors of code 3 seen June to August 2026 by the
same user. v5e: zones that the documentation names for flex-start in 2025-09. For the
emulator, a zone that is not here has no TPU API.
"""

from __future__ import annotations

from dataclasses import dataclass

_V6E = frozenset({"v6e"})
_V6E_V5E = frozenset({"v6e", "v5litepod"})


@dataclass(frozen=True, slots=True)
class Zone:
    """What one zone has.

    Attributes:
        families: accelerator families with hardware there.
        flex: families for which FLEX_START is accepted there.
    """

    families: frozenset[str]
    flex: frozenset[str]


def _zone(families: frozenset[str], flex: frozenset[str] | None = None) -> Zone:
    return Zone(families, families if flex is None else flex)


_NO_FLEX: frozenset[str] = frozenset()

ZONES: dict[str, Zone] = {
    "asia-east1-c": _zone(_V6E, _NO_FLEX),
    "asia-northeast1-b": _zone(_V6E),
    "asia-south1-b": _zone(_V6E, _NO_FLEX),
    "asia-south1-c": _zone(_V6E, _NO_FLEX),
    "asia-southeast1-b": _zone(_V6E, _NO_FLEX),
    "europe-west4-a": _zone(_V6E_V5E, _V6E),
    "europe-west4-b": _zone(frozenset({"v5litepod"}), _NO_FLEX),
    "southamerica-east1-c": _zone(_V6E, _NO_FLEX),
    "southamerica-west1-a": _zone(_V6E),
    "us-central1-a": _zone(_V6E_V5E),
    "us-central1-b": _zone(_V6E, _NO_FLEX),
    "us-central1-c": _zone(_V6E),
    "us-east1-d": _zone(_V6E),
    "us-east5-a": _zone(_V6E | {"v5p"}),
    "us-east5-b": _zone(_V6E),
    "us-east5-c": _zone(_V6E),
    "us-south1-a": _zone(_V6E, _NO_FLEX),
    "us-south1-c": _zone(_V6E),
    "us-west1-c": _zone(_V6E),
    "us-west4-a": _zone(frozenset({"v5litepod"})),
}


@dataclass(frozen=True, slots=True)
class Accelerator:
    """An accelerator type.

    Attributes:
        name: such as ``v6e-8``.
        family: such as ``v6e``.
        config_type: the ``type`` of its AcceleratorConfig.
        topology: chips as a grid.
        chips: number of chips.
        workers: number of VMs.
        machine_type: machine type of each VM.
    """

    name: str
    family: str
    config_type: str
    topology: str
    chips: int
    workers: int
    machine_type: str


def _v6e(chips: int, topology: str, workers: int, per_worker: int) -> Accelerator:
    machine = f"ct6e-standard-{per_worker}t"
    return Accelerator(f"v6e-{chips}", "v6e", "V6E", topology, chips, workers, machine)


def _v5e(chips: int, topology: str, workers: int, per_worker: int) -> Accelerator:
    machine = f"ct5lp-hightpu-{per_worker}t"
    name = f"v5litepod-{chips}"
    return Accelerator(name, "v5litepod", "V5LITE_POD", topology, chips, workers, machine)


#: https://docs.cloud.google.com/tpu/docs/v6e, .../v5e and .../v5p (v5p counts cores).
ACCELERATORS: dict[str, Accelerator] = {
    accelerator.name: accelerator
    for accelerator in (
        _v6e(1, "1x1", 1, 1),
        _v6e(4, "2x2", 1, 4),
        _v6e(8, "2x4", 1, 8),
        _v6e(16, "4x4", 4, 4),
        _v6e(32, "4x8", 8, 4),
        _v6e(64, "8x8", 16, 4),
        _v6e(128, "8x16", 32, 4),
        _v6e(256, "16x16", 64, 4),
        _v5e(1, "1x1", 1, 1),
        _v5e(4, "2x2", 1, 4),
        _v5e(8, "2x4", 1, 8),
        _v5e(16, "4x4", 4, 4),
        Accelerator("v5p-8", "v5p", "V5P", "2x2x1", 4, 1, "ct5p-hightpu-4t"),
    )
}

#: https://docs.cloud.google.com/tpu/docs/runtimes (runtime versions by family).
RUNTIME_VERSIONS = (
    "tpu-ubuntu2204-base",
    "v2-alpha-tpuv5",
    "v2-alpha-tpuv5-lite",
    "v2-alpha-tpuv6e",
)


def accelerators_in(zone: str) -> tuple[Accelerator, ...]:
    """The accelerator types that ``zone`` has hardware for, by name."""
    families = ZONES[zone].families
    accelerators = (entry for entry in ACCELERATORS.values() if entry.family in families)
    return tuple(sorted(accelerators, key=lambda entry: entry.name))


def by_config(config_type: str, topology: str) -> Accelerator | None:
    """The accelerator type of an AcceleratorConfig, or ``None``."""
    for accelerator in ACCELERATORS.values():
        if (accelerator.config_type, accelerator.topology) == (config_type, topology):
            return accelerator
    return None
