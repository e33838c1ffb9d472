"""What `tpuflex preview` compares, and how it shows it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.cli.preview.comment import failure_markdown, preview_markdown
from tpuflex.cli.stack_plan import show_plan
from tpuflex.deploy.base_commit import Base, BaseCommit, base_of
from tpuflex.deploy.policy import require_allowed
from tpuflex.deploy.stack_preview import Preview, preview, require_as_planned
from tpuflex.errors import TpuflexError
from tpuflex.stack.stack import read_stack

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.before_chips import BeforeChips
    from tpuflex.terminal.output import Output

#: In place of a file: standard output.
STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """What a preview is asked for.

    Attributes:
        markdown: the file for the comment, ``-`` for standard output, or empty for none.
        base: the Git reference that the change is compared with, or empty.
        refresh: whether all is compared with the cloud first.
        exit_code: whether it is an error that something is not as planned.
        new_host: whether it is of an `up` with that option.
    """

    markdown: str = ""
    base: str = ""
    refresh: bool = False
    exit_code: bool = False
    new_host: bool = False


def run_preview(invocation: Invocation, options: PreviewOptions) -> None:
    """Show what ``up`` would do, and what it would cost.

    Raises:
        PolicyError: the plan breaks a rule; it was shown all the same.
        NotAsPlannedError: so it is with a plan that is to have nothing to do.
        TpuflexError: there is no preview; the comment says why.
    """
    try:
        found = _preview(invocation, options)
    except TpuflexError as error:
        if options.markdown:
            name = _project_name(invocation)
            _write(invocation, options, failure_markdown(name, invocation.stack, error))
        raise
    if options.markdown:
        _write(invocation, options, preview_markdown(found))
    invocation.output.document(found.to_json())
    if options.markdown != STANDARD_OUTPUT:
        show(found, invocation.output)
    require_allowed(found.plan.policy)
    if options.exit_code:
        require_as_planned(found)


def show(found: Preview, output: Output) -> None:
    """Print the plan, and what could not be looked at."""
    show_plan(output, found.plan)
    if found.before_chips:
        where = ", in this rehearsal" if found.rehearsed else ""
        output.heading(f"Before it requests chips{where}, `up`")
        output.facts(_before_chips(found.before_chips))
        output.result()
    if found.unread:
        output.progress(f"  warning  what runs now is not known: {found.unread}")


def _before_chips(found: BeforeChips) -> Iterator[tuple[str, str]]:
    """What `up` does, or refuses, before it requests chips: what each is, and the text."""
    for text in found.does:
        yield "does", text
    for error in found.refuses:
        yield "refuses", str(error)
    for text in found.unchecked:
        yield "not checked", text


def _project_name(invocation: Invocation) -> str:
    try:
        return invocation.project.name
    except TpuflexError:
        return ""  # the comment has to say that there is none


def _write(invocation: Invocation, options: PreviewOptions, text: str) -> None:
    if options.markdown == STANDARD_OUTPUT:
        invocation.output.verbatim(text.rstrip("\n"))
        return
    try:
        Path(options.markdown).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TpuflexError(
            f"{options.markdown} cannot be written ({error.strerror}).",
            hint="Name another file, or - for standard output: --markdown FILE",
        ) from error


def _preview(invocation: Invocation, options: PreviewOptions) -> Preview:
    """The preview of the stack, compared with a Git reference if one is given."""
    ref, refresh, new_host = options.base, options.refresh, options.new_host
    report = invocation.report
    if not ref:
        cloud = invocation.connect(invocation.open_stack(files_later=True))
        return preview(cloud, report, refresh=refresh, new_host=new_host)
    project = invocation.project
    commit = BaseCommit(project, ref, invocation.environ)
    change = commit.change_of(invocation.stack)
    with tempfile.TemporaryDirectory(prefix="tpuflex-base-") as directory:
        before = commit.export(Path(directory), change.name_before)
        if change.change == "deleted" and before is not None:
            stack = read_stack(
                project,
                change.stack,
                file=before,
                deploying=False,
                rehearsing=invocation.rehearsing,
            )
            base = Base(ref, "deleted", stack.settings, change.other_name)
        else:
            stack = invocation.open_stack(files_later=True)
            base = base_of(ref, change, before, stack)
        cloud = invocation.connect(stack)
        return preview(cloud, report, base=base, refresh=refresh, new_host=new_host)
