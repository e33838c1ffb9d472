"""Rules across fields. Pure: settings in, findings out.

``check`` returns what makes a deployment impossible or unsafe; ``warnings`` returns what is
likely wrong, but for the user to decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from tpuflex.catalog.catalog import Catalog
from tpuflex.duration import format_duration
from tpuflex.errors import Finding
from tpuflex.gcloud_commands import show_project
from tpuflex.request import limits
from tpuflex.settings.encryption_rules import encryption_findings, encryption_warnings
from tpuflex.settings.identity_rules import identity_findings, identity_warnings
from tpuflex.settings.label_rules import label_findings
from tpuflex.settings.memory_rules import memory_findings, memory_warnings
from tpuflex.settings.model import (
    PLACEHOLDER_PROJECT,
    Draft,
    ModelSettings,
    SliceSettings,
    StackSettings,
)
from tpuflex.settings.network_rules import network_findings, network_warnings
from tpuflex.settings.region_rules import region_findings
from tpuflex.settings.secret_rules import secret_findings, secret_warnings
from tpuflex.settings.serving_rules import serving_findings, serving_warnings

#: How much earlier than its `drain_margin` says a host may drain: it counts its run from so long
#: before its first boot (``BOOT_ALLOWANCE`` of ``startup/88-watch.sh``).
BOOT_ALLOWANCE = timedelta(minutes=3)


def check(settings: StackSettings) -> tuple[Finding, ...]:
    """Everything that forbids deploying ``settings``."""
    return check_draft(Draft.of(settings))


def check_draft(draft: Draft) -> tuple[Finding, ...]:
    """Everything that forbids deploying, in the sections of ``draft`` that could be read."""
    return tuple(_all_findings(draft))


def warnings(settings: StackSettings) -> tuple[Finding, ...]:
    """What may be wrong with ``settings`` but does not forbid deploying."""
    return tuple(_all_warnings(settings))


def _all_findings(draft: Draft) -> Iterator[Finding]:
    if draft.cloud == "google" and draft.project == PLACEHOLDER_PROJECT:
        yield Finding(
            "tpuflex:project",
            f"{PLACEHOLDER_PROJECT} is a placeholder",
            f"Write your Google Cloud project id (`{show_project()}` shows it).",
        )
    if draft.slice is not None:
        yield from _zones(draft.slice)
        yield from _renewal(draft.slice)
        yield from _drain(draft.slice)
        yield from _protection(draft.slice)
        yield from _runtime(draft.catalog, draft.slice)
    if draft.model is not None:
        yield from _bucket(draft.model)
    yield from region_findings(draft)
    yield from network_findings(draft)
    yield from identity_findings(draft)
    if draft.secrets is not None:
        yield from secret_findings(draft.secrets)
    yield from encryption_findings(draft)
    yield from label_findings(draft)
    serving = tuple(serving_findings(draft))
    yield from serving
    # What is wrong by itself cannot be planned: one finding about it is enough.
    wrong = {finding.key for finding in serving}
    yield from (finding for finding in memory_findings(draft) if finding.key not in wrong)


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


def _slice_warnings(slice_: SliceSettings) -> Iterator[Finding]:
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


def _bucket(model: ModelSettings) -> Iterator[Finding]:
    if not model.weights.manage_grants and model.weights.brought is None:
        yield Finding(
            "tpuflex:model.weights.manage_grants",
            f"it would have no effect: the bucket is {model.weights.bucket}, none of yours",
            "Remove it, or write gs://BUCKET/PREFIX to tpuflex:model.weights.bucket.",
        )


def _bucket_warnings(settings: StackSettings) -> Iterator[Finding]:
    weights = settings.model.weights
    if not weights.manage_grants and settings.identity.brought is None:
        yield Finding(
            "tpuflex:model.weights.manage_grants",
            "the hosts' account is made by `up`, so nobody can have let it read the bucket before",
            "Name an account of yours in tpuflex:identity.service_account, or let the stack grant"
            " it.",
        )


def _runtime(catalog: Catalog, slice_: SliceSettings) -> Iterator[Finding]:
    row = catalog.accelerator(slice_.accelerator_type)
    if row is not None and row.runtime_version is None and slice_.runtime_version is None:
        yield Finding(
            "tpuflex:slice.runtime_version",
            f"is missing, and the catalog's row of {row.name} gives none",
            "Write the TPU software version, such as v2-alpha-tpuv6e, here or in the row.",
        )


def _all_warnings(settings: StackSettings) -> Iterator[Finding]:
    row = settings.catalog.accelerator(settings.slice.accelerator_type)
    for index, zone in enumerate(settings.slice.zones):
        if row is not None:
            key = f"tpuflex:slice.zones[{index}]"
            yield from _zone_warning(settings.catalog, key, zone, row.generation)
    yield from _slice_warnings(settings.slice)
    yield from network_warnings(settings)
    yield from identity_warnings(settings)
    yield from secret_warnings(settings)
    yield from encryption_warnings(settings)
    yield from _bucket_warnings(settings)
    yield from serving_warnings(Draft.of(settings))
    if settings.serving.flags.trust_remote_code:
        yield Finding(
            "tpuflex:serving.flags.trust_remote_code",
            "code that comes with the model will run on the host",
            "Remove it unless the model cannot be loaded without it.",
        )
    yield from memory_warnings(settings)


def _zone_warning(catalog: Catalog, key: str, zone: str, generation: str) -> Iterator[Finding]:
    accepting = ", ".join(catalog.accepting_zones(generation)) or "none"
    row = catalog.zone(zone, generation)
    if row is None:
        nearest = catalog.nearest_zones(zone)
        hint = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
        yield Finding(
            key,
            f"{zone} is not in the table of zones with {generation} chips",
            f"It is tried all the same.{hint} Known to accept Flex-start {generation}: "
            f"{accepting}.",
        )
    elif row.flex_start in ("refused", "hardware"):
        what = (
            f"refused Flex-start {generation} when it was last tried"
            if row.flex_start == "refused"
            else f"has {generation} chips, but Flex-start was not tried there"
        )
        yield Finding(
            key,
            f"{zone} {what} ({row.source.date.isoformat()})",
            f"It is tried all the same. Known to accept it: {accepting}.",
        )
