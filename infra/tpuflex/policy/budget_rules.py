"""Budget caps: of a run, and of all runs of the project. Chips only, as every price of tpuflex."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.policy.finding import Breach
from tpuflex.policy.stack import StackFacts

_CHEAPER = "Ask for fewer chips or a shorter max_run_duration, or raise {}."
_PRICE = (
    "Write the price into catalog.yaml, with its source, or remove {}: a cap that cannot be"
    " compared is no cap."
)
_RUN, _PROJECT = "tpuflex:budget.per_run_usd", "tpuflex:budget.per_project_usd"


def run_over_budget(facts: StackFacts) -> Iterator[Breach]:
    """A run that costs more than its cap."""
    cap = facts.per_run_usd
    if cap is None:
        return
    if facts.run_usd is None:
        yield Breach(f"no price is known for the run, and {_RUN} is ${cap}", _PRICE.format(_RUN))
    elif facts.run_usd > cap:
        yield Breach(
            f"a run costs up to ${facts.run_usd}, and {_RUN} is ${cap}", _CHEAPER.format(_RUN)
        )


def project_over_budget(facts: StackFacts) -> Iterator[Breach]:
    """Runs that together cost more than the project's cap."""
    cap = facts.per_project_usd
    if cap is None:
        return
    if facts.run_usd is None:
        yield Breach(
            f"no price is known for the run, and {_PROJECT} is ${cap}", _PRICE.format(_PROJECT)
        )
        return
    others = facts.other_runs
    known = facts.run_usd + (others.usd if others is not None else 0)
    if known > cap:
        count = others.count if others is not None else 0
        beside = (
            f" with the {count} other{'s' if count != 1 else ''} of the project" if count else ""
        )
        yield Breach(
            f"the run{beside} costs up to ${known}, and {_PROJECT} is ${cap}",
            f"Take another slice down first (`tpuflex status`). {_CHEAPER.format(_PROJECT)}",
        )
        return
    missing = others.unknown if others is not None else ("nothing here asked for the other runs",)
    for what in missing:
        yield Breach(
            f"what the project's other runs cost is not all known: {what}",
            f"Look at them before you rely on {_PROJECT}.",
            advisory=True,
        )
