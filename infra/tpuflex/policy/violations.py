"""What a rule finds, and what is said of all findings together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from tpuflex.policy.rows import Rule, Severity


@dataclass(frozen=True, slots=True)
class Breach:
    """What a rule says about one resource, or about the stack.

    Attributes:
        text: what is wrong, with the value, without a full stop. Never holds a secret.
        remedy: what to do about it, as a sentence.
        advisory: whether it refuses nothing: it cannot be told yet, or is the user's own affair.
    """

    text: str
    remedy: str
    advisory: bool = False


@dataclass(frozen=True, slots=True)
class WaivedBy:
    """The waiver of a finding.

    Attributes:
        reason: why the stack file says that it is accepted.
        until: the last day on which it is.
    """

    reason: str
    until: date

    def to_json(self) -> dict[str, str]:
        """The waiver in a JSON document."""
        return {"reason": self.reason, "until": self.until.isoformat()}


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach of a rule.

    Attributes:
        rule: the rule.
        text: what is wrong.
        remedy: what to do about it.
        resource: logical name of the resource; empty for the stack.
        type: its type token; empty for the stack.
        severity: the rule's, or advisory where this breach refuses nothing.
        waived: the waiver of the stack file, or None.
    """

    rule: Rule
    text: str
    remedy: str
    resource: str = ""
    type: str = ""
    severity: Severity = "mandatory"
    waived: WaivedBy | None = None

    @property
    def refuses(self) -> bool:
        """Whether nothing may be deployed because of it."""
        return self.severity == "mandatory" and self.waived is None

    def __str__(self) -> str:
        about = f"{self.resource} " if self.resource else ""
        end = (
            f"Waived until {self.waived.until.isoformat()}: {self.waived.reason}"
            if self.waived
            else self.remedy
        )
        return f"{about}({self.rule.id}): {self.text}. {end}"

    def to_json(self) -> dict[str, object]:
        """The finding in a JSON document."""
        return {
            "rule": self.rule.id,
            "severity": self.severity,
            "resource": self.resource or None,
            "type": self.type or None,
            "text": self.text,
            "remedy": self.remedy,
            "waived": None if self.waived is None else self.waived.to_json(),
        }


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """All findings of one evaluation.

    Attributes:
        findings: in the order of the rules; what refuses first.
        idle: waivers that waive nothing, in words.
    """

    findings: tuple[Violation, ...] = ()
    idle: tuple[str, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Violation], idle: Iterable[str] = ()) -> PolicyReport:
        """The report of ``findings``, what refuses first."""
        return cls(tuple(sorted(findings, key=_rank)), tuple(idle))

    @property
    def refusals(self) -> tuple[Violation, ...]:
        """The findings because of which nothing may be deployed."""
        return tuple(finding for finding in self.findings if finding.refuses)

    def to_json(self) -> dict[str, object]:
        """The report in a JSON document."""
        return {
            "refused": bool(self.refusals),
            "findings": [finding.to_json() for finding in self.findings],
            "idle_waivers": list(self.idle),
        }


NOTHING_FOUND = PolicyReport()


def _rank(finding: Violation) -> int:
    if finding.refuses:
        return 0
    return 1 if finding.waived is None else 2
