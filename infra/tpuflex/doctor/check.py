"""One line of `tpuflex doctor`: what was examined, how it stands, and what mends it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tpuflex.advice import Advice
from tpuflex.errors import Finding, SettingsError, TpuflexError
from tpuflex.gcloud_commands import enable_services
from tpuflex.google.reading import DisabledApi, Unread


class Group(StrEnum):
    """What a check is about, in the order in which the groups are shown: what others depend on
    comes first, so that the first failure is the one to mend first."""

    STACK = "Stack file"
    MACHINE = "This machine"
    STATE = "Pulumi's state"
    ACCOUNT = "Credentials and project"
    APIS = "APIs"
    PERMISSIONS = "Permissions"
    POLICIES = "Organisation policies"
    CAPACITY = "Accelerators and quota"
    SERVED = "Image and weights"


class Standing(StrEnum):
    """How a check stands."""

    OK = "ok"
    WARNING = "warning"  #: `up` gets by, something else does not
    FAILED = "failed"  #: `up` cannot succeed
    UNKNOWN = "unknown"  #: it could not be read, by a missing right or for want of an answer
    SKIPPED = "skipped"  #: it does not concern this stack


#: Standings of which the user should know why, the gravest first.
_WRONG = (Standing.FAILED, Standing.WARNING, Standing.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Check:
    """One line.

    Attributes:
        group: what it is about.
        name: what was examined.
        standing: how it stands.
        text: what was found.
        remedy: the command that mends it, or the line to change; empty where nothing is to mend.
        kind: the error that a failure is, which gives its exit code; of a warning, the one that
            `up` may end in.
        disabled: the API that is off, where that is the cause.
    """

    group: Group
    name: str
    standing: Standing
    text: Advice | str
    remedy: Advice | str = ""
    kind: type[TpuflexError] = TpuflexError
    disabled: DisabledApi | None = None

    @property
    def may_be_refused(self) -> bool:
        """Whether an `up` cannot succeed by this, or may not."""
        warned = self.standing is Standing.WARNING and self.kind is not TpuflexError
        return warned or self.standing is Standing.FAILED

    def to_json(self) -> dict[str, str]:
        """The line in a JSON document."""
        return {
            "group": self.group.value,
            "name": self.name,
            "standing": self.standing.value,
            "text": str(self.text),
            "remedy": str(self.remedy),
        }

    def error(self) -> TpuflexError:
        """The failure as the error that `up` refuses with."""
        if issubclass(self.kind, SettingsError):
            return SettingsError(
                "the stack", (Finding(self.name, str(self.text), str(self.remedy)),)
            )
        return self.kind(f"{self.name}: {self.text}", hint=self.remedy)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a check is about; makes the checks of it."""

    group: Group
    name: str

    def ok(self, text: Advice | str) -> Check:
        """It is as it has to be."""
        return Check(self.group, self.name, Standing.OK, text)

    def warning(
        self,
        text: Advice | str,
        remedy: Advice | str,
        disabled: DisabledApi | None = None,
        kind: type[TpuflexError] = TpuflexError,
    ) -> Check:
        """`up` gets by, something else does not; or `up` may end in an error of ``kind``."""
        return Check(self.group, self.name, Standing.WARNING, text, remedy, kind, disabled)

    def failed(self, kind: type[TpuflexError], text: Advice | str, remedy: Advice | str) -> Check:
        """`up` cannot succeed; ``kind`` gives the exit code."""
        return Check(self.group, self.name, Standing.FAILED, text, remedy, kind)

    def unknown(self, unread: Unread) -> Check:
        """It could not be read."""
        return Check(
            self.group,
            self.name,
            Standing.UNKNOWN,
            unread.why,
            unread.remedy,
            disabled=unread.disabled,
        )

    def skipped(self, text: Advice | str) -> Check:
        """It does not concern this stack."""
        return Check(self.group, self.name, Standing.SKIPPED, text)


def in_groups(checks: Iterable[Check]) -> tuple[Check, ...]:
    """``checks`` by group; within a group, their order stays."""
    order = [*Group]
    return tuple(sorted(checks, key=lambda check: order.index(check.group)))


@dataclass(frozen=True, slots=True)
class Cause:
    """Checks that stand as they do for one reason, which one remedy mends.

    Attributes:
        checks: those that found it, at least one.
        remedy: what mends it for all of them, or empty.
        hidden: those that cannot look before that.
    """

    checks: tuple[Check, ...]
    remedy: Advice | str
    hidden: tuple[Check, ...] = ()

    @property
    def standing(self) -> Standing:
        """How all of them stand."""
        return self.checks[0].standing


def causes(checks: Iterable[Check]) -> tuple[Cause, ...]:
    """Why ``checks`` do not stand well, the failures first, otherwise in their order."""
    wrong = [check for check in checks if check.standing in _WRONG]
    off = {
        check.disabled for check in wrong if check.disabled and check.standing != Standing.UNKNOWN
    }
    alike: dict[tuple[object, ...], list[Check]] = {}
    hidden: list[Check] = []
    for check in wrong:
        if check.standing is Standing.UNKNOWN and check.disabled in off:
            hidden.append(check)
            continue
        remedy = "" if check.disabled else str(check.remedy)
        alike.setdefault((check.standing, str(check.text), remedy), []).append(check)
    found = [_cause(tuple(members), hidden) for members in alike.values()]
    return tuple(sorted(found, key=lambda cause: _WRONG.index(cause.standing)))


def _cause(checks: tuple[Check, ...], hidden: Iterable[Check]) -> Cause:
    off = [check.disabled for check in checks if check.disabled]
    if not off:
        return Cause(checks, checks[0].remedy)
    services = dict.fromkeys(each.service for each in off)
    enable = enable_services(off[0].project, *services)
    return Cause(checks, str(enable), tuple(each for each in hidden if each.disabled in off))


def first_failure(checks: Iterable[Check]) -> Check | None:
    """The failure to mend first; None if nothing failed."""
    return next((check for check in in_groups(checks) if check.standing is Standing.FAILED), None)


def exit_code(checks: Iterable[Check]) -> int:
    """0 if nothing failed, else that of the first failure's kind."""
    failure = first_failure(checks)
    return 0 if failure is None else failure.kind.exit_code


def summary(checks: Sequence[Check]) -> str:
    """All of ``checks`` in one sentence."""
    counts = Counter(check.standing for check in checks)
    asked = len(checks) - counts[Standing.SKIPPED]
    others = [
        f"{counts[standing]} {word}"
        for standing, word in (
            (Standing.WARNING, "warning" if counts[Standing.WARNING] == 1 else "warnings"),
            (Standing.UNKNOWN, "unknown"),
        )
        if counts[standing]
    ]
    beside = f" ({', '.join(others)})" if others else ""
    failure = first_failure(checks)
    if failure is None:
        return f"None of {asked} checks failed{beside}."
    return (
        f"{counts[Standing.FAILED]} of {asked} checks failed{beside}; mend first: {failure.name}."
    )
