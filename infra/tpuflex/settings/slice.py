"""The TPU slice of a stack file: its keys, their limits, and the rules across them.

A key of ``tpuflex:slice`` is a field here, and a row of the queued resource
(:mod:`tpuflex.queued_resource.fields`) of the same name, or of the one that
:data:`REQUEST_INPUTS` gives it. Nothing in between names it (contributing/FIELD.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema

from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.catalog.zones import is_misspelt, region_of
from tpuflex.duration import Duration, format_duration
from tpuflex.errors import Finding
from tpuflex.queued_resource import limits
from tpuflex.queued_resource.limits import LONGEST_DRAIN, LONGEST_RUN, SHORTEST_RUN, ZONE_PATTERN
from tpuflex.settings.base import Frozen, Remedy, bounded, refusal

#: Names that the Cloud TPU API may know, such as v6e-4 and tpu7x-8.
_ACCELERATOR_PATTERN = "[a-z0-9]+(-[a-z0-9]+)+"
#: How much earlier than its `drain_margin` says a host may drain: it counts its run from so long
#: before its first boot (``BOOT_ALLOWANCE`` of ``startup/88-watch.sh``).
BOOT_ALLOWANCE = timedelta(minutes=3)


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


Timeout = Annotated[Duration, bounded(least=(timedelta(minutes=1), "wait for anything"))]
Zone = Annotated[
    str,
    AfterValidator(check_zone),
    WithJsonSchema({"type": "string", "pattern": f"^{ZONE_PATTERN}$", "examples": ["us-east5-a"]}),
]


class Timeouts(Frozen):
    """How long each part of bringing a slice up or down may take."""

    queue: Timeout = timedelta(hours=24)
    """In the queue, until capacity is granted. After that the request stays in the queue and in
    the state; another `up` goes on waiting."""

    provisioning: Timeout = timedelta(hours=3)
    """From the grant until the hosts are running."""

    delete: Timeout = timedelta(hours=3)
    """From the delete call until queued resource and node are gone. A slice in PROVISIONING
    cannot be deleted, and may stay in that state for two hours."""

    first_report: Timeout = timedelta(minutes=10)
    """From ACTIVE until the host says for the first time where its boot stands; also how long its
    reports may be refused later. A host that cannot report looks like one that is broken."""

    ready: Timeout = timedelta(hours=1)
    """From ACTIVE until the host has served a completion."""


class SliceSettings(Frozen):
    """The TPU slice and how long it may run."""

    zones: Annotated[tuple[Zone, ...], Remedy("Write a zone such as us-east5-a.")] = Field(
        min_length=1
    )
    """Zones in which to request capacity, such as us-east5-a. One of them gets the slice. They are
    in one region, where the weights are; or in several, with the weights in the library and the
    ranges of further subnetworks in network.subnetwork_cidrs."""

    strategy: Literal["race", "ordered"] = "race"
    """How to use several zones: `race` requests capacity in all at once, the first to grant it
    wins and the other requests are deleted; `ordered` tries one zone after the other, each for
    its share of timeouts.queue."""

    accelerator_type: Annotated[str, AfterValidator(check_accelerator)]
    """Accelerator type such as v6e-4 (four v6e chips)."""

    max_run_duration: Annotated[
        Duration,
        bounded(
            least=(SHORTEST_RUN, "boot and load weights"), most=(LONGEST_RUN, "Flex-start allows")
        ),
    ]
    """Google deletes the slice after this time, whatever it is doing: at least 10m, at most 7d."""

    runtime_version: str | None = None
    """TPU software version; by default the catalog's value for the accelerator."""

    give_up_after: Timeout | None = None
    """Google gives the request up after this time in the queue: it fails, and nothing is granted,
    and billed, when nobody is there any more. Without it the request waits until it is granted or
    `down` withdraws it, whether or not an `up` is running. A change while it waits asks anew."""

    renew_before: Timeout | None = None
    """Plan a new run once less than this is left of the current one, or it has ended; the old
    slice serves until the new one does. Without it, a run that ended stays ended."""

    drain: Annotated[Duration, bounded(most=(LONGEST_DRAIN, "a drain may last"))] = timedelta(
        minutes=10
    )
    """How long requests in flight are waited for before a slice that serves is deleted, from 0s to
    1h, and never longer than half of timeouts.delete. It admits no new ones meanwhile. `down` takes
    it from the last `up`, not from the file. A change does what `on_boot_change` says: by default
    `up` makes another slice."""

    drain_margin: Annotated[Duration, bounded(least=(timedelta(seconds=30), "end requests"))] = (
        timedelta(minutes=5)
    )
    """How long before the end of its run, when Google deletes it, a slice stops admitting requests,
    at least 30s; and up to 3 minutes earlier, as the host counts its run from before its boot. A
    change does what `on_boot_change` says: by default `up` makes another slice."""

    rerun: Annotated[str | None, Remedy("Write any word, or remove the key.")] = Field(
        default=None, min_length=1, max_length=128
    )
    """Any text; changing it starts a new run."""

    on_run_end: Literal["keep", "delete", "accept"] = "keep"
    """What the next `up` does when the run has ended: `keep` its request, which still uses quota,
    or `delete` it, and fail, because there is no slice; or `accept` the end: keep the request,
    warn, and succeed without a slice. None of them asks for another run. Without effect where
    `renew_before` is set."""

    on_boot_change: Literal["replace", "update"] = "replace"
    """What a changed startup script or boot configuration does: `replace` creates a new slice that
    runs it; `update` changes it in place, with effect when the hosts boot the next time (a changed
    `secure_boot`: with the next slice)."""

    on_boot_failure: Literal["keep", "delete"] = "keep"
    """What `up` does with a new slice whose boot has failed, or that reports nothing within
    timeouts.first_report: `keep` it, which is billed, for a look at it; `delete` it, and nothing
    else, and say why. One that served before is kept, and so is one that is only slow."""

    replace: Literal["create_first", "delete_first"] = "create_first"
    """How a slice is replaced, by a change or a renewal: `create_first` has the next one serve
    before this one is deleted, which takes quota for both; `delete_first` drains and deletes this
    one first, and nothing serves until the next one is granted and has booted."""

    secure_boot: bool = False
    """Whether the hosts verify what they boot (Secure Boot). Off by default: it has not been seen
    to work with the TPU images yet. A change does what `on_boot_change` says."""

    deletion_protection: bool = False
    """Refuse to delete or replace the slice while it is ACTIVE. To delete it, set this to false
    and run `up` first."""

    timeouts: Timeouts = Timeouts()

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions of the zones, in their order."""
        return tuple(dict.fromkeys(map(region_of, self.zones)))


#: Keys that the queued resource has another name for.
_OTHERWISE = {"drain": "drain_timeout", "give_up_after": "valid_until_duration"}
#: Keys that are none of its inputs, that more goes into, or that hold further keys.
_APART = frozenset({"drain_margin", "runtime_version", "timeouts"})
#: The input of the queued resource that each key is, by the key; and of `timeouts`, the input that
#: each of its keys is.
REQUEST_INPUTS: Mapping[str, str] = {
    key: _OTHERWISE.get(key, key) for key in SliceSettings.model_fields if key not in _APART
}
TIMEOUT_INPUTS: Mapping[str, str] = {key: f"{key}_timeout" for key in Timeouts.model_fields}


def slice_findings(slice_: SliceSettings, catalog: Catalog) -> Iterator[Finding]:
    """What of a slice's keys cannot be honoured together."""
    yield from _zones(slice_)
    yield from _renewal(slice_)
    yield from _drain(slice_)
    yield from _protection(slice_)
    yield from _runtime(catalog, slice_)


def slice_warnings(slice_: SliceSettings) -> Iterator[Finding]:
    """What of a slice's keys has no effect, or hardly any, beside others."""
    renew = slice_.renew_before
    if renew is None:
        return
    if renew <= slice_.drain_margin + BOOT_ALLOWANCE:
        yield Finding(
            "tpuflex:slice.renew_before",
            f"{format_duration(renew)} is not longer than tpuflex:slice.drain_margin"
            f" ({format_duration(slice_.drain_margin)}) and the {format_duration(BOOT_ALLOWANCE)}"
            " by which a host may drain earlier, so the endpoint is closed before its next run is"
            " due",
            "Write more, or a shorter drain_margin.",
        )
    if slice_.on_run_end != "keep":
        yield Finding(
            "tpuflex:slice.on_run_end",
            f"{slice_.on_run_end} has no effect where tpuflex:slice.renew_before is set: an `up`"
            " after the end of a run starts the next one",
            "Remove it, or remove renew_before.",
        )


def _zones(slice_: SliceSettings) -> Iterator[Finding]:
    key = "tpuflex:slice.zones"
    if twice := limits.named_twice(slice_.zones):
        yield Finding(key, f"{', '.join(twice)} is named twice", "Name each zone once.")


def _renewal(slice_: SliceSettings) -> Iterator[Finding]:
    renew, run = slice_.renew_before, slice_.max_run_duration
    if renew is not None and limits.renews_at_once(renew, run):
        yield Finding(
            "tpuflex:slice.renew_before",
            f"{format_duration(renew)} is not shorter than tpuflex:slice.max_run_duration "
            f"({format_duration(run)}), so every run would be renewed as soon as it begins",
            "Write less, or a longer max_run_duration.",
        )


def _drain(slice_: SliceSettings) -> Iterator[Finding]:
    run = format_duration(slice_.max_run_duration)
    if slice_.drain > slice_.max_run_duration:
        yield Finding(
            "tpuflex:slice.drain",
            f"{format_duration(slice_.drain)} is longer than tpuflex:slice.max_run_duration "
            f"({run})",
            "Write less, or a longer max_run_duration.",
        )
    if slice_.drain_margin >= slice_.max_run_duration:
        yield Finding(
            "tpuflex:slice.drain_margin",
            f"{format_duration(slice_.drain_margin)} is not shorter than "
            f"tpuflex:slice.max_run_duration ({run}), so nothing would ever be admitted",
            "Write less, or a longer max_run_duration.",
        )
    elif slice_.drain_margin + BOOT_ALLOWANCE >= slice_.max_run_duration:
        yield Finding(
            "tpuflex:slice.drain_margin",
            f"{format_duration(slice_.drain_margin)} and the {format_duration(BOOT_ALLOWANCE)} by"
            " which a host may drain earlier are not shorter than tpuflex:slice.max_run_duration"
            f" ({run}), so nothing would ever be admitted",
            "Write less, or a longer max_run_duration.",
        )


def _protection(slice_: SliceSettings) -> Iterator[Finding]:
    if slice_.deletion_protection and slice_.replace == "delete_first":
        yield Finding(
            "tpuflex:slice.replace",
            "delete_first deletes what serves, which tpuflex:slice.deletion_protection forbids",
            "Write create_first, or deletion_protection: false.",
        )
    if slice_.deletion_protection and slice_.on_boot_failure == "delete":
        yield Finding(
            "tpuflex:slice.on_boot_failure",
            "it cannot be delete while tpuflex:slice.deletion_protection is true, which refuses"
            " to delete what is ACTIVE",
            "Write keep, or no deletion_protection.",
        )


def _runtime(catalog: Catalog, slice_: SliceSettings) -> Iterator[Finding]:
    row = catalog.accelerator(slice_.accelerator_type)
    if row is not None and row.runtime_version is None and slice_.runtime_version is None:
        yield Finding(
            "tpuflex:slice.runtime_version",
            f"is missing, and the catalog's row of {row.name} gives none",
            "Write the TPU software version, such as v2-alpha-tpuv6e, here or in the row.",
        )
    if row is None or row.runtime_version is None or slice_.runtime_version is None:
        return
    chosen, right = (_chips(name) for name in (slice_.runtime_version, row.runtime_version))
    if chosen and right and chosen != right:
        yield Finding(
            "tpuflex:slice.runtime_version",
            f"{slice_.runtime_version} is not for the chips of {row.name}",
            f"Write {row.runtime_version}, or remove it.",
        )


def _chips(runtime_version: str) -> str | None:
    """The chips in the name ``runtime_version``, such as 5lite in v2-alpha-tpuv5-lite, if any."""
    found = re.search(r"tpu-?(?:vm-)?v?(\d+[a-z]*(?:-lite(?:pod)?)?)(?![0-9a-z])", runtime_version)
    return found[1].replace("-", "").removesuffix("pod") if found else None
