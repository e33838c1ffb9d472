"""The text of docs/stacks.md, from the stack files of this project."""

from __future__ import annotations

from pathlib import Path

from tpuflex.cli.stack_head import StackHead, stack_head
from tpuflex.planning.cost import run_cost
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import StackSettings

STACKS = Path(__file__).parents[3] / "stacks"

_PAGE = """\
# Stacks that come with tpuflex

Generated from the files in `stacks/` and the catalog by `make docs`; do not edit.

Nobody has run tpuflex on a TPU yet: what was seen was seen by others, with their own scripts.
Prices are the catalog's for the stack's region, for the chips alone. To use a stack on Google,
write your project into its file, download the weights with the command in it, and run
`tpuflex --stack NAME up`.

| stack | model | slice | per hour | seen | unproven |
|---|---|---|---|---|---|
"""


def stacks_reference() -> str:
    """The page: a table of all stacks, then what was seen of each, in full."""
    files = {
        file.name.removeprefix("Pulumi.").removesuffix(".yaml"): file
        for file in STACKS.glob("Pulumi.*.yaml")
    }
    page, sections = [_PAGE], []
    for name, file in sorted(files.items()):
        settings = load_stack_file(file, deploying=False).settings
        head = stack_head(file.read_text("utf-8"))
        page.append(f"| {' | '.join(_row(name, settings, head))} |\n")
        sections.append(_section(name, head))
    return "".join([*page, *sections])


def _row(name: str, settings: StackSettings, head: StackHead) -> tuple[str, ...]:
    cost = run_cost(settings)
    chips = "1 chip" if cost.chips == 1 else f"{cost.chips} chips"
    price = "not known" if cost.per_hour is None else f"${cost.per_hour}"
    return (
        f"[{name}](../stacks/Pulumi.{name}.yaml)",
        settings.model.name,
        f"{settings.slice.accelerator_type}, {chips}",
        price if settings.cloud == "google" else "free",
        _first_sentence(head.seen),
        _first_sentence(head.unproven),
    )


def _section(name: str, head: StackHead) -> str:
    planned = f"\nPlanned: {head.planned}\n" if head.planned else ""
    return (
        f"\n## {name}\n\n{head.title}\n\nSeen: {head.seen}\n\nUnproven: {head.unproven}\n{planned}"
    )


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".")
