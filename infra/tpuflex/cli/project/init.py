"""What `tpuflex init` asks and prints."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import click

from pulumi_plugin.printable import printable
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import Finding, SettingsError
from tpuflex.scaffold.new_project import Created, InitOptions, initialize
from tpuflex.scaffold.options import Offer, Question, Questions
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


def _prompt(question: Question) -> str:
    """Ask until the answer is one that can be taken; `?` shows what there is, with numbers."""
    kind = click.Choice(question.choices) if question.choices else None
    shown = None if question.proposed is None else printable(question.proposed)
    text = printable(question.text) + (" (? lists them)" if question.offers else "")
    offers: tuple[Offer, ...] = ()
    while True:
        answer = str(click.prompt(text, default=shown, type=kind, err=True)).strip()
        if question.offers and answer == "?":
            offers = tuple(question.offers())
            for line in _numbered(offers):
                click.echo(line, err=True)
            continue
        if answer.isdecimal() and 0 < int(answer) <= len(offers):
            answer = offers[int(answer) - 1].answer
        wrong = question.check(answer)
        if not wrong:
            return answer
        for finding in wrong:
            click.echo(printable(f"  {finding.problem}. {finding.remedy}"), err=True)


def _numbered(offers: tuple[Offer, ...]) -> Iterator[str]:
    width = max((len(offer.answer) for offer in offers), default=0)
    for number, offer in enumerate(offers, 1):
        yield printable(f"  {number:>2}  {offer.answer:<{width}}  {offer.about}")


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
