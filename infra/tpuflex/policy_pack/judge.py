"""What the pack knows of the stack, and what it says of a resource: no word of pulumi-policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tpuflex.errors import Finding, SettingsError
from tpuflex.policy.evaluate import Context, evaluate, not_current, of_resource, waived
from tpuflex.policy.planned import UNKNOWN, Planned
from tpuflex.policy.rows import BUCKET_REGION, PROJECT_BUDGET, RULES, RUN_BUDGET, Rule
from tpuflex.policy.stack import StackFacts
from tpuflex.policy.violations import Violation
from tpuflex.settings.model import StackSettings
from tpuflex.settings.policy_section import Waiver

#: Rules that look at more than one resource; all others are asked before each one is made.
WHOLE_PLAN: tuple[Rule, ...] = (BUCKET_REGION, RUN_BUDGET, PROJECT_BUDGET)
SINGLE: tuple[Rule, ...] = tuple(rule for rule in RULES if rule not in WHOLE_PLAN)


@dataclass(frozen=True)
class Judge:
    """The rules for one stack.

    Attributes:
        now: the present moment, with its time zone.
        facts: what its settings say; nothing if it has none, or they cannot be read.
        waivers: those that are not expired.
        problems: waivers that are, and so refuse.
        unread: why the settings cannot be read, or empty.
    """

    now: datetime
    facts: StackFacts = field(default_factory=StackFacts)
    waivers: Sequence[Waiver] = ()
    problems: tuple[Finding, ...] = ()
    unread: str = ""

    @classmethod
    def of(cls, settings: StackSettings, now: datetime) -> Judge:
        """The judge of the stack with these ``settings``."""
        problems = not_current(settings.waivers, now)
        present = [each for each in settings.waivers if not not_current([each], now)]
        return cls(now, StackFacts.of(settings), present, problems)

    @classmethod
    def without(cls, error: SettingsError, now: datetime) -> Judge:
        """The judge of a stack whose settings cannot be read here."""
        return cls(now, unread=f"{error.message}. No waiver and no budget of it counts")

    def of_resource(self, rule: Rule, planned: Planned) -> Iterator[Violation]:
        """What ``rule`` finds about one resource, waived breaches left out."""
        context = Context.of([planned], self.facts, self.now)
        for finding in of_resource(rule, planned, context):
            if not waived(finding, self.waivers).waived:
                yield finding

    def of_plan(self, rule: Rule, planned: Sequence[Planned]) -> Iterator[Violation]:
        """What ``rule`` finds about the whole plan, waived breaches left out."""
        for finding in evaluate(planned, self.facts, self.waivers, self.now).findings:
            if finding.rule == rule and not finding.waived:
                yield finding


def plain(value: Any, refused: type[Exception]) -> Any:
    """``value`` as plain mappings, lists and scalars.

    Args:
        value: a property as pulumi-policy hands it over: the way to what is unknown raises.
        refused: what it raises then.
    """
    if isinstance(value, Mapping):
        return {key: _at(value, key, refused) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_at(value, index, refused) for index in range(len(value))]
    return value


def _at(container: Any, key: Any, refused: type[Exception]) -> Any:
    try:
        value = container[key]
    except refused:
        return UNKNOWN
    return plain(value, refused)
