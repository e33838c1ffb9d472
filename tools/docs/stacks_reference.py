"""The text of docs/stacks.md, from the stack files of this project and the memory planner."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tpuflex.planning.cost import run_cost
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.stack import plan_stack
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import StackSettings

STACKS = Path(__file__).parents[2] / "stacks"

_PAGE = """\
# Stacks that come with tpuflex

Generated from the files in `stacks/`, the catalog and the memory planner by `make docs`; do not
edit.

Nobody has run tpuflex on a TPU yet: what was seen was seen by others, with their own scripts.
Tokens and sequences are computed (`tpuflex memory --stack NAME`); prices are the catalog's for the
stack's region, for the chips alone. To use a stack on Google, write your project into its file,
download the weights with the command in it, and run `tpuflex --stack NAME up`.

| stack | model | slice | per hour | tokens cached | sequences at full length | seen | unproven |
|---|---|---|---|---|---|---|---|
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


def planned_text(settings: StackSettings) -> str:
    """What the planner says of a stack's memory in one sentence; empty if it has no plan."""
    plan = plan_stack(settings)
    if not isinstance(plan, MemoryPlan):
        return ""
    request, fit = plan.request, int(plan.full_length_sequences)
    preempted = ", so long ones will be preempted" if fit < request.max_num_seqs else ""
    return (
        f"{_tokens(plan)} tokens in the KV cache, {fit:,} sequences of {request.max_model_len:,} "
        f"tokens; {request.max_num_seqs:,} are admitted{preempted}."
    )


def _row(name: str, settings: StackSettings, head: StackHead) -> tuple[str, ...]:
    cost, plan = run_cost(settings), plan_stack(settings)
    chips = "1 chip" if cost.chips == 1 else f"{cost.chips} chips"
    price = "not known" if cost.per_hour is None else f"${cost.per_hour}"
    return (
        f"[{name}](../stacks/Pulumi.{name}.yaml)",
        settings.model.name,
        f"{settings.slice.accelerator_type}, {chips}",
        price if settings.cloud == "google" else "free",
        _tokens(plan) if isinstance(plan, MemoryPlan) else "not known",
        f"{int(plan.full_length_sequences):,}" if isinstance(plan, MemoryPlan) else "not known",
        _first_sentence(head.seen),
        _first_sentence(head.unproven),
    )


def _section(name: str, head: StackHead) -> str:
    planned = f"\nPlanned: {head.planned}\n" if head.planned else ""
    return (
        f"\n## {name}\n\n{head.title}\n\nSeen: {head.seen}\n\nUnproven: {head.unproven}\n{planned}"
    )


def _tokens(plan: MemoryPlan) -> str:
    return f"{'at least ' if plan.is_lower_bound else ''}{plan.cached_tokens:,}"


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".")


#: Labels of a head's paragraphs, in their order; `Planned` only where the planner has a plan.
SEEN, UNPROVEN, PLANNED = "Seen", "Unproven", "Planned"

_PARAGRAPH = re.compile(r"(Seen|Unproven|Planned): (.*)")


@dataclass(frozen=True, slots=True)
class StackHead:
    """The head of a stack file, unwrapped.

    Attributes:
        title: what the stack serves, and on what.
        seen: what was seen of it: by whom, where, when.
        unproven: what nobody has seen.
        planned: what the planner says of its memory; empty without a plan.
    """

    title: str
    seen: str
    unproven: str
    planned: str = ""


def stack_head(text: str) -> StackHead:
    """The head of the stack file ``text``.

    A paragraph begins with its label, and its other lines are indented:

        # Title.
        #
        # Seen: what was seen.
        #   More of it.

    Raises:
        ValueError: there is no title, or a paragraph is missing.
    """
    title, parts, current = "", {SEEN: "", UNPROVEN: "", PLANNED: ""}, ""
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comment = line.removeprefix("#").removeprefix(" ")
        if comment.startswith("yaml-language-server"):
            continue
        if begun := _PARAGRAPH.match(comment):
            current, words = begun.groups()
            parts[current] = words
        elif current and comment.startswith("  "):
            parts[current] += f" {comment.strip()}"
        else:
            current = ""
            title = title or comment
    if not (title and parts[SEEN] and parts[UNPROVEN]):
        raise ValueError("write a title, and paragraphs that begin with Seen: and Unproven:")
    return StackHead(title, parts[SEEN], parts[UNPROVEN], parts[PLANNED])
