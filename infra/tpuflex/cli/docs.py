"""`tpuflex docs`: a section of the manual in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _anchors(
    _ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    from tpuflex.terminal.manual import sections

    found = (each for each in sections() if each.anchor.startswith(typed))
    return [CompletionItem(each.anchor, help=each.title) for each in found]


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex docs  # what there is",
        "tpuflex docs troubleshooting#codes-of-a-host",
        "tpuflex docs renewal | less",
    ),
)
@click.argument("anchor", required=False, shell_complete=_anchors)
@as_json
@pass_invocation
def docs(invocation: Invocation, anchor: str | None) -> None:
    """Show a page of the manual, or a section of one.

    ANCHOR is PAGE or PAGE#SECTION; without it, all of them are listed. The pages are those of
    this version, and no network is needed. Errors name the section that says more. Exit code 4:
    there is no such section.
    """
    from tpuflex.terminal.manual import rendered, section, sections

    output = invocation.output
    if anchor is None:
        found = sections()
        for each in found:
            page = "#" not in each.anchor
            output.result(f"{each.anchor}: {each.title}" if page else f"  {each.anchor}")
        output.document([{"anchor": each.anchor, "title": each.title} for each in found])
        return
    shown = section(anchor)
    output.page(rendered(shown))
    output.document(shown.to_json())
