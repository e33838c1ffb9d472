"""Every failure tpuflex reports, as one tree.

    TpuflexError                 exit 1
      SettingsError              exit 5   the stack file is wrong: edit it (lists every finding)
      CapacityError              exit 3   Google has no capacity yet: wait, or change the zone
      NotFoundError              exit 4   what was asked about does not exist
      AccessError                exit 6   a permission is missing: ask an administrator
        UnauthenticatedError     exit 6   the credentials are refused: log in
        ServiceDisabledError     exit 6   an API is not enabled in the project
        QuotaError               exit 6   a quota is missing: ask for more, or clean up
      ApiError                   exit 1   the API answered with an error
        AlreadyExistsError       exit 1   the name is taken by something that is not ours
        ConflictError            exit 1   not possible in the resource's current state
        ServerDownError          exit 7   the model server does not answer where it serves
      BootError                  exit 7   the host came up but serving did not
        FailedBootError          exit 7   and will not, however long one waits
      WeightsError               exit 7   weights are missing or damaged
        UnknownModelError        exit 7   a model of which no rule for its memory is known
      EngineError                exit 8   the Pulumi engine failed or cannot be installed
      EmulatorError              exit 9   the embedded cloud cannot start or be reached
      IncompleteTeardownError    exit 10  `down` ended, and something is left
      PolicyError                exit 11  a rule of policy is broken: mend it, or waive it
      PlanChangedError           exit 12  the plan is not the one that was approved
      NotAsPlannedError          exit 13  a schedule looked, and something is not as planned
      GateError                  exit 14  a gate of `bench ramp` fails: the server is too slow
      ImplausibleError           exit 15  figures contradict themselves or the chips: believe none
      AlertError                 exit 16  an alert fires: somebody has to look
      InterruptedByUser          exit 130 Ctrl-C

The branches are split by who must act next. Exit code 2 is click's (wrong usage), and
:class:`UsageError`, which is no failure of tpuflex, becomes one of click's.
An error carries a message (what happened, with the value) and a hint (the exact command
or line that fixes it). Nothing below the command line prints; the command line prints
``message`` and ``hint`` and exits with ``exit_code``. In the provider a ``code`` takes the place of
the class, which does not get through the engine (:mod:`tpuflex.codes`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from pulumi_plugin.printable import printable
from tpuflex.advice import Advice
from tpuflex.codes import Code

#: Characters that are shown of an unexpected error, which may quote foreign text.
_SHOWN_OF_A_BUG = 300


class TpuflexError(Exception):
    """Root of all failures that tpuflex reports.

    Attributes:
        message: what happened, with the value that was wrong. Never holds a secret.
        hint: how to fix it (a command, or a line to change); may be empty. A string becomes advice
            about no stack.
        exit_code: the process exit code for this kind.
        code: what the provider tells the command line about it, if anything.
        brief: the message without the call of an API that was refused, for a line of a list.
        section: anchor of the manual's section that says more than the hint; or empty.
    """

    exit_code: ClassVar[int] = 1
    section: str = ""

    def __init__(
        self,
        message: str,
        *,
        hint: Advice | str = "",
        code: Code | None = None,
        brief: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = Advice.of(hint)
        self.code = code
        self.brief = brief or message

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def to_json(self, stack: str = "") -> dict[str, object]:
        """It in the document of a command with ``--json``, with a hint about ``stack``."""
        return {
            "kind": type(self).__name__,
            "message": self.message,
            "hint": self.hint.for_stack(stack),
            "exit_code": self.exit_code,
        }


class UsageError(ValueError):
    """What a function was asked for says too little, or contradicts itself.

    The command line reports it as click reports wrong options, with exit code 2.

    Attributes:
        option: the option of the command line that is wrong; empty for several of them.
    """

    def __init__(self, message: str, *, option: str = "") -> None:
        super().__init__(message)
        self.option = option


def reported(error: Exception) -> TpuflexError:
    """``error`` as it is reported: an OSError is the machine's (a file in the way, a full disk, a
    missing permission), and what else is none of ours is a bug."""
    match error:
        case TpuflexError():
            return error
        case OSError():
            where = f": {error.filename}" if error.filename else ""
            return TpuflexError(f"{error.strerror or error}{where}")
    first = (str(error).splitlines() or [""])[0][:_SHOWN_OF_A_BUG]
    return TpuflexError(
        f"This is a bug in tpuflex: {type(error).__name__}: {first}",
        hint="Run the command with --verbose, and report what it shows.",
    )


@dataclass(frozen=True, slots=True)
class Position:
    """Where a key stands.

    Attributes:
        line: its line, from 1.
        column: its column, from 1.
        file: name of the file; empty for the stack file.
    """

    line: int
    column: int
    file: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem in a stack file.

    Attributes:
        key: the full configuration key, such as ``tpuflex:slice.max_run_duration``.
        problem: what is wrong, with the value.
        remedy: what to write instead.
        position: where the key stands, or the section that it is missing from; None if no file is
            known to have it.
    """

    key: str
    problem: str
    remedy: str = ""
    position: Position | None = None

    def __str__(self) -> str:
        where = self.position
        if where is None:
            return self._sentence("")
        # A key of catalog.yaml begins with the file's name.
        file = "" if self.key.startswith(where.file) else f"{where.file}, "
        return self._sentence(f" ({file}line {where.line})")

    @property
    def without_position(self) -> str:
        """The problem in a line that begins with its position."""
        return self._sentence("")

    def _sentence(self, place: str) -> str:
        remedy = f" {self.remedy}" if self.remedy else ""
        # A key of the file may hold line breaks, and would pass for a message of ours.
        return printable(f"{self.key}: {self.problem}{place}.{remedy}")

    def to_json(self) -> dict[str, object]:
        """The problem in a JSON document, with its position where that is known."""
        said: dict[str, object] = {
            "key": self.key,
            "problem": self.problem,
            "remedy": self.remedy,
        }
        return said if self.position is None else {**said, **asdict(self.position)}


class SettingsError(TpuflexError):
    """The stack file is wrong; all findings are reported at once."""

    exit_code = 5

    def __init__(
        self, source: str, findings: tuple[Finding, ...], *, hint: Advice | str = ""
    ) -> None:
        self.source = source
        self.findings = findings
        count = "1 problem" if len(findings) == 1 else f"{len(findings)} problems"
        lines = "\n".join(f"  {finding}" for finding in findings)
        super().__init__(f"{source} has {count}:\n{lines}", hint=hint)

    def to_json(self, stack: str = "") -> dict[str, object]:
        """As every error, with what is wrong key by key."""
        return {**super().to_json(stack), "findings": [each.to_json() for each in self.findings]}


class CapacityError(TpuflexError):
    """No capacity was granted within the time allowed; the request is still waiting."""

    exit_code = 3


class NotFoundError(TpuflexError):
    """What was asked about does not exist."""

    exit_code = 4


class AccessError(TpuflexError):
    """A permission is missing."""

    exit_code = 6


class UnauthenticatedError(AccessError):
    """The credentials are refused, whatever they would allow."""


class ServiceDisabledError(AccessError):
    """The API is not enabled in the project."""


class RequesterPaysError(AccessError):
    """The bucket has Requester Pays on: whoever reads it is to pay."""


class QuotaError(AccessError):
    """A quota is missing or used up."""


class ApiError(TpuflexError):
    """The API answered with an error.

    Attributes:
        status: HTTP status code, or 0 when there was no HTTP answer.
        reason: Google's canonical code such as ``FAILED_PRECONDITION``, or empty.
        method: HTTP method of the request.
        url: request URL without its query (a query may carry tokens).
        retry_after: seconds that the server asked to wait before the next call; 0 if it did not.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        method: str = "",
        url: str = "",
        hint: Advice | str = "",
        code: Code | None = None,
        brief: str = "",
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message, hint=hint, code=code, brief=brief)
        self.status = status
        self.reason = reason
        self.method = method
        self.url = url
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """Whether the same call may succeed later with nothing changed: there was no usable answer,
        the server failed, or it asked to slow down."""
        return self.status in (0, 408, 429) or self.status >= 500


class ServerDownError(ApiError):
    """The model server does not answer where it serves."""

    exit_code = 7


class AlreadyExistsError(ApiError):
    """The name is taken by a resource that is not ours."""


class ConflictError(ApiError):
    """The call is not possible in the resource's current state."""


class BootError(TpuflexError):
    """The host came up but serving did not."""

    exit_code = 7


class FailedBootError(BootError):
    """The boot failed, or never began to report: waiting longer does not help.

    Attributes:
        known: the hint without what waiting again does.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: Advice | str = "",
        again: Advice | str = "",
        code: Code | None = None,
        section: str = "",
    ) -> None:
        super().__init__(message, hint=Advice.lines(hint, again), code=code)
        self.known = Advice.of(hint)
        self.section = section


class WeightsError(TpuflexError):
    """Model weights are missing or damaged."""

    exit_code = 7


class UnknownModelError(WeightsError):
    """A model of which no rule is known that says how much memory it takes."""


class EngineError(TpuflexError):
    """The Pulumi engine failed, or cannot be installed.

    Attributes:
        locked: whether the reason is that another operation holds the stack's lock.
        stale: whether the reason is that the state has a resource that is gone.
    """

    exit_code = 8

    def __init__(
        self,
        message: str,
        *,
        hint: Advice | str = "",
        locked: bool = False,
        stale: bool = False,
        section: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.locked = locked
        self.stale = stale
        self.section = section


class EmulatorError(TpuflexError):
    """The embedded cloud cannot start or cannot be reached."""

    exit_code = 9


class IncompleteTeardownError(TpuflexError):
    """Teardown ended, and something is left."""

    exit_code = 10


class PolicyError(TpuflexError):
    """A mandatory rule of policy is broken, and not waived."""

    exit_code = 11


class PlanChangedError(TpuflexError):
    """What would be done is not in the plan that was approved."""

    exit_code = 12


class NotAsPlannedError(TpuflexError):
    """Something is not as planned, and `preview --exit-code` asked whether it is."""

    exit_code = 13


class GateError(TpuflexError):
    """What was measured does not keep a limit that was set for it."""

    exit_code = 14


class ImplausibleError(TpuflexError):
    """Figures contradict themselves, or what the chips can do, so they say nothing."""

    exit_code = 15


class AlertError(TpuflexError):
    """An alert fires, and `alerts` asked whether one does."""

    exit_code = 16


class InterruptedByUser(TpuflexError):  # noqa: N818 - the user's wish, not an error
    """The user pressed Ctrl-C, or did not agree."""

    exit_code = 130
