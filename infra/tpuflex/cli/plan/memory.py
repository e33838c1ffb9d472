"""The steps of `tpuflex memory`: what to plan for, the plan, its bars, figures and verdict."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from tpuflex.cli.plan.memory_choice import MemoryChoice, checkpoint_of, planned
from tpuflex.errors import NotFoundError, SettingsError
from tpuflex.planning.request import NotPlannable
from tpuflex.terminal.memory_bar import memory_bars
from tpuflex.terminal.memory_text import (
    memory_figures,
    memory_title,
    verdict,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.cli.invocation import Invocation
    from tpuflex.planning.memory import MemoryPlan
    from tpuflex.settings.weights_source import GsUrl, HubSource

#: Sentences are wrapped at this column.
_COLUMNS = 96
_BY_NAME = (
    "By what is known of the model's name: its files were not read. `tpuflex memory --model-dir"
    " DIR` reads them."
)


def run_memory(invocation: Invocation, choice: MemoryChoice) -> int:
    """Plan the memory and show the plan.

    Returns:
        The exit code: 0, or that of a wrong stack file if it does not fit.

    Raises:
        NotFoundError: the stack, the model or the accelerator type is not known, or something that
            the plan needs.
    """
    plan, files = planned(invocation, choice)
    if isinstance(plan, NotPlannable):
        raise NotFoundError(f"There is no memory plan: {plan.reason}.")
    invocation.output.document(plan.to_json())
    _show(invocation, plan)
    if choice.model is None:
        invocation.output.result(
            fill(_BY_NAME if files is None else f"By the files of {files.where}.", _COLUMNS)
        )
    return 0 if plan.fits else SettingsError.exit_code


def show_row(invocation: Invocation, checkpoint: Path | GsUrl | HubSource) -> int:
    """Print the row of the catalog that ``checkpoint`` makes.

    Returns:
        The exit code, 0.

    Raises:
        TpuflexError: it cannot be read, or is not known.
    """
    import yaml

    row = checkpoint_of(invocation, checkpoint).model
    document = {"models": [row.model_dump(mode="json", exclude_defaults=True)]}
    invocation.output.document(document)
    invocation.output.result(yaml.safe_dump(document, sort_keys=False).rstrip())
    return 0


def _show(invocation: Invocation, plan: MemoryPlan) -> None:
    output = invocation.output
    output.heading(memory_title(plan))
    output.drawing(lambda width, plain: memory_bars(plan, width=width, plain=plain))
    output.result()
    output.table(("FIGURE", "VALUE", "MEANING"), memory_figures(plan))
    output.result()
    output.heading(f"Verdict: {verdict(plan)}")
    for remark in (*plan.problems, *plan.concerns):
        output.result(f"  {remark.key}")
        for sentence in filter(None, (f"{remark.what}.", remark.nearest)):
            output.result(fill(sentence, _COLUMNS, initial_indent="    ", subsequent_indent="    "))
    for kind, source in plan.row_sources.items():
        if source.own:
            output.result(f"By your own word: {kind} from {source.text}")
