"""What `tpuflex memory` prints: the plan, its bars, figures and verdict; or a catalog's row."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from tpuflex.errors import SettingsError
from tpuflex.terminal.memory_bar import memory_bars
from tpuflex.terminal.memory_text import memory_figures, memory_title, verdict

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Model
    from tpuflex.planning.memory import MemoryPlan
    from tpuflex.sizing import MemoryReport
    from tpuflex.terminal.output import Output

#: Sentences are wrapped at this column.
_COLUMNS = 96
_BY_NAME = (
    "By what is known of the model's name: its files were not read. `tpuflex memory --model-dir"
    " DIR` reads them."
)


def show_memory(output: Output, report: MemoryReport, *, chosen_by_name: bool) -> int:
    """Show the plan.

    Returns:
        The exit code: 0, or that of a wrong stack file if it does not fit.
    """
    plan, files = report.plan, report.files
    output.document(report.to_json())
    _show(output, plan)
    if not chosen_by_name:
        output.result(
            fill(_BY_NAME if files is None else f"By the files of {files.where}.", _COLUMNS)
        )
    return 0 if plan.fits else SettingsError.exit_code


def show_row(output: Output, row: Model) -> None:
    """Print ``row`` as a catalog.yaml has it."""
    import yaml

    document = {"models": [row.model_dump(mode="json", exclude_defaults=True)]}
    output.document(document)
    output.result(yaml.safe_dump(document, sort_keys=False).rstrip())


def _show(output: Output, plan: MemoryPlan) -> None:
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
