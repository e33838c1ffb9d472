"""Whether a zone has what the stack asks for, and the project the quota for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpuflex.catalog.rows import Accelerator
from tpuflex.errors import QuotaError, SettingsError
from tpuflex.gcloud_commands import show_accelerators
from tpuflex.gcp.offers import Offer
from tpuflex.gcp.tpu_quota import Pool, QuotaLimit, TpuQuota
from tpuflex.operate.doctor.check import Check, Group, Subject
from tpuflex.operate.doctor.reading import Unread

#: Which quota Flex-start draws from is reported both ways: the preemptible one
#: (https://cloud.google.com/tpu/docs/request-using-flex-start), and the on-demand one by a
#: practitioner. So both are looked at, and what one of them allows is not refused.
POOLS: tuple[Pool, ...] = ("preemptible", "on-demand")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stack asks for.

    Attributes:
        project: Google Cloud project id.
        accelerator: accelerator type.
        generation: its generation.
        chips: how many it has.
        runtime: runtime version.
        zones: the zones that are asked.
        hands_over: whether a replacement is made, and serves, before the old slice is deleted.
    """

    project: str
    accelerator: str
    generation: str
    chips: int
    runtime: str
    zones: tuple[str, ...]
    hands_over: bool = True

    @property
    def units(self) -> int:
        """What it takes of a quota."""
        return units_of(self.generation, self.chips)


def units_of(generation: str, chips: int) -> int:
    """What so many chips take of a quota: chips, of v5p cores, of which a chip has two
    (https://cloud.google.com/tpu/docs/quota)."""
    return chips * (2 if generation == "v5p" else 1)


def offer_checks(wanted: Wanted, offers: Mapping[str, Offer | Unread]) -> tuple[Check, ...]:
    """Whether each zone has accelerator type and runtime version. One zone is enough.

    Args:
        wanted: what the stack asks for.
        offers: what each zone has.
    """
    possible = any(_complete(offers[zone]) is not False for zone in wanted.zones)
    return tuple(_offer_check(wanted, zone, offers[zone], possible) for zone in wanted.zones)


def quota_checks(wanted: Wanted, quota: TpuQuota | Unread) -> tuple[Check, ...]:
    """Whether the quota of each zone is enough, in one pool at least. One zone is enough.

    Args:
        wanted: what the stack asks for.
        quota: the project's.
    """
    if isinstance(quota, Unread):
        return tuple(_quota_subject(zone).unknown(quota) for zone in wanted.zones)
    limits = {zone: _limits(wanted, quota, zone) for zone in wanted.zones}
    possible = any(_enough(limits[zone], wanted.units) is not False for zone in wanted.zones)
    return tuple(_quota_check(wanted, zone, limits[zone], possible) for zone in wanted.zones)


def short_beside(wanted: Wanted, quota: TpuQuota, accelerator: Accelerator, zone: str) -> str:
    """What is wrong with the quota of the project if ``wanted`` is asked for while a slice of
    ``accelerator`` goes on in ``zone``; empty if a zone has quota for it, or may have.

    Args:
        wanted: what the stack asks for.
        quota: the project's.
        accelerator: what serves until then.
        zone: where.
    """
    found = []
    for each in wanted.zones:
        limits = _limits(wanted, quota, each)
        shares = each == zone and accelerator.generation == wanted.generation
        used = units_of(accelerator.generation, accelerator.chips) if shares else 0
        if _enough(limits, wanted.units + used) is not False:
            return ""
        beside = f" beside the {used} of what serves" if used else ""
        found.append(f"{each}: {wanted.units} wanted{beside}; {_amounts(limits)}")
    return "; ".join(found)


def _complete(offer: Offer | Unread) -> bool | None:
    return None if isinstance(offer, Unread) else offer.accelerator and offer.runtime


def _offer_check(wanted: Wanted, zone: str, offer: Offer | Unread, possible: bool) -> Check:
    subject = Subject(Group.CAPACITY, f"{wanted.accelerator} in {zone}")
    if isinstance(offer, Unread):
        return subject.unknown(offer)
    if not offer.accelerator:
        remedy = (
            f"{show_accelerators(wanted.project, zone)}\n"
            "and write another zone to tpuflex:slice.zones (`tpuflex catalog zones`)"
        )
        text = "not offered there"
    elif not offer.runtime:
        remedy = "Write one that the zone has to tpuflex:slice.runtime_version."
        text = f"the runtime version {wanted.runtime} is not offered there"
    else:
        return subject.ok(f"offered, with runtime version {wanted.runtime}")
    return (
        subject.warning(text, remedy) if possible else subject.failed(SettingsError, text, remedy)
    )


def _quota_subject(zone: str) -> Subject:
    return Subject(Group.CAPACITY, f"quota in {zone}")


Limits = Mapping[Pool, QuotaLimit | None]


def _limits(wanted: Wanted, quota: TpuQuota, zone: str) -> Limits:
    return {pool: quota.limit(wanted.generation, wanted.chips, zone, pool) for pool in POOLS}


def _enough(limits: Limits, units: int) -> bool | None:
    """Whether one pool is enough for so many ``units``; None if no pool is known."""
    known = [limit for limit in limits.values() if limit is not None]
    if not known:
        return None
    return any(limit.limit is None or limit.limit >= units for limit in known)


def _quota_check(wanted: Wanted, zone: str, limits: Limits, possible: bool) -> Check:
    subject = _quota_subject(zone)
    page = (
        "https://console.cloud.google.com/iam-admin/quotas"
        f"?service=tpu.googleapis.com&project={wanted.project}"
    )
    enough = _enough(limits, wanted.units)
    text = f"{wanted.units} wanted; {_amounts(limits)}"
    if enough is None:
        return subject.unknown(Unread(f"no quota of {wanted.generation} is listed", page))
    if not enough:
        remedy = f"{page}\n(ask for preemptible quota: Flex-start draws from it)"
        return (
            subject.warning(text, remedy) if possible else subject.failed(QuotaError, text, remedy)
        )
    preemptible = limits["preemptible"]
    if preemptible is not None and _enough({"preemptible": preemptible}, wanted.units) is False:
        return subject.warning(
            f"{text}: by Google's page, Flex-start draws from the preemptible one",
            f"{page}\n(ask for preemptible quota if the request is refused)",
        )
    if wanted.hands_over and _enough(limits, 2 * wanted.units) is False:
        return subject.warning(
            f"{text}: enough for one slice, but a change or a renewal needs two until the new one"
            " serves",
            f"{page}\n(ask for twice as much, or write delete_first to tpuflex:slice.replace: then"
            " nothing serves meanwhile)",
        )
    return subject.ok(text)


def _amounts(limits: Limits) -> str:
    return ", ".join(f"{pool} {_amount(limits[pool])}" for pool in POOLS)


def _amount(limit: QuotaLimit | None) -> str:
    if limit is None:
        return "not listed"
    return "without limit" if limit.limit is None else str(limit.limit)
