"""The end of a copy: the machine is deleted first, whatever else is refused; then what it was
granted is revoked, and what was made with it is deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tpuflex.errors import AccessError, ApiError
from tpuflex.gcp.kinds import INSTANCE
from tpuflex.operate.region_copy.grants import IamResource, revoke
from tpuflex.operate.sweep import Disposition, Leftover
from tpuflex.operate.sweep_deletion import delete

if TYPE_CHECKING:
    from tpuflex.gcp.cloud_resource import CloudResource
    from tpuflex.gcp.listing import Apis
    from tpuflex.gcp.ownership import Maker
    from tpuflex.gcp.timing import Timing

Say = Callable[[str], None]


def remove_all(
    resources: Iterable[CloudResource],
    granted_on: Iterable[IamResource],
    email: str,
    maker: Maker,
    apis: Apis,
    timing: Timing,
    say: Say,
) -> tuple[str, ...]:
    """Remove all of it; what could not be removed, a line each.

    Args:
        resources: what was made.
        granted_on: where the account may have roles.
        email: the account's.
        maker: by which marks the resources are ours.
        apis: clients.
        timing: clock and pauses.
        say: takes a line of progress.
    """
    listed = [
        Leftover(each, maker, Disposition.ORPHAN, "made for a copy of weights")
        for each in resources
    ]

    def pause(seconds: float) -> None:
        timing.pause(seconds)

    def deleted(some: Iterable[Leftover]) -> list[str]:
        done = delete(some, apis, say=say, now=timing.monotonic, sleep=pause)
        return [f"{one.leftover.resource.title}: {one.problem}" for one in done if one.problem]

    problems = deleted(each for each in listed if each.resource.kind == INSTANCE)
    for resource in granted_on:
        try:
            revoke(resource, email, apis, timing.pause)
        except (AccessError, ApiError) as error:
            problems.append(f"roles of {email} on {resource}: {error.message}")
    problems += deleted(each for each in listed if each.resource.kind != INSTANCE)
    return tuple(problems)
