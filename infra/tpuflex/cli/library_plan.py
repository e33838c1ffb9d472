"""What a library is about to be made of, as a person reads it before it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.library import LibraryPlan
from tpuflex.deploy.policy import planned_resources
from tpuflex.inventory.kinds import BUCKET

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.library import LibraryReport
    from tpuflex.stack.progress import Progress

_STAYS = Advice("until `{library_down}`; what is in it is billed until then")


def library_report(invocation: Invocation) -> LibraryReport:
    """Shows the plan, and how far it is."""

    def report(progress: Progress | LibraryPlan) -> None:
        if isinstance(progress, LibraryPlan):
            _show(invocation, progress)
        else:
            invocation.report(progress)

    return report


def _show(invocation: Invocation, library: LibraryPlan) -> None:
    output = invocation.output
    if not library.plan.changes:
        output.result(f"The library of {library.project} is as it should be; nothing changes.")
        return
    output.heading(f"The library of {library.project}")
    buckets = [each for each in planned_resources(library.plan) if each.type == BUCKET.type]
    output.table(
        ("REGION", "BUCKET"),
        [(str(each.inputs.get("location")).lower(), each.text("name")) for each in buckets],
    )
    output.facts(
        (
            ("new in", ", ".join(library.new)),
            (
                "programs",
                "compiled ones are kept for 90 days, signed with a secret of the library's",
            ),
            ("access", "private, uniform; what is replaced or deleted can be had back for 7 days"),
            ("stays", _STAYS.for_stack(invocation.stack, invocation.environ)),
        )
    )
    output.result()
