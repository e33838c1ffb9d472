"""The steps of `tpuflex ci stacks`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tpuflex.deploy.base_commit import BaseCommit
from tpuflex.errors import Finding, SettingsError, TpuflexError
from tpuflex.scaffold.project_files import NAME
from tpuflex.settings.load import load_stack_file

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation


def run_changed(invocation: Invocation, base: str) -> None:
    """List the stacks that differ from the commit ``base``.

    Raises:
        NotFoundError: there is no such commit.
        SettingsError: a file's name is no stack's, and would travel through workflows as one.
    """
    changes = BaseCommit(invocation.project, base, invocation.environ).changes()
    for change in changes:
        if not NAME.fullmatch(change.stack):
            problem = "names no stack: Pulumi takes letters, digits, and . _ -"
            found = Finding(f"Pulumi.{change.stack}.yaml", problem, "Rename the file.")
            raise SettingsError("the change", (found,))
    output = invocation.output
    output.document({"base": base, "stacks": [change.to_json() for change in changes]})
    if not changes:
        output.result("No stack is touched.")
        return
    output.table(
        ("STACK", "FILE", ""),
        [
            (change.stack, change.change, change.other_name and f"renamed: {change.other_name}")
            for change in changes
        ],
    )


def run_renewing(invocation: Invocation) -> None:
    """List the stacks on Google with ``renew_before``."""
    project, output = invocation.project, invocation.output
    found = []
    for stack in project.stack_names():
        try:
            file = project.stack_file(stack)
            opener = partial(invocation.opened_config, stack)
            settings = load_stack_file(
                file, root=project.root, deploying=False, opener=opener
            ).settings
        except TpuflexError as error:
            # One that is broken must not end the runs of the others.
            output.progress(f"Warning: left out: {error.message}")
            continue
        if settings.cloud == "google" and settings.slice.renew_before is not None:
            found.append(stack)
    output.document({"stacks": found})
    for stack in found:
        output.result(stack)
