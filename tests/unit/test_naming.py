"""Names are a function of project, stack and logical name, legal everywhere, never shared."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.naming import (
    COMPUTE_NAME_LIMIT,
    QUEUED_RESOURCE_ID_LIMIT,
    SERVICE_ACCOUNT_ID_LIMIT,
    Names,
    is_state_id,
    owner_in,
    slug,
    state_in,
)

_TEXT = st.text(min_size=1, max_size=80)
_RFC1035 = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


def test_the_dev_stack_has_short_readable_names() -> None:
    """Where nothing forces a hash, there is none."""
    names = Names("tpuflex", "dev", "vllm")

    assert names.compute("net") == "tpuflex-dev-vllm-net"
    assert names.service_account_id() == "tpuflex-dev-vllm-host"
    assert names.queued_resource_id() == "tpuflex-dev-vllm-g1"
    assert names.secret("api-key") == "tpuflex-dev-vllm-api-key"
    assert re.fullmatch(
        "tpuflex-dev-vllm-weights-us-east5-[0-9a-f]{6}", names.bucket("tpuflex-dev", "us-east5")
    )


@given(_TEXT, _TEXT, _TEXT)
def test_every_name_is_legal(project: str, stack: str, name: str) -> None:
    """Google accepts the names, whatever projects and stacks are called."""
    names = Names(project, stack, name)

    for text, limit in (
        (names.compute("subnet"), COMPUTE_NAME_LIMIT),
        (names.queued_resource_id(12), QUEUED_RESOURCE_ID_LIMIT),
        (names.service_account_id(), SERVICE_ACCOUNT_ID_LIMIT),
    ):
        assert _RFC1035.fullmatch(text)
        assert len(text) <= limit
    assert len(names.service_account_id()) >= 6
    bucket = names.bucket("some-project", "northamerica-northeast1")
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", bucket)
    assert "goog" not in bucket
    assert all(re.fullmatch(r"[a-z0-9_-]{1,63}", value) for value in names.labels().values())


@given(st.tuples(_TEXT, _TEXT, _TEXT), st.tuples(_TEXT, _TEXT, _TEXT))
def test_different_endpoints_never_share_a_name(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    """Two different triples have different prefixes and owners; equal ones have equal names."""
    assert (Names(*one).prefix == Names(*other).prefix) == (one == other)
    assert (Names(*one).owner == Names(*other).owner) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a-b", "c", "d"), ("a", "b-c", "d")),
        (("A", "b", "c"), ("a", "b", "c")),
        (("a_b", "c", "d"), ("a.b", "c", "d")),
    ],
)
def test_spellings_that_fold_together_stay_apart(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    """Where folding to legal letters would make two names equal, a hash tells them apart."""
    assert Names(*one).prefix != Names(*other).prefix


def test_a_bucket_name_never_says_google() -> None:
    """Storage refuses bucket names that hold "google"."""
    assert "goog" not in Names("google-things", "dev", "vllm").bucket("p-12345", "us-east5")


_NAMES = Names("tpuflex", "dev", "vllm")
_STATE = "0123456789abcdef0123"


@pytest.mark.parametrize("state", ["", _STATE])
def test_a_description_says_owner_and_state(state: str) -> None:
    """What is written into a description is read back, also without a state."""
    description = _NAMES.description(state)

    assert (owner_in(description), state_in(description)) == (_NAMES.owner, state)


@pytest.mark.parametrize(
    "description",
    [
        "",
        f"not {_NAMES.description(_STATE)}",
        f"{_NAMES.description(_STATE)} ",
        f"{_NAMES.description(_STATE)}\n",
        f"{_NAMES.description()}0",
        f"{_NAMES.description()[:-1]}",
        f"{_NAMES.description()}; state ",
        f"{_NAMES.description(_STATE.upper())}",
        f"{_NAMES.description(_STATE)}0",
        f"{_NAMES.description()}; state {_STATE}; state {_STATE}",
        f"{_NAMES.description()}; state {_STATE[:-1]}\N{ARABIC-INDIC DIGIT FOUR}",
    ],
)
def test_a_description_that_says_anything_else_marks_nothing(description: str) -> None:
    """S5: a text that quotes a marker, or is only nearly one, is no marker."""
    assert (owner_in(description), state_in(description)) == ("", "")


def test_labels_say_owner_and_state() -> None:
    """The state id is a label of its own, and missing where a program has none."""
    assert _NAMES.labels(_STATE) == {**_NAMES.labels(), "tpuflex-state": _STATE}
    assert "tpuflex-state" not in _NAMES.labels()


@pytest.mark.parametrize(
    ("text", "legal"),
    [(_STATE, True), (_STATE.upper(), False), (_STATE[1:], False), ("", False), (None, False)],
)
def test_what_a_state_id_looks_like(text: object, legal: bool) -> None:
    """20 lower-case hex digits."""
    assert is_state_id(text) is legal


def test_slug_of_nothing_is_still_a_name() -> None:
    """Text without any legal letter still gives a legal name."""
    assert slug("§§§") == "x"
    assert slug("4b") == "x4b"
