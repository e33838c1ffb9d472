"""Whether `tpuflex up` can succeed, found out without making anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from tpuflex.doctor import (
    account,
    channels,
    enabled_apis,
    encryption_key,
    host_account,
    image,
    machine,
    policies,
    quota,
    rights,
    state,
    weights,
)
from tpuflex.doctor.check import Check, Group, Standing, Subject, exit_code, in_groups, summary
from tpuflex.doctor.cloud import ExaminedCloud
from tpuflex.doctor.machine import Machine
from tpuflex.doctor.side_by_side import Examination, examine_all
from tpuflex.errors import EmulatorError, NotFoundError, TpuflexError
from tpuflex.stack.connection import connect, google_cloud

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

#: What is examined of a stack's cloud: each gives its examinations, in this order.
CLOUD_SUBJECTS = (
    account,
    enabled_apis,
    rights,
    host_account,
    encryption_key,
    channels,
    policies,
    quota,
    image,
    weights,
)
#: Seconds for this machine and the credential, and then for the cloud: below 30 together.
_FIRST, _REST_OF_TIME = 12.0, 16.0
_CLOUD = Subject(Group.ACCOUNT, "cloud")
_REST = Subject(Group.ACCOUNT, "project")
_STACK = Subject(Group.STACK, "stack")


@dataclass(frozen=True, slots=True)
class Report:
    """What was found.

    Attributes:
        stack: name of the stack; None if it could not be opened.
        cloud: the cloud that its file names.
        checks: all of them, by group.
    """

    stack: str | None
    cloud: str | None
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        """0 if nothing failed, else that of the first failure's kind."""
        return exit_code(self.checks)

    @property
    def summary(self) -> str:
        """All checks in one sentence."""
        return summary(self.checks)

    def to_json(self) -> dict[str, object]:
        """The document of ``--json``."""
        return {
            "stack": self.stack,
            "cloud": self.cloud,
            "checks": [check.to_json() for check in self.checks],
            "failed": sum(check.standing is Standing.FAILED for check in self.checks),
            "summary": self.summary,
        }


def examine(
    stack: Stack | TpuflexError,
    environ: Mapping[str, str],
    directory: Path,
    say: Callable[[str], None],
    *,
    named: bool = True,
) -> Report:
    """Examine a stack, this machine and the stack's cloud; nothing is made or started.

    Args:
        stack: the stack; or why it cannot be opened, in which case the rest is examined.
        environ: the caller's environment.
        directory: the project's directory, or one below it.
        say: takes a line on what is used in place of the default.
        named: whether the stack was asked for by name: any other need not exist.
    """
    opened = None if isinstance(stack, TpuflexError) else stack
    checks = in_groups(
        (_stack_check(stack, named=named), *_checks(opened, environ, directory, say))
    )
    if opened is None:
        return Report(None, None, checks)
    return Report(opened.name, opened.settings.cloud, checks)


def cloud_examinations(cloud: Connection) -> list[Examination]:
    """What to examine of ``cloud``; `up` asks for the decisive part of it."""
    examined = ExaminedCloud(cloud)
    return [each for subject in CLOUD_SUBJECTS for each in subject.examinations(examined)]


def _stack_check(stack: Stack | TpuflexError, *, named: bool) -> Check:
    if isinstance(stack, NotFoundError):
        if named:
            return _STACK.failed(NotFoundError, stack.message, stack.hint)
        return _STACK.skipped(f"{stack.message} The rest is what can be said without one.")
    if isinstance(stack, TpuflexError):
        return _STACK.failed(type(stack), stack.message, stack.hint or "Edit the file.")
    return _STACK.ok(f"{stack.name}, on {stack.cloud_text}")


def _checks(
    stack: Stack | None, environ: Mapping[str, str], directory: Path, say: Callable[[str], None]
) -> list[Check]:
    """Every check but that of the stack file. Without a credential, nobody in the cloud answers."""
    here = Machine(environ, directory)
    examinations = machine.examinations(here, stack)
    if stack is None:
        credential = Examination(
            Group.ACCOUNT, "credential", lambda: [account.found_credential(environ)]
        )
        examinations.append(credential)
        return [*chain(*examine_all(examinations, patience=_FIRST))]
    examinations += state.examinations(here, stack)
    cloud = _cloud(stack, environ, say)
    if isinstance(cloud, Check):
        return [*chain(*examine_all(examinations, patience=_FIRST)), cloud]
    examinations.append(account.credential_examination(ExaminedCloud(cloud)))
    *others, accepted = examine_all(examinations, patience=_FIRST)
    first = [*chain(*others), *accepted]
    if any(check.standing is Standing.FAILED for check in accepted):
        return [*first, _REST.skipped("nobody answers without a credential")]
    return [*first, *chain(*examine_all(cloud_examinations(cloud), patience=_REST_OF_TIME))]


def _cloud(
    stack: Stack, environ: Mapping[str, str], say: Callable[[str], None]
) -> Connection | Check:
    """The cloud of ``stack``, or why it cannot be asked; an embedded cloud that is stopped stays
    so."""
    try:
        if stack.embedded:
            return connect(stack, environ, say, start=False)
        return google_cloud(stack, environ, say)
    except EmulatorError as error:
        hint = str(error.hint).replace("\n", " ")
        return _CLOUD.skipped(f"{error.message} {hint}".strip())
    except TpuflexError as error:
        return machine.engine_check(error)
