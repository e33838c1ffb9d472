"""Which weights an `up` may serve: only those that it has a reason to trust. Pure.

A manifest in the bucket is no reason: anyone who may write to the bucket can have put it there.
The reasons are, in this order: the hash that the stack file pins; the one that the user accepts by
name; the one that the slice was made for before, according to the state; the one that was pushed
from this machine; the source that the stack file names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tpuflex.advice import Advice
from tpuflex.errors import WeightsError

#: Setting that pins the manifest.
PIN_KEY = "tpuflex:model.weights.manifest_sha256"
ACCEPT_OPTION = "--accept-weights"
#: Option that lets chips be requested before the weights are there.
MISSING_OPTION = "--allow-missing-weights"


class Choice(Enum):
    """What to do about the weights."""

    SERVE = "serve what is in the bucket"
    PUSH = "push the source, and serve that"
    COMPARE = "compare what is in the bucket with the source, and serve it if it is equal"
    AWAIT = "request chips all the same; the host waits for the pinned weights"


@dataclass(frozen=True, slots=True)
class Trust:
    """Hashes that there is a reason to trust, in hex.

    Attributes:
        pinned: the stack file's.
        accepted: the one that the user named on the command line.
        planned: the one that the slice was made for, according to the state.
        pushed: the one that was pushed from here.
        awaited: whether the user allows that none of it is there yet.
    """

    pinned: str | None = None
    accepted: str | None = None
    planned: str | None = None
    pushed: str | None = None
    awaited: bool = False


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights in question.

    Attributes:
        place: where they are, such as ``gs://BUCKET/PREFIX``.
        stack: name of the stack.
        found: hash of the manifest in the bucket; None where there is none that can be used.
        source: whether the stack file names a source.
    """

    place: str
    stack: str
    found: str | None
    source: bool


def choose(weights: Weights, trust: Trust) -> Choice:
    """What to do about ``weights``.

    Raises:
        WeightsError: there are none and the stack names no source, or nothing says that those in
            the bucket are the right ones.
    """
    refuse_other_word(weights, trust)
    if trust.pinned is not None:
        if weights.found == trust.pinned:
            return Choice.SERVE
        if weights.source:
            return Choice.PUSH
        if weights.found is not None:
            raise _not_pinned(weights, trust.pinned)
        if trust.awaited:
            return Choice.AWAIT
        raise missing(weights)
    if weights.found is None:
        if weights.source:
            return Choice.PUSH
        raise _not_to_await(weights) if trust.awaited else missing(weights)
    if weights.found in (trust.accepted, trust.planned, trust.pushed):
        return Choice.SERVE
    if weights.source:
        return Choice.COMPARE
    raise unknown(weights, trust)


def refuse_other_word(weights: Weights, trust: Trust) -> None:
    """Check that what the user accepts is what is there, and what the stack file pins.

    Raises:
        WeightsError: it is not.
    """
    if trust.accepted is None:
        return
    if trust.pinned not in (None, trust.accepted):
        raise WeightsError(
            f"{ACCEPT_OPTION} {trust.accepted} contradicts {PIN_KEY}, which is {trust.pinned}.",
            hint=f"Change {PIN_KEY} in the stack file; leave the option out.",
        )
    if trust.accepted != weights.found:
        has = f"has the SHA-256 {weights.found}" if weights.found else "is not there"
        raise WeightsError(
            f"{ACCEPT_OPTION} {trust.accepted} cannot be honoured: the manifest in {weights.place}"
            f" {has}.",
            hint="Compare both with those who pushed the weights.",
        )


def missing(weights: Weights) -> WeightsError:
    """The error for weights that nobody has pushed."""
    return WeightsError(
        f"{weights.place} holds no complete weights, and the stack names no source. No chips were"
        " requested, so none are billed.",
        hint=f"Run `tpuflex weights push DIRECTORY --stack {weights.stack}`, which makes the bucket"
        f" if it has to, then `tpuflex up --stack {weights.stack}`.\n"
        "Or write tpuflex:model.weights.source to the stack file: then `up` pushes them itself.",
    )


def _not_to_await(weights: Weights) -> WeightsError:
    """The error for weights that are not there, and that nothing names either."""
    return WeightsError(
        f"{MISSING_OPTION} cannot be honoured: {weights.place} holds no complete weights, and"
        " nothing says which ones the host is to wait for. No chips were requested.",
        hint=Advice("Write the hash that `{weights_hash} DIRECTORY` prints to {key}.", key=PIN_KEY),
    )


def unknown(weights: Weights, trust: Trust) -> WeightsError:
    """The error for a manifest that there is no reason to trust."""
    before = (
        f"the slice was made for {trust.planned}"
        if trust.planned
        else "nothing here says that it is yours: it was not pushed from here, and the state names"
        " no other"
    )
    return WeightsError(
        f"The manifest in {weights.place} has the SHA-256 {weights.found}, and {before}. No chips"
        " were requested.",
        hint="If somebody whom you trust pushed these weights, and names the same hash, accept"
        f" them once:\n  tpuflex up --stack {weights.stack} {ACCEPT_OPTION} {weights.found}\n"
        f"or for good, in the stack file: {PIN_KEY}: {weights.found}\n"
        f"If not, push yours again: tpuflex weights push DIRECTORY --stack {weights.stack}",
    )


def _not_pinned(weights: Weights, pinned: str) -> WeightsError:
    return WeightsError(
        f"The manifest in {weights.place} has the SHA-256 {weights.found}, and the stack file pins"
        f" {pinned} ({PIN_KEY}). No chips were requested.",
        hint=f"Push the pinned weights: tpuflex weights push DIRECTORY --stack {weights.stack}\n"
        f"If the others are right, write their hash to {PIN_KEY}.",
    )


def not_the_source(
    place: str, *, pinned: str, local: str, outcome: str = "Nothing was sent."
) -> WeightsError:
    """The error for a source that is not what the stack file pins, and what came of it."""
    return WeightsError(
        f"The source of the weights for {place} has a manifest with the SHA-256 {local}, and the"
        f" stack file pins {pinned} ({PIN_KEY}). {outcome}",
        hint=f"If the source is right, write {local} there.",
    )
