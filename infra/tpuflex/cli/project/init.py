"""What `tpuflex init` asks and prints."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from pulumi_plugin.printable import printable
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import Finding, SettingsError
from tpuflex.scaffold.new_project import Created, InitOptions, initialize
from tpuflex.scaffold.options import Questions
from tpuflex.scaffold.project_files import IGNORE_FILE
from tpuflex.stack.progress import require_consent
from tpuflex.terminal.output import Output


def run_init(invocation: Invocation, options: InitOptions) -> None:
    """Make what ``options`` and answers describe, and show it."""
    prompt = _prompt if sys.stdin.isatty() else None
    created = initialize(
        options,
        Questions(prompt, defaults=invocation.yes),
        directory=invocation.directory,
        environ=invocation.environ,
        accept=lambda refused: _accept(invocation, refused),
    )
    _show(invocation.output, created)


def _prompt(question: str, proposed: str | None, choices: tuple[str, ...]) -> str:
    kind = click.Choice(choices) if choices else None
    shown = None if proposed is None else printable(proposed)
    return str(click.prompt(printable(question), default=shown, type=kind, err=True))


def _accept(invocation: Invocation, refused: tuple[Finding, ...]) -> None:
    """Go on without the keys that cannot be honoured only if the user agrees.

    Raises:
        SettingsError: nobody can be asked, and ``--yes`` was not given.
        InterruptedByUser: the user does not agree.
    """
    if not invocation.yes and not sys.stdin.isatty():
        hint = "Nothing was written. To make the stack without these keys, add --yes."
        raise SettingsError("The file of --from", refused, hint=hint)
    for finding in refused:
        invocation.output.progress(f"Refused: {finding}")
    require_consent(invocation.consent, "Make the stack without these keys?")


def _show(output: Output, created: Created) -> None:
    place = created.place
    output.document(created.to_json())
    project = f"project {place.name} with " if place.new else ""
    output.result(f"New {project}stack {created.stack} in {place.root}:")
    for file in created.written:
        output.result(f"  {file}")
    for reason, keys in _by_reason(created.as_is).items():
        output.progress(printable(f"Left out: {', '.join(keys)}: {reason}."))
    for finding in created.warnings:
        output.progress(f"Warning: {finding}")
    if place.new and IGNORE_FILE not in created.written:
        output.progress(f"Add .tpuflex/ to {IGNORE_FILE}, which was there already.")
    if created.accelerators:
        output.result("Accelerator types for the same (--accelerator):")
    for each in created.accelerators:
        output.result(f"  {each}")
    output.result("Next:")
    for command in created.following:
        output.result(f"  {command}")


def _by_reason(findings: Iterable[Finding]) -> dict[str, list[str]]:
    """Keys of ``findings`` by what is said of them."""
    keys: dict[str, list[str]] = {}
    for finding in findings:
        keys.setdefault(finding.problem, []).append(finding.key)
    return keys
