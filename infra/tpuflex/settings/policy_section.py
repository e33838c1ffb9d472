"""What a stack file says about policy: accepted breaches, and what runs may cost."""

from __future__ import annotations

import datetime as dt
import difflib
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, Field

from tpuflex.policy.rows import RULE_IDS
from tpuflex.settings.base import Frozen, refusal


def check_rule(name: str) -> str:
    """``name`` if it is the id of a rule."""
    if name in RULE_IDS:
        return name
    close = difflib.get_close_matches(name, RULE_IDS, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]}?" if close else "`tpuflex policy` lists the rules."
    raise refusal(f"there is no rule {name}", hint)


def check_reason(text: str) -> str:
    """``text`` if it says something."""
    if not text.strip() or not text.isprintable():
        raise refusal(
            "it says nothing", "Write in one line why the breach is accepted, and by whom."
        )
    return text


class Waiver(Frozen):
    """One accepted breach of a rule: who reads the stack file sees why, and until when."""

    rule: Annotated[str, AfterValidator(check_rule)]
    """Id of the rule; `tpuflex policy` lists them."""

    resource: str | None = Field(default=None, min_length=1, max_length=200)
    """Logical name of the resource that may break it, `*` allowed; without it, every resource and
    the stack may."""

    reason: Annotated[str, Field(max_length=400), AfterValidator(check_reason)]
    """Why it is accepted, in one line."""

    until: dt.date
    """Its last day, as text such as "2026-12-31", by UTC, at most a year ahead; from the next on
    it is an error."""


Usd = Annotated[Decimal, Field(gt=0, lt=10_000_000, decimal_places=2)]


class Budget(Frozen):
    """What runs may cost at most, in US dollars: chips only, to the end of their run."""

    per_run_usd: Usd | None = None
    """For one run of this stack: chips, times their price, times max_run_duration."""

    per_project_usd: Usd | None = None
    """For this run and all other runs in the Google Cloud project together, each to its end.
    `tpuflex preview` and `up` read the others; what cannot be read is said."""
