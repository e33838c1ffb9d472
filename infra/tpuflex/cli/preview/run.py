"""The steps of `tpuflex preview`: plan, what runs now, what was before, and how it is shown."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.cli.preview.comment import failure_markdown, preview_markdown
from tpuflex.deploy.base_commit import BaseCommit, StackChange, key_changes
from tpuflex.deploy.before_chips import foresee
from tpuflex.deploy.ownership import require_free_names
from tpuflex.deploy.plan import StackPlan
from tpuflex.deploy.policy import require_allowed, require_present_waivers
from tpuflex.deploy.preview_report import (
    Base,
    PreviewReport,
    Run,
    asked_for,
    away,
    running,
    slice_step,
)
from tpuflex.deploy.stack_run import StackRun
from tpuflex.engine.plan_digest import plan_digest
from tpuflex.errors import AccessError, ApiError, NotFoundError, SettingsError, TpuflexError
from tpuflex.operate.slice import slice_status
from tpuflex.planning.cost import run_cost
from tpuflex.settings.load import load_stack_file
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack, open_stack
from tpuflex.weights.known_files import planned_by_files

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.terminal.output import Output

#: In place of a file: standard output.
STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """What a preview is asked for.

    Attributes:
        markdown: the file for the comment, ``-`` for standard output, or empty for none.
        base: the Git reference that the change is compared with, or empty.
    """

    markdown: str = ""
    base: str = ""


def run_preview(invocation: Invocation, options: PreviewOptions) -> None:
    """Show what ``up`` would do, and what it would cost.

    Raises:
        PolicyError: the plan breaks a rule; it was shown all the same.
        TpuflexError: there is no preview; the comment says why.
    """
    try:
        report = _report(invocation, options)
    except TpuflexError as error:
        if options.markdown:
            name = _project_name(invocation)
            _write(invocation, options, failure_markdown(name, invocation.stack, error))
        raise
    if options.markdown:
        _write(invocation, options, preview_markdown(report))
    invocation.output.document(report.to_json())
    if options.markdown != STANDARD_OUTPUT:
        show(report, invocation.output)
    require_allowed(report.plan.policy)


def show(report: PreviewReport, output: Output) -> None:
    """Print the plan, and what could not be looked at."""
    report.plan.show(output)
    if report.foreseen:
        where = ", in this rehearsal" if report.rehearsed else ""
        output.heading(f"Before it requests chips{where}, `up`")
        output.facts(report.foreseen.facts())
        output.result()
    if report.unread:
        output.progress(f"  warning  what runs now is not known: {report.unread}")


def _project_name(invocation: Invocation) -> str:
    try:
        return invocation.project.name
    except TpuflexError:
        return ""  # the comment has to say that there is none


def _write(invocation: Invocation, options: PreviewOptions, text: str) -> None:
    if options.markdown == STANDARD_OUTPUT:
        invocation.output.result(text.rstrip("\n"))
        return
    try:
        Path(options.markdown).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TpuflexError(
            f"{options.markdown} cannot be written ({error.strerror}).",
            hint="Name another file, or - for standard output: --markdown FILE",
        ) from error


def _report(invocation: Invocation, options: PreviewOptions) -> PreviewReport:
    if not options.base:
        return _planned(invocation, invocation.open_stack(files_later=True), None)
    project = invocation.project
    commit = BaseCommit(project, options.base, invocation.environ)
    change = commit.change_of(invocation.stack)
    with tempfile.TemporaryDirectory(prefix="tpuflex-base-") as directory:
        name = change.other_name if change.change == "renamed" else change.stack
        before = commit.export(Path(directory), name)
        if change.change == "deleted" and before is not None:
            return _left_behind(invocation, before, change, options.base)
        stack = invocation.open_stack(files_later=True)
        return _planned(invocation, stack, _base(options.base, change, before, stack))


def _base(ref: str, change: StackChange, before: Path | None, after: Stack) -> Base:
    settings = None
    if before is not None:
        try:
            settings = load_stack_file(before, deploying=False).settings
        except SettingsError:
            settings = None  # what was wrong before is no business of this change
    keys = key_changes(before, after.file, root=after.project.root)
    return Base(ref, change.change, settings, change.other_name, keys)


def _planned(invocation: Invocation, stack: Stack, base: Base | None) -> PreviewReport:
    require_present_waivers(invocation, stack)
    cloud = planned_by_files(invocation.connect(stack), reading=True)
    stack = cloud.stack
    with plan_only(invocation, cloud) as stack_run:
        plan = stack_run.plan(reader=True)
        require_free_names(cloud, stack_run, plan.plan, invocation.output.progress)
    foreseen = foresee(
        stack_run.preparation,
        plan.plan,
        key_unread=stack_run.key_unread,
    )
    status, unread = _slice(cloud, plan)
    at = cloud.now()
    return PreviewReport(
        stack=stack.name,
        project=stack.project.name,
        plan=plan,
        digest=plan_digest(plan.plan),
        at=at,
        after=asked_for(stack.settings, at),
        now=_now(stack, plan, status),
        unread=unread,
        away=away(stack.settings, plan.plan, status),
        base=base,
        rehearsed=stack.rehearsed,
        foreseen=foreseen,
    )


def _left_behind(
    invocation: Invocation, file: Path, change: StackChange, ref: str
) -> PreviewReport:
    """What a deleted stack file leaves behind: all that its state has."""
    stack = open_stack(
        invocation.project,
        change.stack,
        file=file,
        deploying=False,
        rehearsing=invocation.rehearsing,
    )
    cloud = invocation.connect(stack)
    with plan_only(invocation, cloud) as stack_run:
        engine_plan = stack_run.engine.preview_destroy()
    plan = StackPlan(stack, engine_plan, run_cost(stack.settings))
    status, unread = _slice(cloud, plan)
    return PreviewReport(
        stack=stack.name,
        project=stack.project.name,
        plan=plan,
        digest=plan_digest(engine_plan),
        at=cloud.now(),
        after=None,
        now=_now(stack, plan, status),
        unread=unread,
        base=Base(ref, "deleted", stack.settings, change.other_name),
        rehearsed=stack.rehearsed,
    )


@contextmanager
def plan_only(invocation: Invocation, cloud: Connection) -> Iterator[StackRun]:
    """The engine on the stack of ``cloud``, which the backend may not know and does not get to
    know: then the plan is made with an empty state that goes away with it, so that somebody who may
    only read the backend can plan a new stack.

    Raises:
        EngineError: the backend refuses.
    """
    stack = cloud.stack
    stack_run = StackRun(cloud, invocation.report)
    with _as_it_was(stack.project.stacks / f"Pulumi.{stack.name}.yaml"):
        if stack_run.engine.exists():
            yield stack_run
            return
        with tempfile.TemporaryDirectory(prefix="tpuflex-plan-") as directory:
            environ = {key: value for key, value in cloud.environ.items() if key not in _BACKEND}
            environ["PULUMI_BACKEND_URL"] = f"file://{directory}"
            if "PULUMI_CONFIG_PASSPHRASE_FILE" not in environ:
                # Nothing of a plan is kept; a stack file with a salt still wants its passphrase.
                environ.setdefault("PULUMI_CONFIG_PASSPHRASE", "")
            yield StackRun(replace(cloud, environ=environ), invocation.report)


@contextmanager
def _as_it_was(file: Path) -> Iterator[None]:
    """Leave a stack file as it is, or away: the engine writes the salt of a passphrase to one that
    has none."""
    text = file.read_bytes() if file.is_file() else None
    try:
        yield
    finally:
        if text is None:
            file.unlink(missing_ok=True)
        elif file.read_bytes() != text:
            file.write_bytes(text)


_BACKEND = ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN")


def _slice(cloud: Connection, plan: StackPlan) -> tuple[SliceStatus | None, str]:
    """The slice that exists, and why it cannot be told whether there is one."""
    step = slice_step(plan.plan)
    zones = step.before.get("zones") if step is not None else None
    known = [str(zone) for zone in zones] if isinstance(zones, list) else []
    stack = cloud.stack
    try:
        status = slice_status(
            stack.settings,
            stack.names,
            cloud.tpu,
            now=cloud.now(),
            recorded=lambda: known,
        )
    except NotFoundError:
        return None, ""
    except (AccessError, ApiError) as error:
        return None, error.message
    return status, ""


def _now(stack: Stack, plan: StackPlan, status: SliceStatus | None) -> Run | None:
    step = slice_step(plan.plan)
    if status is None:
        return None
    return running(stack.settings, status, step.before if step is not None else {})
