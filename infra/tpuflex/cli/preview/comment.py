"""A preview as the comment on a change: Markdown of bounded size, in which no foreign text acts.

Its first line is an invisible marker, by which the comment of the same stack is found and
rewritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.cli.stack_plan import memory_line
from tpuflex.deploy.before_chips import NOTHING_BEFORE, BeforeChips
from tpuflex.deploy.plan import ENDS_REPLACED, is_continued, replaced_secret_texts, slice_step
from tpuflex.deploy.stack_preview import Interruption, Preview, Run
from tpuflex.duration import format_duration, format_roughly
from tpuflex.naming import digest
from tpuflex.planning.stack import plan_stack
from tpuflex.queued_resource.outcomes import PREVIEWS
from tpuflex.settings.rules import warnings
from tpuflex.terminal.markdown import NONE, alert, code, code_block, table
from tpuflex.weights.known_files import planned_by

if TYPE_CHECKING:
    from tpuflex.engine.events import Step
    from tpuflex.errors import TpuflexError

#: Bytes of a comment. GitHub takes 65,536 characters, GitLab 1,000,000
#: (https://docs.gitlab.com/administration/instance_limits/), and rows that a script adds count too.
LIMIT = 60_000
#: Rows of a table other than that of the resources.
_ROWS = 30
#: Rows of a list of what `up` does before it requests chips, letters of one, and of a refusal with
#: what to do about it.
_STEPS, _LONGEST, _LONGEST_REFUSAL = 8, 300, 1_000
#: What is lost stands first; what is only added, last.
_ORDER = {"replace": 0, "delete": 1, "update": 2, "create": 3}
_WORDS = {"replace": "**replace**", "delete": "**delete**", "update": "change", "create": "add"}
_REHEARSED = (
    "**Made without credentials, on the embedded cloud.** All of it is new there: what runs on"
    " Google, and what would be changed or replaced there, is not known.",
)
#: What happens to the slice. For which inputs, the table of resources says.
_SLICE = {action.value: text for action, text in PREVIEWS.items()}
_WHERE = "chips only: storage, DNS zones or NAT, and traffic come on top"


def marker(project: str, stack: str) -> str:
    """The first line of the comment about ``stack``, the same for every change of it."""
    return f"<!-- tpuflex preview {digest(project, stack)} -->"


def preview_markdown(report: Preview) -> str:
    """The comment about ``report``, at most :data:`LIMIT` bytes of UTF-8."""
    before = [marker(report.project, report.stack), f"### tpuflex preview of {code(report.stack)}"]
    before += _alerts(report)
    # Of an empty cloud that stands in for Google's it would say nothing about this change.
    before_chips = NOTHING_BEFORE if report.rehearsed else report.before_chips
    before += _refusals(before_chips)
    before += _drift(report)
    before.append(_summary(report))
    before += _before_chips(before_chips)
    after = [*_keys(report), _money(report), *_policy(report), *_memory(report)]
    after += [*_warnings(report), _end(report)]
    taken = sum(len(part.encode()) + 2 for part in (*before, *after))
    return "\n\n".join([*before, *_resources(report, LIMIT - taken), *after]) + "\n"


def failure_markdown(project: str, stack: str, error: TpuflexError) -> str:
    """The comment about a preview that failed with ``error``."""
    advice = error.hint.for_stack(stack, os.environ)
    hint = [f"What to do:\n\n{code_block(advice)}"] if advice else []
    parts = [
        marker(project, stack),
        f"### tpuflex preview of {code(stack)}",
        alert("CAUTION", "**There is no preview: it failed.**"),
        code_block(error.message),
        *hint,
    ]
    return "\n\n".join(parts) + "\n"


# -- what stands out ---------------------------------------------------------------------------


def _alerts(report: Preview) -> Iterator[str]:
    if report.rehearsed:
        yield alert("NOTE", *_REHEARSED)
    if report.deleted:
        yield _deleted(report)
    elif report.away is not None:
        kind = "IMPORTANT" if report.away.hands_over else "CAUTION"
        yield alert(kind, *_away(report.away, report.at))
    if report.base is not None and report.base.change == "renamed" and not report.deleted:
        yield alert(
            "WARNING",
            f"**Renamed from {code(report.base.other_name)}.** Names come from the stack's name, so"
            " this is another endpoint: nothing moves over, and the old one stays until"
            " `tpuflex down`.",
        )
    for text in (
        () if report.deleted else replaced_secret_texts(report.plan.stack, report.plan.plan)
    ):
        yield alert("WARNING", code(text, longest=400))
    if report.unread:
        yield alert("WARNING", f"What runs now is not known: {code(report.unread)}")


def _deleted(report: Preview) -> str:
    count = len(report.plan.plan.resources)
    if not count:
        return alert("NOTE", "The stack file is deleted, and nothing of the stack is left.")
    base = report.base
    renamed = base is not None and base.other_name
    what = f"renamed to {code(base.other_name)}" if base and renamed else "deleted"
    lines = [
        f"**The stack file is {what}, but what it made is not.** {_counted(count)} will stay"
        " that no stack file describes."
    ]
    if report.now is not None and report.now.granted:
        lines.append(f"The slice is billed until {_moment(report.now.ends)}.")
    lines.append("Take the stack down before this is merged: `tpuflex down --stack` with its name.")
    return alert("CAUTION", *lines)


def _away(lost: Interruption, at: datetime) -> Iterator[str]:
    if lost.for_good:
        yield "**An ACTIVE endpoint is deleted**, and nothing takes its place."
    elif lost.may_stay:
        yield (
            "**An ACTIVE endpoint may be replaced**, if what is not known before the update turns"
            " out to be another than now. Then:"
        )
    elif lost.hands_over:
        yield "**An ACTIVE endpoint is replaced**, and hands over to the next one."
    else:
        yield "**An ACTIVE endpoint is replaced.** Its clients lose it for a while."
    if lost.ends is not None:
        left = format_roughly(max(timedelta(0), lost.ends - at))
        yield f"By itself it would run until {_moment(lost.ends)}, for another {left}."
    if lost.for_good:
        return
    boot = "as long as the host boots"
    if lost.boot is not None:
        boot += f" (this one took {format_roughly(lost.boot)}, by its own report)"
    if lost.hands_over:
        yield (
            "This one serves until the next one does: while that waits in the queue, and for"
            f" {boot}, for which both are billed. It then answers what it has begun, and is"
            " deleted; clients need the new address."
        )
        return
    if not lost.deleted_first:
        yield (
            "It is away **from when capacity for the next one is granted**, for "
            f"{boot}; while the next one waits in the queue, this one serves on."
        )
        return
    queue = "as long as the next one waits for capacity"
    if lost.queue is not None:
        queue += f" (this one waited {format_roughly(lost.queue)})"
    limit = (
        "nothing bounds that wait: `give_up_after` would"
        if lost.give_up_after is None
        else f"given up after {format_duration(lost.give_up_after)}, and then there is none"
    )
    yield f"It is deleted **first**, and away for {queue}; {limit}. Then for {boot}."


def _drift(report: Preview) -> Iterator[str]:
    """What was deleted or changed outside of the stack."""
    drift = report.plan.plan.drift
    if not drift:
        if report.plan.plan.refreshed:
            yield "In the cloud, all is as the state has it."
        return
    rows = [
        (
            f"**{each.word}**" if not each.properties else each.word,
            code(each.type),
            code(each.name),
            ", ".join(code(name, longest=60) for name in each.properties[:8]),
        )
        for each in drift[:_ROWS]
    ]
    shown = table(("", "type", "name", "properties"), rows)
    if rest := len(drift) - len(rows):
        shown += f"\n\n… and {_counted(rest)} more."
    yield alert("WARNING", "**Not in the cloud as the state has it:**")
    yield shown


# -- what is planned ---------------------------------------------------------------------------


def _summary(report: Preview) -> str:
    stack = report.plan.stack
    where = "the embedded cloud"
    if stack.settings.cloud == "google":
        google = f"Google Cloud {code(stack.settings.project)}"
        where = f"{where}, in place of {google}" if stack.rehearsed else google
    if report.deleted:
        return f"On {where}: {_counted(len(report.plan.plan.resources))} left behind."
    lines = [f"On {where}: **{report.plan.changes}**."]
    step = slice_step(report.plan.plan)
    if report.plan.run_over:
        lines.append(f"{report.plan.request}.")
    elif step is not None and step.operation in _SLICE:
        text = _SLICE[step.operation]
        lines.append(f"The slice {text}." if text.startswith(("is ", "stays ")) else f"{text}.")
        if is_continued(step):
            lines.append(f"{ENDS_REPLACED}.")
    return " ".join(f"{line[:1].upper()}{line[1:]}" for line in lines)


def _resources(report: Preview, room: int) -> Iterator[str]:
    """The table of the resources, as far as there is room for it."""
    steps = sorted(
        report.plan.plan.resources,
        key=lambda step: (_rank(step), step.type, step.name),
    )
    if not steps:
        return
    header = ("", "type", "name", "because of" if not report.deleted else "")
    rows: list[Sequence[str]] = []
    room -= 500  # the frame
    for step in steps:
        row = _row(step, deleted=report.deleted)
        room -= len(" | ".join(row).encode()) + 6
        if room < 0:
            break
        rows.append(row)
    rest = len(steps) - len(rows)
    shown = table(header, rows)
    if rest:
        listing = Advice("{preview} --verbose").for_stack(report.stack, os.environ)
        shown += f"\n\n… and {_counted(rest)} more: {code(listing)} lists them."
    if all(step.operation == "create" for step in steps) or report.deleted:
        # One line is enough; the details are one command away.
        yield f"<details><summary>{_counted(len(steps))}</summary>\n\n{shown}\n\n</details>"
    else:
        yield shown


def _rank(step: Step) -> int:
    return _ORDER["delete"] if step.ends_replaced else _ORDER.get(step.operation, 2)


def _row(step: Step, *, deleted: bool) -> tuple[str, ...]:
    word = "left" if deleted else _WORDS.get(step.operation, code(step.operation))
    if step.ends_replaced and not deleted:
        ends = "**delete** of what was replaced earlier"
        word = ends if step.operation == "same" else f"{word}, and {ends}"
    causes = [name for name in step.replaced_for or step.changed if name != "queuedResourceId"]
    shown = ", ".join(code(name, longest=60) for name in causes[:8])
    more = f", {len(causes) - 8} more" if len(causes) > 8 else ""
    return word, code(step.type), code(step.name), f"{shown}{more}"


def _keys(report: Preview) -> Iterator[str]:
    keys = report.base.keys if report.base is not None and not report.deleted else ()
    if not keys or report.base is None:
        return
    rows = [(code(key.key), code(key.before), code(key.after)) for key in keys[:_ROWS]]
    shown = table(("stack file", "before", "after"), rows)
    yield shown + (f"\n\n… and {len(keys) - _ROWS} more keys." if len(keys) > _ROWS else "")


# -- before chips are requested ----------------------------------------------------------------


def _refusals(found: BeforeChips) -> Iterator[str]:
    """What `up` would refuse, each with what to do."""
    if found.refuses:
        yield alert("WARNING", "**`up` would refuse, before it requests chips:**")
    for error in found.refuses[:_STEPS]:
        yield code_block(str(error), longest=_LONGEST_REFUSAL)


def _before_chips(found: BeforeChips) -> Iterator[str]:
    """What `up` would do, and what could not be looked at."""
    for title, texts in (
        ("Before it requests chips, `up`:", found.does),
        ("Not checked:", found.unchecked),
    ):
        if texts:
            rest = [f"- … and {len(texts) - _STEPS} more"] if len(texts) > _STEPS else []
            rows = [f"- {code(text, longest=_LONGEST)}" for text in texts[:_STEPS]]
            yield "\n".join([title, "", *rows, *rest])


# -- what it costs -----------------------------------------------------------------------------


def _money(report: Preview) -> str:
    columns: list[tuple[str, Run | None]] = [("runs now", report.now)]
    if report.base is not None:
        columns.append(("before", report.before))
    columns.append(("after", report.after))
    rows = [
        ("slice", *(_slice(run) for _, run in columns)),
        ("per hour", *(_dollars(run and run.cost.per_hour) for _, run in columns)),
        ("whole run, at most", *(_dollars(run and run.cost.maximum) for _, run in columns)),
        ("ends", *(_ends(run) for _, run in columns)),
    ]
    return f"{table(('cost', *(name for name, _ in columns)), rows)}\n\n<sub>{_WHERE}.</sub>"


def _slice(run: Run | None) -> str:
    if run is None:
        return NONE
    chips = "1 chip" if run.cost.chips == 1 else f"{run.cost.chips} chips"
    zones = " or ".join(code(zone, longest=40) for zone in run.zones[:6])
    return f"{code(run.accelerator_type, longest=40)} ({chips}), {zones}"


def _dollars(amount: object) -> str:
    return NONE if amount is None else f"${amount}"


def _ends(run: Run | None) -> str:
    if run is None:
        return NONE
    if run.granted:
        return _moment(run.ends)
    ends = f"; {_moment(run.ends)} if that were now" if run.ends is not None else ""
    return f"{format_duration(run.duration)} after it is granted{ends}"


# -- the rest ----------------------------------------------------------------------------------


def _policy(report: Preview) -> Iterator[str]:
    """What the rules of policy find, what refuses first."""
    policy = report.plan.policy
    if report.deleted or not (policy.findings or policy.idle):
        return
    rows = []
    for finding in policy.findings[:_ROWS]:
        word = "**refused**" if finding.refuses else "waived" if finding.waived else "advice"
        rows.append((word, code(finding.rule.id), code(str(finding), longest=400)))
    parts = [table(("policy", "rule", "finding"), rows)] if rows else []
    if (rest := len(policy.findings) - len(rows)) > 0:
        parts.append(f"… and {rest} more findings.")
    parts += [f"Policy: {code(text, longest=400)}" for text in policy.idle[:_ROWS]]
    yield "\n\n".join(parts)


def _memory(report: Preview) -> Iterator[str]:
    if report.deleted:
        return
    line = memory_line(plan_stack(report.plan.stack.settings))
    # The line is made of figures, and of a reason that may quote the stack file.
    yield f"Memory: {code(' '.join(line.split()), longest=400)}"
    if files := planned_by(report.plan.stack):
        yield f"Files of the model: {code(files, longest=400)}"


def _warnings(report: Preview) -> Iterator[str]:
    found = [] if report.deleted else [str(each) for each in warnings(report.plan.stack.settings)]
    if found:
        lines = [f"- {code(text, longest=400)}" for text in found[:_ROWS]]
        rest = [f"- … and {len(found) - _ROWS} more"] if len(found) > _ROWS else []
        yield "\n".join(["Warnings:", *lines, *rest])


def _end(report: Preview) -> str:
    at = f"Planned {_moment(report.at)}"
    if report.deleted or report.rehearsed:
        return f"<sub>{at}.</sub>"
    refresh = "--refresh " if report.plan.plan.refreshed else ""
    command = Advice(
        "{up} {refresh}--expect {digest}", refresh=refresh, digest=report.digest
    ).for_stack(report.stack, os.environ)
    return f"<sub>{at}. {code(command)} runs this plan or none.</sub>"


def _counted(count: int) -> str:
    return "1 resource" if count == 1 else f"{count} resources"


def _moment(then: datetime | None) -> str:
    """A time that means the same to every reader."""
    return "not known" if then is None else then.strftime("%Y-%m-%d %H:%M UTC")
