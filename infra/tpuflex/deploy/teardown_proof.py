"""What a teardown keeps on request, and the proof that it has left nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.errors import IncompleteTeardownError
from tpuflex.inventory.kinds import NODE, SLICE
from tpuflex.inventory.unlisted import reasons, unlisted_remedy
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.queued_resource.outcomes import KEPT
from tpuflex.queued_resource.states import Lifecycle

if TYPE_CHECKING:
    from tpuflex.google.timing import Timing
    from tpuflex.inventory.inventory import Inventory

#: Deletions are visible in listings only after a moment.
_SETTLE_SECONDS = 30.0
#: The same, where something is kept anyway.
_SETTLE_BESIDE_KEPT_SECONDS = 5.0
_POLL_SECONDS = 1.0


class Keeper(StrEnum):
    """What keeps a resource."""

    DELETION_PROTECTION = "deletion_protection"
    PROTECT = "protect"
    RETAIN_ON_DELETE = "retain_on_delete"


@dataclass(frozen=True, slots=True)
class KeptResource:
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
    def remedy(self) -> Advice | str:
        """What to do so that it is deleted."""
        if self.keeper is Keeper.PROTECT:
            return f"pulumi state unprotect '{self.urn}'"
        if self.keeper is Keeper.RETAIN_ON_DELETE:
            return "delete it by hand: Pulumi forgets it with its stack"
        return Advice("set tpuflex:slice.deletion_protection to false and run `{up}`")

    def __str__(self) -> str:
        return f"{self.id or self.urn} ({self.keeper}: {self.remedy})"


def kept_resources(resources: Iterable[Mapping[str, object]]) -> tuple[KeptResource, ...]:
    """Everything among ``resources`` (as the engine stores them) that will not be deleted."""
    found = []
    for resource in resources:
        if not resource.get("custom") or str(resource.get("type")).startswith("pulumi:"):
            continue
        keeper = _keeper(resource)
        if keeper is not None:
            found.append(
                KeptResource(keeper, str(resource.get("urn")), str(resource.get("id") or ""))
            )
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


def prove_empty(
    take: Callable[[], Inventory],
    *,
    timing: Timing,
    project: str,
    kept: tuple[KeptResource, ...] = (),
) -> Inventory:
    """Take the inventory until nothing of ours is in it, and give the last one.

    Args:
        take: asks the cloud.
        timing: clock and pauses.
        project: Google Cloud project id, for the error's hint.
        kept: what was not deleted, on request.

    What is not proved to be ours is not waited for: :func:`refuse_foreign` tells it.

    Raises:
        IncompleteTeardownError: after half a minute something of ours is still there, or part of
            the cloud could not be looked at.
    """
    within = _SETTLE_BESIDE_KEPT_SECONDS if kept else _SETTLE_SECONDS
    deadline = timing.monotonic() + within
    inventory = take()
    while inventory.ours and timing.monotonic() < deadline:
        timing.pause(_POLL_SECONDS)
        inventory = take()
    if not inventory.ours and not inventory.unlisted:
        return inventory
    if kept:
        raise IncompleteTeardownError(
            _what(inventory, f"Kept on request: {KEPT.text}:"),
            hint="\n".join(f"kept by {each}" for each in kept),
        )
    raise IncompleteTeardownError(_what(inventory), hint=_how(inventory, project))


def refuse_unknown(inventory: Inventory, known: Collection[str]) -> None:
    """Check that the slice that is there is in the state, so that it is deleted first, and what it
    uses after it. If the state knows nothing at all, that goes for everything.

    Args:
        inventory: what there is.
        known: ids of everything in the state.

    Raises:
        IncompleteTeardownError: what is ours and not in the state; nothing was deleted.
    """
    held = any("/queuedResources/" in id_ for id_ in known)
    kinds = {SLICE.name} if held else {SLICE.name, NODE.name}
    stray = [
        item for item in inventory.ours if not item.known and (not known or item.kind in kinds)
    ]
    if not stray:
        return
    title = "This is there and ours, but not in the stack's state, so nothing was deleted:"
    hint = (
        Advice(
            "Take it into the state, then `{down}` again: {recover} (with --take-over, if"
            " a state of yours that is lost has made it)"
        )
        if known
        else Advice("Rebuild the state, then `{down}` again: {recover} --take-over")
    )
    raise IncompleteTeardownError(
        "\n".join((title, *(f"  left: {i.kind} {i.name} ({i.location})" for i in stray))),
        hint=Advice(
            "{hint}\nOr delete it without a state: {sweep} --yes{slices}",
            hint=hint,
            slices="".join(f" --slice {i.name}" for i in stray if i.kind == SLICE.name),
        ),
    )


def refuse_foreign(inventory: Inventory) -> None:
    """Check that nothing has our names that is not proved to be ours.

    Raises:
        IncompleteTeardownError: something has; nobody can tell that it is not billed to us.
    """
    if not inventory.foreign:
        return
    head = "Nothing of this state is left, but something has its names and is not proved its own:"
    raise IncompleteTeardownError(
        "\n".join((head, *foreign_lines(inventory))),
        hint=Advice("Whose it is, and how to share or take over its state: {sweep}"),
    )


def foreign_lines(inventory: Inventory) -> list[str]:
    """A line for each thing that is not proved to be ours."""
    return [
        f"  not ours: {item.kind} {item.name} ({item.location}): {item.foreign}"
        for item in inventory.foreign
    ]


def _what(inventory: Inventory, title: str = "") -> str:
    lines = [
        *(f"  left: {item.kind} {item.name} ({item.location})" for item in inventory.ours),
        *foreign_lines(inventory),
        *(f"  not looked at: {line}" for line in reasons(inventory.unlisted)),
    ]
    head = "Something is left:" if inventory.ours else "It is not proved that nothing is left:"
    head = title or head
    return "\n".join((head, *lines))


def _how(inventory: Inventory, project: str) -> Advice:
    remedy = unlisted_remedy(inventory.unlisted, project)
    if remedy:
        return Advice(
            "{remedy}\nthen `{down}` again: it lists everything once more.", remedy=remedy
        )
    if not inventory.ours:
        return Advice("Run `{down}` again; it lists everything once more.")
    return Advice(
        "After a run that was killed: {recover}, then `{down}` again. What no state "
        "knows of in {project}: {sweep}",
        project=project,
    )
