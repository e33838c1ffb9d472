"""`tpuflex down` and `tpuflex sweep` for many stacks: what is refused, and what is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.samples import status
from tests.cli.typing import NOON, Captured, TypeIn
from tpuflex.advice import Advice
from tpuflex.cli.down.many import show_found, show_results
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy.candidates import Candidate
from tpuflex.deploy.leftovers import Failure
from tpuflex.deploy.many_teardowns import Candidates, ManyDown, Outcome, Result, _agree
from tpuflex.deploy.ownership import Ownership
from tpuflex.deploy.teardown import Planned, Remainder
from tpuflex.deploy.teardown_proof import Keeper, KeptResource
from tpuflex.engine.events import EnginePlan
from tpuflex.errors import IncompleteTeardownError, InterruptedByUser, SettingsError
from tpuflex.inventory.inventory import Inventory, Item
from tpuflex.stack.stack import Stack


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--all", "--stack", "dev"), "--all and --stack contradict each other"),
        (("--all", "--purge-weights"), "--purge-weights works on one stack"),
        (("--older-than", "1h", "--purge-weights"), "--purge-weights works on one stack"),
        (("--label", "team"), "'team' is no label: write KEY=VALUE"),
        (("--label", "=search"), "'=search' is no label"),
        (("--label", "team=a", "--label", "team=b"), "team cannot have two values"),
        (("--older-than", "12"), "'12' is not a duration"),
        (("--older-than", "0h"), "write how long: 30m, 12h, 2d"),
    ],
)
def test_usage(type_in: TypeIn, words: tuple[str, ...], problem: str) -> None:
    """A slip on the command line is refused by name before any stack is looked at."""
    typed = type_in("down", *words)

    assert typed.code == 2
    assert problem in typed.err
    assert typed.out == ""


def test_no_stack_has_a_state(type_in: TypeIn) -> None:
    """Stack files alone are nothing to tear down: no cloud is started for them."""
    typed = type_in("down", "--all")

    assert (typed.code, typed.err) == (0, "")
    assert typed.out == "No stack of this project has a state: there is nothing to tear down.\n"


def test_a_named_stack_without_a_state(type_in: TypeIn) -> None:
    """A condition on one stack looks at that one alone, and says that it is not up."""
    typed = type_in("down", "--stack", "dev", "--older-than", "1h")

    assert typed.code == 4
    assert typed.err == "Error: The stack dev has no state: there is nothing to tear down.\n"


def test_what_cannot_be_opened_is_told(type_in: TypeIn, project: Path) -> None:
    """A state without its stack file, and one whose file is wrong, are in the list with the reason;
    nothing is taken for done."""
    states = project / ".tpuflex" / "backend" / ".pulumi" / "stacks" / "tpuflex"
    states.mkdir(parents=True)
    for stack in ("bad", "lost"):
        (states / f"{stack}.json").write_text("{}")
    (project / "stacks" / "Pulumi.bad.yaml").write_text("config: {tpuflex:cloud: moon}\n")

    typed = type_in("down", "--all", "--yes", "--json")

    outcomes = {each["stack"]: each["outcome"] for each in typed.document["stacks"]}
    errors = {each["stack"]: each["error"]["kind"] for each in typed.document["stacks"]}
    assert typed.code == typed.document["exit_code"] == 5
    assert outcomes == {"bad": "failed", "lost": "failed"}
    assert errors == {"bad": "SettingsError", "lost": "NotFoundError"}
    assert typed.document["not_up"] == ["dev"]


def test_a_sweep_is_of_the_stack_that_is_named(type_in: TypeIn) -> None:
    """One that is not there is an error, and not a list in which nothing is left."""
    typed = type_in("sweep", "--stack", "lost")

    assert typed.code == 4
    assert "There is no stack 'lost'" in typed.err


def test_a_schedule_on_a_machine_without_the_embedded_cloud(type_in: TypeIn) -> None:
    """`sweep --all` starts nothing: a cloud that is not running holds nothing that runs."""
    typed = type_in("sweep", "--all", "--exit-code", "--json")

    assert typed.code == 0
    assert typed.document == {"errors": [], "exit_code": 0, "projects": []}
    assert "Not looked at: the embedded cloud" in typed.err


def test_advice_of_a_sweep_of_all_is_for_the_cloud_project_that_it_is_about() -> None:
    """It names a stack there: without it, `tpuflex sweep` looks where the default stack is."""
    error = IncompleteTeardownError("The list is incomplete", hint=Advice("Run: {sweep}"))
    assert Failure("acme-prod", "prod", error, {}).to_json() == {
        "where": "acme-prod",
        "message": "The list is incomplete",
        "hint": "Run: tpuflex sweep --stack prod",
    }


ITEMS = (
    Item("queued resource", "shop-dev-vllm-g1", "us-east5-a", "ACTIVE"),
    Item("network", "shop-dev-vllm-net", "global"),
)
KEPT = KeptResource(Keeper.RETAIN_ON_DELETE, "urn:bucket", "weights-bucket")


@pytest.fixture
def google(stack: Stack) -> Stack:
    """The dev stack, as if it were on Google."""
    settings = stack.settings.model_copy(update={"cloud": "google", "project": "shop-ml"})
    return replace(stack, settings=settings)


@pytest.fixture
def found(google: Stack) -> tuple[Candidate, ...]:
    """A stack that is chosen, one that is young, one that was not up, one whose file is wrong."""
    plan = Planned(Ownership({}, {}, frozenset()), True, EnginePlan(()), Inventory(ITEMS), (KEPT,))
    dev = Candidate(
        "dev",
        google,
        planned=plan,
        status=status(active_since=NOON - timedelta(hours=13, seconds=5)),
        at=NOON,
    )
    young = replace(
        dev,
        name="young",
        status=status(),
        refusal="its slice is 30m old",
        planned=replace(plan, not_deleted=()),
    )
    bare = Planned(Ownership({}, {}, frozenset()), True, EnginePlan(()), Inventory(()), ())
    empty = Candidate("empty", google, planned=bare, at=NOON)
    error = SettingsError("Pulumi.wrong.yaml", ())
    return dev, young, empty, Candidate("wrong", error=error)


def test_before(found: tuple[Candidate, ...], capsys: Captured) -> None:
    """Each stack with its age, what it costs per hour and so far, and whether it is meant; what
    will stay behind on request is named."""
    invocation = Invocation(environ={})
    show_found(invocation.output, Candidates(found, ("never-up",)))

    assert capsys.readouterr().out == (
        "STACK  PROJECT  SLICE   AGE  RESOURCES  $/HOUR  SO FAR  TEARDOWN\n"
        "dev    shop-ml  ACTIVE  13h  2          1.35    17.55   yes\n"
        "young  shop-ml  ACTIVE  30m  2          1.35    0.68    no: its slice is 30m old\n"
        "empty  shop-ml  none         0          0.00    0.00    yes\n"
        "wrong  ?        ?            ?          ?       ?       "
        "no: Pulumi.wrong.yaml has 0 problems:\n"
        "  together  $2.70 per hour, and what is not known\n"
        "  not up    never-up\n"
        "  dev: Not deleted: weights-bucket (retain_on_delete: delete it by hand: Pulumi forgets"
        " it with its stack)\n"
        "\n"
    )


def test_after(found: tuple[Candidate, ...], capsys: Captured) -> None:
    """One table at the end, whatever became of each; the exit code is the highest."""
    dev, young, empty, wrong = found
    left = IncompleteTeardownError("Something is left:\n  left: bucket weights-bucket (us-east5)")
    results = [
        Result(dev, Outcome.INCOMPLETE, error=left),
        Result(young, Outcome.KEPT),
        Result(empty, Outcome.GONE, left=Inventory(())),
        Result(wrong, Outcome.FAILED, error=wrong.error),
    ]
    done = ManyDown(Candidates(found), tuple(results), dry_run=False)
    show_results(Invocation(environ={}).output, done)

    shown = done.to_json()

    assert capsys.readouterr().out == (
        "STACK  OUTCOME     COST   LEFT\n"
        "dev    incomplete  17.55  Something is left: left: bucket weights-bucket (us-east5)\n"
        "young  kept        0.68   its slice is 30m old\n"
        "empty  gone        0.00   nothing is left: every service was asked\n"
        "wrong  failed      ?      Pulumi.wrong.yaml has 0 problems:\n"
        "What no state knows is not in this list: tpuflex sweep --all\n"
    )
    stacks = shown["stacks"]
    assert isinstance(stacks, list)
    assert done.exit_code == shown["exit_code"] == 10
    assert [each["exit_code"] for each in stacks] == [10, 0, 0, 5]
    assert stacks[0]["not_deleted"][0]["id"] == "weights-bucket"
    assert stacks[0]["usd_so_far"] == float(Decimal("17.55"))


@pytest.mark.parametrize(("count", "word"), [(1, "dev"), (2, "2")])
def test_consent(
    found: tuple[Candidate, ...], answer: Callable[..., None], count: int, word: str
) -> None:
    """One word that nobody types by accident: the name of the only one, or how many there are; all
    are named."""
    answer(word)
    _agree(Invocation(environ={}).consent, [each.name for each in found[:count]])

    answer("y")
    with pytest.raises(InterruptedByUser, match="Nothing was done"):
        _agree(Invocation(environ={}).consent, [each.name for each in found[:count]])


def test_weights_that_stay_are_told(found: tuple[Candidate, ...], capsys: Captured) -> None:
    """Of each stack whose weights outlive it: what they cost a month, after the table, and for
    scripts."""
    dev = found[0]
    weights: dict[str, object] = {"place": "gs://b/models/a/1", "usd_per_month": 1.2}
    line = "Kept in the library: gs://b/models/a/1, 60.00 GiB, $1.20 a month."
    kept = Remainder(weights, line)
    result = Result(dev, Outcome.GONE, kept=kept)
    done = ManyDown(Candidates((dev,)), (result,), dry_run=False)

    show_results(Invocation(environ={}).output, done)
    shown = capsys.readouterr().out
    stacks = done.to_json()["stacks"]

    assert f"\n  dev: {line}\n" in shown
    assert isinstance(stacks, list)
    assert stacks[0]["kept_weights"] == weights
