"""What a teardown will not delete, because somebody said so. Pure, over the stack's state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.request.states import Lifecycle


class Keeper(StrEnum):
    """Who keeps a resource."""

    DELETION_PROTECTION = "deletion_protection"
    PROTECT = "protect"
    RETAIN_ON_DELETE = "retain_on_delete"


@dataclass(frozen=True, slots=True)
class Kept:
    """One resource that is kept.

    Attributes:
        keeper: what keeps it.
        urn: its URN.
        id: its id in the cloud.
    """

    keeper: Keeper
    urn: str
    id: str

    @property
    def remedy(self) -> str:
        """How it is let go."""
        if self.keeper is Keeper.PROTECT:
            return f"pulumi state unprotect '{self.urn}'"
        if self.keeper is Keeper.RETAIN_ON_DELETE:
            return "delete it by hand: Pulumi forgets it with its stack"
        return "set tpuflex:slice.deletion_protection to false and run `tpuflex up`"

    def __str__(self) -> str:
        return f"{self.id or self.urn} ({self.keeper}: {self.remedy})"


def kept(resources: Iterable[Mapping[str, object]]) -> tuple[Kept, ...]:
    """Everything among ``resources`` (as the engine stores them) that will not be deleted."""
    found = []
    for resource in resources:
        if not resource.get("custom") or str(resource.get("type")).startswith("pulumi:"):
            continue
        keeper = _keeper(resource)
        if keeper is not None:
            found.append(Kept(keeper, str(resource.get("urn")), str(resource.get("id") or "")))
    return tuple(found)


def _keeper(resource: Mapping[str, object]) -> Keeper | None:
    if _is_serving(resource) and _entry(resource, "inputs", "deletionProtection") is True:
        return Keeper.DELETION_PROTECTION
    if resource.get("protect"):
        return Keeper.PROTECT
    return Keeper.RETAIN_ON_DELETE if resource.get("retainOnDelete") else None


def _is_serving(resource: Mapping[str, object]) -> bool:
    active = _entry(resource, "outputs", "lifecycle") == Lifecycle.ACTIVE.value
    return resource.get("type") == QUEUED_RESOURCE and active


def _entry(resource: Mapping[str, object], part: str, key: str) -> object:
    values = resource.get(part)
    return values.get(key) if isinstance(values, Mapping) else None
