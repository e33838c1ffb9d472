"""What `tpuflex ci …` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.scaffold.workflows import VARIABLES

if TYPE_CHECKING:
    from tpuflex.deploy.workflow_stacks import ChangedStacks, ScheduledStacks
    from tpuflex.scaffold.workflows import WrittenWorkflows
    from tpuflex.terminal.output import Output


def show_changed(output: Output, found: ChangedStacks) -> None:
    """List the stacks that a change touches."""
    output.document(found.to_json())
    if not found.changes:
        output.result("No stack is touched.")
        return
    output.table(
        ("STACK", "FILE", ""),
        [
            (change.stack, change.change, change.other_name and f"renamed: {change.other_name}")
            for change in found.changes
        ],
    )


def show_scheduled(output: Output, found: ScheduledStacks) -> None:
    """List the stacks that a schedule is about."""
    output.document(found.to_json())
    for stack in found.stacks:
        output.result(stack)


def show_workflows(output: Output, written: WrittenWorkflows) -> None:
    """Show what happened to each workflow, and what is left to set up."""
    output.document(written.to_json())
    for path, outcome in written.files.items():
        output.result(f"{outcome:<10} {path}")
    if "written" not in written.files.values():
        return
    output.result("\nThey read variables of the repository, which hold no secret:")
    for name, text in VARIABLES.items():
        output.result(f"  gh variable set {name} --body …    # {text}")
    output.result(
        "\nThen, on GitHub: protect the branch, and make the environment production, with reviewers"
        "\nand for protected branches only (tpuflex docs ci)."
    )
