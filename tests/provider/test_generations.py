"""Generations: which id a queued resource gets, from what one engine run shows of the state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_plugin.values import UNKNOWN
from tests.provider.fakes import INPUTS, NAME
from tpuflex.errors import ConflictError
from tpuflex.naming import QUEUED_RESOURCE_ID_LIMIT, generation_id, generation_of
from tpuflex.provider.generations import Generations
from tpuflex.provider.stages import Stage
from tpuflex.queued_resource.name import RequestName

URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"
HELD = RequestName.parse(NAME)


def test_the_first_replaces_nothing() -> None:
    """Where the state holds nothing, it is the first generation."""
    assert Generations().id_for(URN, "slice") == "slice-g1"


def test_what_goes_on_keeps_its_id() -> None:
    """A check with old inputs is about the one that is there."""
    assert Generations().id_for(URN, "slice", "slice-g7") == "slice-g7"


def test_what_replaces_gets_the_next_id() -> None:
    """After it has seen the one in the state, a check without old inputs is about its successor,
    in this run and in every other."""
    for _ in range(2):
        run = Generations()
        run.id_for(URN, "slice", "slice-g7")
        assert [run.id_for(URN, "slice") for _ in range(2)] == ["slice-g8", "slice-g8"]
        assert run.id_for("another", "slice") == "slice-g1"


def test_a_read_tells_the_generation_too() -> None:
    """A replacement on demand is only preceded by the read that comes before every update; of
    several, the latest counts: an earlier one may still wait to be deleted."""
    run = Generations()
    run.found(URN, RequestName("p", "z", "slice-g4"))
    run.found(URN, RequestName("p", "z", "slice-g3"))

    assert run.id_for(URN, "slice") == "slice-g5"


@pytest.mark.parametrize("present", ["chosen", "other-g4", "slice-g0", "slice-g01", "slice-g"])
def test_another_series_begins_anew(present: str) -> None:
    """An id that is not of the series, such as one that was chosen before, is given up."""
    run = Generations()

    assert run.id_for(URN, "slice", present) == "slice-g1"
    assert run.id_for(URN, "slice") == "slice-g1"


def test_what_the_state_holds_is_not_created() -> None:
    """To create the name that the state holds would be to adopt what is about to be deleted;
    once it is deleted, or in another zone, nothing stands in the way."""
    run = Generations()
    run.found(URN, HELD)

    with pytest.raises(ConflictError, match="one of the same name") as refused:
        run.create(URN, {**INPUTS, "zones": ["us-east5-b", "us-east5-a"]})
    assert str(refused.value.hint) == (
        "Nothing was changed. Leave queuedResourceId out, so that every replacement gets an id of"
        " its own; or set the resource option delete_before_replace."
    )
    run.create(URN, {**INPUTS, "zones": UNKNOWN})
    run.create(URN, {**INPUTS, "zones": ["us-east5-b"]})
    run.create(URN, {**INPUTS, "queuedResourceId": "slice-g2"})
    run.deleted(URN, HELD)
    run.create(URN, INPUTS)


@pytest.mark.parametrize("held", [True, False])
def test_p2_no_two_resources_share_a_request(held: bool) -> None:
    """P2: a name that another URN holds, or has asked for in this run, is refused before anything
    is changed; who asked for it may ask again, and what is deleted is free."""
    run = Generations()
    other = URN.replace("::slice", "::other")
    if held:
        run.found(other, HELD)
    else:
        run.create(other, INPUTS)
        run.create(other, INPUTS)

    with pytest.raises(ConflictError, match=f"{NAME} is the request of {other}"):
        run.create(URN, {**INPUTS, "zones": ["us-east5-b", "us-east5-a"]})
    run.create(URN, {**INPUTS, "zones": ["us-east5-b"]})
    run.deleted(other, HELD)
    run.create(URN, INPUTS)


@pytest.mark.parametrize("first", ["holder", "asker"])
def test_a_preview_shows_what_would_be_shared(first: str) -> None:
    """A preview refuses what `up` would: a name that another resource of the stack has, whichever
    of the two the engine looks at first. What it will give up itself may be asked for."""
    run = Generations()
    other = URN.replace("::slice", "::other")

    def preview() -> None:
        if first == "holder":
            run.read(other, HELD)
        run.preview(URN, INPUTS)
        run.read(other, HELD)

    with pytest.raises(ConflictError, match=f"{NAME} is the request of {other}: {URN} cannot"):
        preview()
    run.checked(URN, {})  # another program, in a process that serves several runs
    run.read(other, HELD)
    run.preview(other, INPUTS)
    run.gone(other, HELD)
    run.checked(other, {})
    run.preview(URN, INPUTS)


def test_a_renamed_resource_keeps_what_it_held() -> None:
    """What the state holds under one URN now is not what it held under another in an earlier run
    of the same process."""
    run = Generations()
    other = URN.replace("::slice", "::other")
    run.read(URN, HELD)
    run.found(URN, HELD)

    run.read(other, HELD)

    assert run.stage(other, HELD) is Stage.HELD
    assert run.stage(URN, HELD) is Stage.HELD_ELSEWHERE


_prefixes = st.from_regex(r"[a-z]([a-z0-9-]{0,80}[a-z0-9])?", fullmatch=True)


@given(_prefixes, st.integers(1, 10**6))
def test_ids_tell_their_generation(prefix: str, generation: int) -> None:
    """However long the prefix, an id fits, differs from that of the next generation, and says which
    one it is."""
    id_ = generation_id(prefix, generation)

    assert len(id_) <= QUEUED_RESOURCE_ID_LIMIT
    assert generation_of(prefix, id_) == generation
    assert id_ != generation_id(prefix, generation + 1)
    assert generation_of(f"{prefix}x", id_) is None
