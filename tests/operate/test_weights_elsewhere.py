"""Which set of another bucket takes the place of weights that are not there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.errors import WeightsError
from tpuflex.operate.weights_choice import Choice, Elsewhere, Trust, Weights, choose, to_copy

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
OWN = Elsewhere("own", "models/m/1", "us-east5", A, 9)
FAR = Elsewhere("far", "models/m/1", "europe-west4", B, 9)
HERE = Weights("gs://here/models/m/1", "dev", None, source=False, elsewhere=(OWN, FAR))


@pytest.mark.parametrize(
    ("trust", "from_"),
    [
        (Trust(pinned=B), FAR),
        (Trust(pinned=A), OWN),
        (Trust(accepted=B), FAR),
        (Trust(pinned=B, accepted=B), FAR),
        (Trust(planned=A), OWN),
        (Trust(pushed=B), FAR),
        (Trust(pinned=B, awaited=True), FAR),
    ],
)
def test_what_is_trusted_is_copied(trust: Trust, from_: Elsewhere) -> None:
    """By its hash, wherever that is known from, also where the stack names a source or the user
    would wait."""
    for weights in (HERE, replace(HERE, source=True)):
        assert choose(weights, trust) is Choice.COPY
        assert to_copy(weights, trust) == from_


def test_what_is_known_in_the_other_place_is_copied_from_there() -> None:
    """What was pushed there from here, or what the slice was made for there, needs no other word;
    what another place is known for proves nothing."""
    known = replace(FAR, known=(None, B))
    assert to_copy(replace(HERE, elsewhere=(OWN, known)), Trust()) == known
    assert to_copy(replace(HERE, elsewhere=(replace(OWN, known=(B,)),)), Trust()) is None


def test_what_nothing_vouches_for_is_not_copied() -> None:
    """S7: that it lies in another bucket is no reason. The error names where, and how to accept
    it; a source is pushed instead."""
    with pytest.raises(WeightsError, match="nothing here says") as told:
        choose(HERE, Trust())
    assert f"gs://far/models/m/1: {B}" in told.value.message
    assert f"--accept-weights {A}" in told.value.hint
    assert choose(replace(HERE, source=True), Trust()) is Choice.PUSH
    with pytest.raises(WeightsError, match="cannot be honoured"):
        choose(HERE, Trust(accepted=C))
    with pytest.raises(WeightsError, match="holds no complete weights"):
        choose(HERE, Trust(pinned=C))
    assert choose(HERE, Trust(pinned=C, awaited=True)) is Choice.AWAIT


hashes = st.sampled_from((None, A, B, C))


@given(found=hashes, pinned=hashes, accepted=hashes, planned=hashes, pushed=hashes)
def test_only_trusted_weights_are_copied_and_none_that_are_there(
    found: str | None,
    pinned: str | None,
    accepted: str | None,
    planned: str | None,
    pushed: str | None,
) -> None:
    """Nothing is copied where a set is there; with a pin nothing else; and nothing unnamed."""
    trust = Trust(pinned=pinned, accepted=accepted, planned=planned, pushed=pushed)
    origin = to_copy(replace(HERE, found=found), trust)
    if origin is None:
        return
    assert found is None
    assert origin.sha256 in ({pinned} if pinned else {accepted, planned, pushed})
