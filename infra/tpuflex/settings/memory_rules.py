"""Rules about the memory of the chips: what cannot fit, and what fits with reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from tpuflex.errors import Finding
from tpuflex.planning.remark import Remark
from tpuflex.planning.request import NotPlannable
from tpuflex.planning.stack import plan_stack
from tpuflex.settings.model import NAMESPACE, Draft, StackSettings


def memory_findings(draft: Draft) -> Iterator[Finding]:
    """What would not start, or never serve a sequence of full length, each with the nearest that
    fits. Nothing is said where no plan can be made, nor while a section is missing or wrong."""
    sections = {field.name: getattr(draft, field.name) for field in fields(draft)}
    if all(section is not None for section in sections.values()):
        planned = plan_stack(StackSettings.model_construct(**sections))
        if not isinstance(planned, NotPlannable):
            yield from _findings(planned.problems)


def memory_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What fits, but is unproven, will preempt, or leaves little for programs; and that nobody
    knows, where no plan can be made."""
    planned = plan_stack(settings)
    if isinstance(planned, NotPlannable):
        yield Finding(
            f"{NAMESPACE}model.name",
            f"how much memory it takes is not known, nor whether it fits: {planned.reason}",
            "Plan it before you pay: `tpuflex memory --model-dir DIR` reads its files.",
        )
    else:
        yield from _findings(planned.concerns)


def _findings(remarks: Iterable[Remark]) -> Iterator[Finding]:
    for remark in remarks:
        yield Finding(f"{NAMESPACE}{remark.setting}", remark.what, remark.nearest)
