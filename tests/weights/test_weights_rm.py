"""`tpuflex weights rm`: which sets go, which stay and why; and what `weights verify` tells."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import pytest

from tests.cli.typing import Captured, TypeIn
from tests.deploy.test_preparation import OURS, TRUNCATED
from tpuflex.boot.places import weights_prefix
from tpuflex.cli.weights.run import show_verification
from tpuflex.errors import WeightsError
from tpuflex.planning.model_files import WeightsProblem
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import silent
from tpuflex.stack.stack import Stack
from tpuflex.terminal.output import Output
from tpuflex.weights.removal import Verdict, Wanted, judge
from tpuflex.weights.stack_weights import StackWeights
from tpuflex.weights.stored_set import StoredWeights, WeightsCheck
from tpuflex.weights.use import User, Uses
from tpuflex.weights.verification import verify

NOW = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)
LONG_AGO = NOW - dt.timedelta(days=40)
WHOLE = StoredWeights("models/a/1", OURS, 2, 9, used=LONG_AGO.date(), written=LONG_AGO)
LATELY = replace(WHOLE, used=LONG_AGO.date() + dt.timedelta(1))
BROKEN = StoredWeights("models/b/1", None, 1, 9, written=LONG_AGO)
BESIDE = replace(WHOLE, prefix="models/c/1", beside=1, beside_bytes=4)
UNKNOWN = replace(WHOLE, prefix="models/d/1", used=None)
UNFINISHED = Wanted(unfinished=True)
IDLE = Wanted(unused_days=40)
NOBODY = Uses({})
UNSEEN = Uses({}, ("slices in us-east5-a: denied",))


def used(one: StoredWeights) -> Uses:
    """An endpoint uses ``one``."""
    return Uses({one.prefix: (User("h may read it"),)})


def kept(one: StoredWeights, wanted: Wanted, uses: Uses = NOBODY) -> str | None:
    """Why ``one`` stays; empty if it goes; None if the command is not about it."""
    found = tuple(judge((one,), wanted, uses, NOW))
    return found[0].why_kept if found else None


@pytest.mark.parametrize(
    ("one", "uses", "why"),
    [
        (WHOLE, NOBODY, ""),
        (LATELY, NOBODY, "it was used on 2026-10-15"),
        (WHOLE, used(WHOLE), "h may read it"),
        (WHOLE, UNSEEN, "it could not be told who uses it (slices in us-east5-a: denied)"),
        (UNKNOWN, NOBODY, "nothing says when it was last used"),
        (BROKEN, NOBODY, None),
    ],
)
def test_what_nobody_has_used_goes(one: StoredWeights, uses: Uses, why: str | None) -> None:
    """Complete sets alone, of which it is known that nobody uses them, and since when."""
    assert kept(one, IDLE, uses) == why


@pytest.mark.parametrize(
    ("one", "uses", "why"),
    [
        (BROKEN, NOBODY, ""),
        (BESIDE, NOBODY, ""),
        (BESIDE, used(BESIDE), ""),  # no host reads what the manifest does not name
        (WHOLE, NOBODY, None),
        (BROKEN, used(BROKEN), "h may read it"),
        (
            replace(BROKEN, written=NOW - dt.timedelta(hours=23)),
            NOBODY,
            "something was written there within 24 hours: a push may be under way. If none is, name"
            " the set beside --unfinished",
        ),
    ],
)
def test_what_pushes_have_left_goes(one: StoredWeights, uses: Uses, why: str | None) -> None:
    """Not where a push may be under way, and not where an endpoint waits for the rest."""
    assert kept(one, UNFINISHED, uses) == why


def test_nothing_goes_where_nothing_is_named() -> None:
    """Neither a set nor an option: that is no set that goes, not all of them."""
    assert kept(WHOLE, Wanted()) is None


def test_what_the_stack_serves_from_a_bucket_of_its_own_stays() -> None:
    """No `up` notes a day there: the day of the push says nothing about yesterday."""
    assert kept(WHOLE, replace(IDLE, own=WHOLE.prefix)) == "it is what the stack serves"
    assert kept(WHOLE, replace(IDLE, own="models/a/2")) == ""
    assert kept(WHOLE, Wanted(WHOLE.prefix, own=WHOLE.prefix)) == ""


@pytest.mark.parametrize("at", ["models/b/1/models/tiny/1", "models/b"])
def test_what_lies_below_another_set_stays(at: str) -> None:
    """Two stacks write to one bucket, and one of them below a folder of its own."""
    uses = Uses({at: (User("h may read it"),)})
    assert kept(BROKEN, UNFINISHED, uses) == "h may read it"
    assert kept(BROKEN, UNFINISHED, Uses({"models/b/10": (User("h may read it"),)})) == ""


def test_a_set_that_is_named_goes() -> None:
    """It alone; also where something was written a moment ago: whoever names it knows."""
    lately = replace(BROKEN, written=NOW)
    everything = (WHOLE, lately, BESIDE)
    for wanted in (Wanted("models/b/1"), Wanted("models/b/1", unfinished=True)):
        assert tuple(judge(everything, wanted, NOBODY, NOW)) == (Verdict(lately),)
    (left,) = judge(everything, Wanted("models/a/1", unfinished=True), NOBODY, NOW)
    assert left.why_kept == "it is complete, and nothing is beside it"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "Name a SET"),
        (("models/a/1", "--unused-for", "3"), "Name a SET"),
        (("--unfinished", "--unused-for", "3"), "Name a SET"),
        (("--unused-for", "0"), "not in the range"),
        (("--unfinished", "--with-readers"), "--with-readers goes with a SET"),
        (("/", "--yes"), "/ names no set"),
        (("gs://my-bucket/", "--with-readers", "--yes"), "gs://my-bucket/ names no set"),
        (("//", "--unfinished", "--yes"), "// names no set"),
        (("gs://my-bucket", "--yes"), "gs://my-bucket names no set"),
    ],
)
def test_what_contradicts_itself_is_refused(
    type_in: TypeIn, words: tuple[str, ...], what: str
) -> None:
    """Before anything is looked at."""
    typed = type_in("weights", "rm", *words)
    assert typed.code == 2
    assert what in typed.err


class Stored:
    """A bucket of which this was found."""

    def __init__(self, beside: tuple[str, ...], problems: tuple[WeightsProblem, ...] = ()) -> None:
        self._check = WeightsCheck(OURS.sha256, OURS, problems, beside)

    def verify(self, _prefix: str, _extra: tuple[str, ...]) -> WeightsCheck:
        return self._check


@pytest.fixture
def cloud(stack: Stack) -> Connection:
    """The cloud of a stack that names no source."""
    model = stack.settings.model
    weights = model.weights.model_copy(update={"source": None})
    model = model.model_copy(update={"weights": weights})
    settings = stack.settings.model_copy(update={"model": model})
    return Connection(Stack(stack.project, stack.name, stack.file, settings), {})


def show(cloud: Connection, found: Stored, *, as_json: bool = False) -> None:
    """Compare what is ``found`` in the stack's bucket, and print that."""
    home = StackWeights(cloud)
    vars(home)["store"] = found
    show_verification(verify(home, None, silent), Output(json=as_json, verbose=False))


def test_what_is_beside_the_set_is_told(cloud: Connection, capsys: Captured) -> None:
    """It is no damage, and a script finds it by name."""
    found = Stored(("old-1.safetensors", "old-2.safetensors"))
    show(cloud, found)
    said = capsys.readouterr().out
    show(cloud, found, as_json=True)
    document = json.loads(capsys.readouterr().out)

    assert said.startswith(f"{weights_prefix(cloud.stack.settings.model)} matches its manifest.")
    assert "no host reads (2 files, such as old-1.safetensors)" in said
    assert document["problems"] == []
    assert document["beside"] == ["old-1.safetensors", "old-2.safetensors"]


def test_damage_is_damage_whatever_is_beside(cloud: Connection) -> None:
    """A file of the manifest that is wrong ends it; the others are not among the problems."""
    with pytest.raises(WeightsError, match="not as it should be") as caught:
        show(cloud, Stored(("old.safetensors",), (TRUNCATED,)))

    assert "shard: size" in caught.value.message
    assert "old.safetensors" not in caught.value.message
