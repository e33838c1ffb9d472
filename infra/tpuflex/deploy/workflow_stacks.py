"""The stacks that a repository's workflows act on: those that a change touches, or that a schedule
renews, or compares with the cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tpuflex.deploy.base_commit import BaseCommit, StackChange
from tpuflex.deploy.known_stacks import Open, known_stacks
from tpuflex.errors import Finding, SettingsError, TpuflexError
from tpuflex.project import Project
from tpuflex.scaffold.project_files import NAME
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.opened import OpenedConfig
from tpuflex.stack.progress import Report, silent


@dataclass(frozen=True, slots=True)
class ChangedStacks:
    """The stacks that a change touches.

    Attributes:
        base: the Git reference that the change is compared with.
        changes: what it does to each.
    """

    base: str
    changes: tuple[StackChange, ...]

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex ci stacks --base REF --json``."""
        return {"base": self.base, "stacks": [change.to_json() for change in self.changes]}


def changed_stacks(project: Project, base: str, environ: Mapping[str, str]) -> ChangedStacks:
    """The stacks that differ from the commit ``base``.

    Raises:
        NotFoundError: there is no such commit.
        SettingsError: a file's name is no stack's, and would travel through workflows as one.
    """
    changes = BaseCommit(project, base, environ).changes()
    for change in changes:
        if not NAME.fullmatch(change.stack):
            problem = "names no stack: Pulumi takes letters, digits, and . _ -"
            found = Finding(f"Pulumi.{change.stack}.yaml", problem, "Rename the file.")
            raise SettingsError("the change", (found,))
    return ChangedStacks(base, changes)


@dataclass(frozen=True, slots=True)
class ScheduledStacks:
    """The stacks that a schedule is about, by name."""

    stacks: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex ci stacks --renewing --json``, and with ``--up``."""
        return {"stacks": list(self.stacks)}


def renewed_stacks(
    project: Project, opened: Callable[[str], OpenedConfig], say: Callable[[str], None]
) -> ScheduledStacks:
    """The stacks on Google with ``renew_before``.

    Args:
        project: the project.
        opened: what the engine knows of a stack, by its name.
        say: told of stacks that are left out, because their file is wrong.
    """
    found = []
    for stack in project.stack_names():
        try:
            settings = load_stack_file(
                project.stack_file(stack),
                root=project.root,
                deploying=False,
                opener=partial(opened, stack),
            ).settings
        except TpuflexError as error:
            # One that is broken must not end the runs of the others.
            say(f"Warning: left out: {error.message}")
            continue
        if settings.cloud == "google" and settings.slice.renew_before is not None:
            found.append(stack)
    return ScheduledStacks(tuple(found))


def stacks_up(
    project: Project, open_named: Open, environ: Mapping[str, str], report: Report = silent
) -> ScheduledStacks:
    """The stacks that have a state, which goes with the last of a stack. One whose file is wrong is
    among them, and so is each where the backend cannot be asked: what is done with it says why.
    Those of the user's own programs are not, because only Pulumi can plan them.

    Args:
        project: the project.
        open_named: opens a stack of it.
        environ: the caller's environment.
        report: is told of what is used in place of the default.
    """
    known, _ = known_stacks(project, open_named, environ, report)
    own = [each.name for each in known if each.stack is not None and each.stack.own_program]
    if own:
        report(f"Left out, deployed by a program of your own: {', '.join(own)}.")
    return ScheduledStacks(tuple(each.name for each in known if each.name not in own))
