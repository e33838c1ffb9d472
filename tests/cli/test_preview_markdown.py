"""The comment on a change: what it says of each kind of change, and that nothing in it can act."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.cli.samples import status
from tests.cli.typing import NOON, Captured
from tests.goldens.golden_texts import assert_golden
from tests.unit.stack_sections import sections
from tpuflex.advice import Advice
from tpuflex.cli.preview.comment import LIMIT, failure_markdown, marker, preview_markdown
from tpuflex.cli.preview.run import show
from tpuflex.deploy.base_commit import Base, KeyChange
from tpuflex.deploy.plan import StackPlan
from tpuflex.deploy.stack_preview import Interruption, Preview, asked_for, interruption_of, running
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.errors import EngineError
from tpuflex.host.report import AT_ONCE, PHASES, HostReport
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.planning.cost import run_cost
from tpuflex.policy.rows import RULES
from tpuflex.policy.violations import PolicyReport, Violation, WaivedBy
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.settings.load import parse
from tpuflex.settings.model import StackSettings
from tpuflex.stack.stack import Stack
from tpuflex.terminal.markdown import alert, code, code_block, table
from tpuflex.terminal.output import Output

_BEFORE = {
    "acceleratorType": "v6e-1",
    "zones": ["us-east5-a"],
    "maxRunDuration": "14400s",
    "queuedResourceId": "tpuflex-dev-vllm-g1",
}
#: What somebody might write to act on those who read it.
HOSTILE = (
    "@org/team",
    "#1",
    "`` ` ``",
    "|",
    "](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "<img src=https://evil.example/x.png>",
    "<!-- ",
    "-->",
    "\n\n# Approved",
    "\n```\n",
    "\x1b[2J",
    "\u202e",
    "https://evil.example",
    "</details>",
    "$(touch x)",
    "${{ secrets.X }}",
    "\\",
    "&#64;org",
    "www.evil.example",
)


@pytest.fixture
def settings() -> StackSettings:
    """A stack on Google, four chips."""
    return parse(sections({"slice.accelerator_type": "v6e-4"}), "test")


@pytest.fixture
def google(stack: Stack, settings: StackSettings) -> Stack:
    """That stack, opened."""
    return replace(stack, name="chat", settings=settings)


def of(stack: Stack, *steps: Step, **changes: Any) -> Preview:
    """A report about ``steps``."""
    plan = EnginePlan(steps)
    facts: dict[str, Any] = {
        "stack": stack.name,
        "project": "acme",
        "plan": StackPlan(stack, plan, run_cost(stack.settings)),
        "digest": plan.digest,
        "at": NOON,
        "after": asked_for(stack.settings, NOON),
        **changes,
    }
    return Preview(**facts)


def slice_(operation: str, **changes: Any) -> Step:
    return Step(operation, QUEUED_RESOURCE, "vllm", "urn:vllm", before=_BEFORE, **changes)


def create(name: str, kind: str = "gcp:storage/bucket:Bucket") -> Step:
    return Step("create", kind, name, f"urn:{kind}::{name}")


def served() -> Any:
    """A slice that serves since half an hour, with a boot of eight minutes and no warm-up."""
    begin = (NOON - timedelta(minutes=29)).timestamp()
    phases = [phase for phase in PHASES if phase not in ("fetch", "warmup")]
    timeline = {phase: begin + 60.0 * number for number, phase in enumerate(phases)}
    ended = {phase: timeline[phase] + 60.0 for phase in AT_ONCE}
    host = HostReport("READY", timeline=timeline, ended=ended)
    return status(created=NOON - timedelta(minutes=75), host=host)


def replaced(google: Stack, **changes: Any) -> Preview:
    """A report about more chips for a stack that serves."""
    step = slice_("replace", replaced_for=("acceleratorType", "queuedResourceId"), **changes)
    plan, now = EnginePlan((step,)), served()
    before = parse(sections({"slice.accelerator_type": "v6e-1"}), "test")
    keys = (KeyChange("tpuflex:slice.accelerator_type", "v6e-1", "v6e-4"),)
    return of(
        google,
        step,
        now=running(google.settings, now, _BEFORE),
        away=interruption_of(google.settings, plan, now),
        base=Base("origin/main", "changed", before, "", keys),
    )


# -- each kind of change -------------------------------------------------------------------------


def test_a_new_stack(google: Stack) -> None:
    """A new stack: all that is added, what it costs, when it would end."""
    base = Base("origin/main", "added")

    assert_golden(
        "preview/new.md",
        preview_markdown(of(google, create("weights"), slice_("create"), base=base)),
    )


def test_a_stack_that_is_resized(google: Stack) -> None:
    """An ACTIVE endpoint that would be replaced stands out, with how long it would be away, and
    what runs now, what was asked for and what is asked for now are priced side by side."""
    assert_golden("preview/resized.md", preview_markdown(replaced(google)))


def test_a_slice_that_is_deleted_first(google: Stack) -> None:
    """An endpoint that is deleted before the next one is granted is away for the queue, too."""
    shown = preview_markdown(replaced(google, deleted_first=True))

    assert (
        "It is deleted **first**, and away for as long as the next one waits for capacity (this one"
        " waited 45 min); nothing bounds that wait: `give_up_after` would. Then for as long as the"
        " host boots (this one took 8 min, by its own report)."
    ) in shown


def test_a_slice_that_does_not_serve_is_no_outage(google: Stack) -> None:
    """What is in the queue is replaced without alarm."""
    plan = EnginePlan((slice_("replace"),))

    assert interruption_of(google.settings, plan, status(lifecycle=Lifecycle.WAITING)) is None
    assert interruption_of(google.settings, EnginePlan((slice_("update"),)), status()) is None
    assert "CAUTION" not in preview_markdown(of(google, slice_("replace")))


def test_a_slice_that_is_taken_away(google: Stack) -> None:
    """An endpoint that nothing replaces is said to be gone."""
    gone = interruption_of(google.settings, EnginePlan((slice_("delete"),)), served())

    assert isinstance(gone, Interruption)
    shown = preview_markdown(of(google, slice_("delete"), away=gone))
    assert "**An ACTIVE endpoint is deleted**, and nothing takes its place." in shown


def test_a_stack_that_is_renamed(google: Stack) -> None:
    """A renamed stack is another endpoint, and says what becomes of the old one."""
    base = Base("origin/main", "renamed", google.settings, "old-chat")

    assert_golden("preview/renamed.md", preview_markdown(of(google, slice_("create"), base=base)))


def test_a_stack_file_that_is_deleted(google: Stack) -> None:
    """A deleted stack file deletes nothing in the cloud: what stays, and what it costs."""
    base = Base("origin/main", "deleted", google.settings)
    left = of(
        google,
        slice_("delete"),
        after=None,
        base=base,
        now=running(google.settings, served(), _BEFORE),
    )

    assert_golden("preview/deleted.md", preview_markdown(left))
    nothing = preview_markdown(of(google, after=None, base=base))
    assert "The stack file is deleted, and nothing of the stack is left." in nothing


def test_a_secret_that_is_rotated(google: Stack) -> None:
    """A rotated secret: the key of the stack file, and the slice that changes in place."""
    keys = (KeyChange("tpuflex:secrets.api_key_version", "1", "2"),)
    base = Base("origin/main", "changed", google.settings, "", keys)

    shown = preview_markdown(of(google, slice_("update", changed=("metadata",)), base=base))

    assert_golden("preview/rotated.md", shown)


def test_a_preview_that_fails(google: Stack) -> None:
    """The comment about a failure takes the place of the one before: same marker, what to do."""
    error = EngineError("The engine says: ```\n@org look", hint=Advice("Run: {recover}"))

    shown = failure_markdown("acme", "chat", error)

    assert shown == (
        f"{marker('acme', 'chat')}\n\n"
        "### tpuflex preview of `chat`\n\n"
        "> [!CAUTION]\n> **There is no preview: it failed.**\n\n"
        "```text\nThe engine says: \\x60\\x60\\x60\n@org look\n```\n\n"
        "What to do:\n\n```text\nRun: tpuflex recover --stack chat\n```\n"
    )
    assert preview_markdown(of(google)).startswith(f"{marker('acme', 'chat')}\n")


# -- its size, and its safety --------------------------------------------------------------------


def test_what_cannot_be_read_is_said_in_a_terminal(google: Stack, capsys: Captured) -> None:
    """Only the comment told it: in a terminal, the preview passed for that of a new stack."""
    output, denied = Output(json=False, verbose=False), "403: Permission 'tpu.nodes.list' denied"

    show(of(google, slice_("create"), unread=denied), output)
    assert f"warning  what runs now is not known: {denied}" in capsys.readouterr().err
    show(of(google, slice_("create")), output)
    assert "not known" not in capsys.readouterr().err


def test_a_long_plan_is_cut(google: Stack) -> None:
    """However many resources, the comment stays below GitHub's limit, shows what is lost first,
    and says how many are left out."""
    steps = [create("€" * 300 + str(number)) for number in range(2000)]

    shown = preview_markdown(of(google, *steps, slice_("replace")))

    assert len(shown.encode()) <= LIMIT < 65_536
    rows = [line for line in shown.splitlines() if line.startswith("| **replace**")]
    assert len(rows) == 1
    assert shown.index(rows[0]) < shown.index("| add |")
    assert "more: `tpuflex preview --stack chat --verbose` lists them." in shown


def rendered(text: str) -> list[Token]:
    """Every token of ``text``, as a renderer of GitHub's Markdown reads it."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

    def flat(tokens: list[Token]) -> Iterator[Token]:
        for token in tokens:
            yield token
            yield from flat(token.children or [])

    return list(flat(parser.parse(text)))


def outside_of_code(text: str) -> str:
    """All words of ``text`` that a renderer may act on: mentions, references and bare links."""
    return "\n".join(token.content for token in rendered(text) if token.type == "text")


def structure(text: str) -> list[str]:
    """What ``text`` consists of, without its words."""
    return [f"{token.type} {token.tag}" for token in rendered(text)]


@given(st.text() | st.lists(st.sampled_from(HOSTILE)).map("".join))
def test_a_foreign_text_stays_in_its_place(text: str) -> None:
    """Whatever a text holds, it changes neither the structure of a comment nor what is outside of
    code."""
    harmless = "x" if code(text) != "none" else ""

    def comment(foreign: str) -> str:
        cells = table(("a", "b"), [(code(foreign), "c"), ("d", code(foreign))])
        box = alert("NOTE", f"See {code(foreign)}.", "Next.")
        return "\n\n".join((f"### Of {code(foreign)}", box, cells, code_block(foreign), "End"))

    assert structure(comment(text)) == structure(comment(harmless))
    assert outside_of_code(comment(text)) == outside_of_code(comment(harmless))


def test_a_hostile_stack(google: Stack) -> None:
    """Mentions, links, images, HTML and terminal escapes in names, keys and values stay words."""
    evil = "".join(HOSTILE)
    step = Step("replace", evil, evil, "urn:x", replaced_for=(evil,), changed=(evil,))
    keys = tuple(KeyChange(f"tpuflex:{text}", text, text * 99) for text in HOSTILE)
    base = Base(evil, "renamed", None, evil, keys)
    stack = replace(google, name=evil)

    shown = preview_markdown(of(stack, step, base=base, unread=evil, rehearsed=True))

    assert_golden("preview/hostile.md", shown)
    kinds = {token.type for token in rendered(shown)}
    assert not kinds & {"image", "link_open"}
    html = [token.content for token in rendered(shown) if token.type.startswith("html")]
    assert set(html) <= {"<sub>", "</sub>", f"{marker('acme', evil)}\n"}
    for word in ("@org", "evil.example", "#1"):
        assert word not in outside_of_code(shown)
    assert "\x1b" not in shown
    assert "\u202e" not in shown


# -- the digest ----------------------------------------------------------------------------------


def test_the_digest_is_that_of_what_would_be_done() -> None:
    """The same steps in another order have the same digest; another input, another state, another
    operation or another order of a replacement has not, and what stays as it is does not count."""
    one, other = create("a"), slice_("replace", inputs={"zones": ["us-east5-a"]})
    known = EnginePlan((one, other)).digest

    assert EnginePlan((other, one, replace(create("b"), operation="same"))).digest == known
    changed = (
        replace(other, inputs={"zones": ["us-east5-b"]}),
        replace(other, before={}),
        replace(other, operation="update"),
        replace(other, deleted_first=True),
    )
    digests = {EnginePlan((one, each)).digest for each in changed}
    assert len(digests) == len(changed)
    assert known not in digests


def test_which_comes_first_of_a_replacement() -> None:
    """A plan knows whether what it replaces is deleted before or after its successor is there."""
    made, gone = slice_("create-replacement"), slice_("delete-replaced")

    (after,) = EnginePlan.of((made, slice_("replace"), gone)).steps
    (before,) = EnginePlan.of((gone, slice_("replace"), made)).steps

    assert (after.operation, after.deleted_first) == ("replace", False)
    assert (before.operation, before.deleted_first) == ("replace", True)


@pytest.mark.parametrize(
    ("stays", "row"),
    [
        ("update", "change, and **delete** of what was replaced earlier"),
        ("same", "**delete** of what was replaced earlier"),
    ],
)
def test_what_is_left_of_an_earlier_replacement(google: Stack, stays: str, row: str) -> None:
    """What an earlier `up` has replaced is deleted with what stays: that is no replacement, and is
    said, because it is billed until then."""
    looks = (slice_("refresh"), slice_("refresh"))
    gone = slice_("delete-replaced")

    (step,) = EnginePlan.of((*looks, slice_(stays), gone)).steps

    assert (step.operation, step.ends_replaced, step.changes) == (stays, True, True)
    text = preview_markdown(of(google, step))
    assert "1 to delete" in text
    assert f"| {row} |" in text
    assert "which is billed until then, is deleted as soon as this one serves." in text


def test_a_replacement_beside_what_is_left_of_an_earlier_one() -> None:
    """Another word for `rerun` while a successor does not serve: that is deleted first, and the one
    that serves at the end."""
    gone = slice_("delete-replaced")

    (step,) = EnginePlan.of((gone, slice_("replace"), slice_("create-replacement"), gone)).steps

    assert (step.operation, step.deleted_first) == ("replace", True)


def test_findings_of_policy(google: Stack) -> None:
    """What policy refuses stands first, beside what is waived, with no text of it acting."""
    rule = RULES[0]
    until = date(2026, 12, 31)
    refused = Violation(rule, "it has @org an address | x", "Remove it.", "vllm", QUEUED_RESOURCE)
    waived = replace(refused, waived=WaivedBy("tried @team", until))
    plan = EnginePlan((slice_("create"),))
    judged = StackPlan(
        google,
        plan,
        run_cost(google.settings),
        policy=PolicyReport.of((waived, refused), ("idle one",)),
    )

    shown = preview_markdown(of(google, slice_("create"), plan=judged))

    rows = [line for line in shown.splitlines() if "vllm (" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| **refused**", "| waived"]
    assert "Policy: `idle one`" in shown
    assert "@org" not in outside_of_code(shown)
    assert "@team" not in outside_of_code(shown)
