"""P8: which generation a replacement takes, by what the cloud has of its series."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_plugin.values import UNKNOWN, Properties, Value
from tests.provider.fakes import INPUTS, NAME, Answer, Sent, args, missing, node, queued, scripted
from tpuflex.errors import ConflictError
from tpuflex.provider.generations import LEFT_ALONE, RENAMED, Generations
from tpuflex.provider.operations import delete_resource
from tpuflex.queued_resource.name import RequestName

URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"
SERIES: Properties = {**INPUTS, "queuedResourceIdPrefix": "slice"}


def born(hour: int) -> str:
    return f"2026-11-21T{hour:02}:00:00.123456789Z"


def cloud(made: Mapping[int, int], state: str = "ACTIVE") -> dict[str, Answer]:
    """A request and a node for each generation, by the hour at which it was ``made``."""
    found: dict[str, Answer] = {}
    for generation, hour in made.items():
        of, id_ = args(queuedResourceId=f"slice-g{generation}"), f"slice-g{generation}"
        name = NAME.replace("slice-g1", id_)
        found[name] = {**queued(state, of), "name": name, "createTime": born(hour)}
        place = name.replace("queuedResources", "nodes")
        found[place] = node("READY", of, name=place, queuedResource=name)
    return found


def taken(made: Mapping[int, int], *, holds: int, created: str = "", state: str = "ACTIVE") -> str:
    """The id of what replaces the generation that the state ``holds``."""
    there = cloud(made, state)
    call, _, said = scripted(lambda sent: there.get(sent.path, missing(sent.path)))
    run = Generations()
    run.shown(URN, {**SERIES, "queuedResourceId": f"slice-g{holds}"}, {"createTime": created})
    found = run.free_id(lambda: call, URN, {**SERIES, "queuedResourceId": f"slice-g{holds + 1}"})
    assert run.free_id(lambda: call, "another", SERIES) == "slice-g1"
    passed = int(str(found).removeprefix("slice-g")) - holds - 1
    assert said.text.count(LEFT_ALONE) == passed
    return str(found)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ({1: 8}, "slice-g2"),
        ({1: 8, 2: 9}, "slice-g2"),  # of an interrupted hand-over: adopted
        ({1: 8, 2: 7}, "slice-g3"),
        ({1: 8, 2: 7, 3: 6, 5: 5}, "slice-g4"),
        ({1: 8, 2: 7, 3: 9}, "slice-g3"),
        ({1: 8, 3: 7}, "slice-g2"),
    ],
)
@pytest.mark.parametrize("state", ["ACTIVE", "WAITING_FOR_RESOURCES", "SUSPENDED", "FAILED"])
def test_what_is_older_is_passed_over(made: dict[int, int], expected: str, state: str) -> None:
    """Only what was made after the one that it replaces can be its successor."""
    assert taken(made, holds=1, state=state) == expected


def test_what_another_resource_has_is_passed_over() -> None:
    """Once two slices have exchanged their names, the next of one may be that of the other,
    however young it is: the one behind it is taken, and that is said."""
    there = cloud({1: 8, 2: 9})
    call, _, said = scripted(lambda sent: there.get(sent.path, missing(sent.path)))
    run = Generations()
    run.shown(URN, SERIES)
    second = RequestName.parse(NAME.replace("-g1", "-g2"))

    run.found("another", second)

    found = run.free_id(lambda: call, URN, {**SERIES, "queuedResourceId": "slice-g2"})

    assert found == "slice-g3"
    assert f"{second} is the request of another" in said.text


def test_the_state_knows_the_time_of_what_is_gone() -> None:
    """A run that ended and was cleaned up is in no cloud; its time is in the state."""
    assert taken({2: 7}, holds=1, created=born(8)) == "slice-g3"
    assert taken({2: 9}, holds=1, created=born(8)) == "slice-g2"
    assert taken({2: 7}, holds=1) == "slice-g2"


@given(st.dictionaries(st.integers(1, 9), st.integers(0, 23)), st.integers(1, 8))
def test_nothing_older_is_ever_taken(made: dict[int, int], holds: int) -> None:
    """Whatever stands there: the id is a later one of the series, and free or younger; all between
    are taken by what is older."""
    made = {**made, holds: made.get(holds, 12)}

    generation = int(taken(made, holds=holds).removeprefix("slice-g"))

    assert generation > holds
    assert made.get(generation, 24) >= made[holds]
    assert all(made.get(n, 24) < made[holds] for n in range(holds + 1, generation))


@pytest.mark.parametrize("unknown", ["zones", "project", "queuedResourceIdPrefix"])
def test_what_is_unknown_is_not_looked_for(unknown: str) -> None:
    """In a preview whose place is not known yet, nothing is asked of the cloud."""

    def none(_: Sent) -> Answer:
        raise AssertionError

    run = Generations()
    run.shown(URN, SERIES)

    found = run.free_id(lambda: scripted(none)[0], URN, {**SERIES, unknown: UNKNOWN})

    assert found == "slice-g1"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("old", "new", True),
        ("old", "old", False),
        ("old", UNKNOWN, False),
        ("old", None, False),  # left out: it keeps the old one
        (None, "new", False),  # an id of its own before
    ],
)
def test_p1_another_prefix_is_told(before: Value, after: Value, said: bool) -> None:
    """A replacement that is due to a rename alone says so, and how to keep what runs."""
    run = Generations()
    run.shown(URN, {**INPUTS, "queuedResourceIdPrefix": before})

    text = run.renamed(URN, {**INPUTS, "queuedResourceIdPrefix": after})

    assert text == (RENAMED.format(before=before, after=after) if said else "")
    assert run.renamed("another", {**INPUTS, "queuedResourceIdPrefix": "new"}) == ""


@pytest.mark.parametrize(("made", "goes"), [({1: 8, 2: 7}, False), ({1: 8, 2: 7, 3: 9}, True)])
def test_an_older_run_takes_over_from_nothing(made: dict[int, int], goes: bool) -> None:
    """A protected run is deleted for its successor, whose generation may not be the very next; what
    is older was let go of, and is no successor."""
    there = cloud(made)

    def answer(sent: Sent) -> Answer:
        if sent.method == "DELETE":
            there.pop(sent.path)
            there.pop(sent.path.replace("queuedResources", "nodes"))
            return {"name": "operations/1", "done": True}
        return there.get(sent.path, missing(sent.path))

    call, script, _ = scripted(answer)
    protected = {**SERIES, "deletionProtection": True}
    if goes:
        delete_resource(call, NAME, protected, {}, timeout=0)
    else:
        with pytest.raises(ConflictError, match="deletion_protection is on"):
            delete_resource(call, NAME, protected, {}, timeout=0)
    assert script.count("DELETE") == int(goes)
