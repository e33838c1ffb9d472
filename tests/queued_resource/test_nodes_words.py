"""Several nodes in one word and in one sentence."""

from __future__ import annotations

import pytest

from pulumi_plugin.values import Value
from tests.provider.fakes import node
from tests.provider.several import PLACE
from tpuflex.queued_resource.model import Node
from tpuflex.queued_resource.name import Nodes, ids_of


def nodes(*states: str, health: tuple[str, ...] = ()) -> Nodes:
    """Nodes x-0, x-1, … that there should be, each in its state; ``MISSING`` ones are not there."""
    words = {f"x-{number}": word for number, word in enumerate(health)}
    found = [
        Node.model_validate(
            node(state, name=f"{PLACE}/nodes/{id_}", health=words.get(id_, "HEALTHY"))
        )
        for id_, state in zip(_ids(states), states, strict=True)
        if state != "MISSING"
    ]
    return Nodes(_ids(states), tuple(found))


def _ids(states: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"x-{number}" for number in range(len(states)))


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (("PREEMPTED",), "the node is PREEMPTED"),
        (("MISSING",), "the node is missing"),
        (("READY", "MISSING"), "1 of 2 nodes is not READY: x-1 is missing"),
        (("CREATING", "MISSING"), "2 of 2 nodes are not READY: x-0 is CREATING, x-1 is missing"),
        (
            ("STOPPED", "READY", "STOPPING", "MISSING"),
            "3 of 4 nodes are not READY: x-0 is STOPPED, x-2 is STOPPING, x-3 is missing",
        ),
        (
            ("CREATING",) * 4,
            "4 of 4 nodes are not READY: x-0 is CREATING, x-1 is CREATING, x-2 is CREATING"
            " and 1 more",
        ),
        (
            ("READY", *("MISSING",) * 6),
            "6 of 7 nodes are not READY: x-1 is missing, x-2 is missing, x-3 is missing and 3 more",
        ),
    ],
)
def test_trouble_names_three_nodes_and_counts_the_rest(states: tuple[str, ...], text: str) -> None:
    """Which nodes keep the request from serving: by name up to three, then by number."""
    assert nodes(*states).trouble() == text


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (("MISSING", "MISSING"), "0 of its 2 nodes are there"),
        (("MISSING", "READY"), "1 of its 2 nodes is there"),
        (("READY", "DELETING", "MISSING"), "2 of its 3 nodes are there"),
    ],
)
def test_what_is_left_over_is_counted(states: tuple[str, ...], text: str) -> None:
    """Of a request that is gone, how many nodes are there, whatever their state."""
    assert nodes(*states).left_over() == text


def test_two_are_several() -> None:
    """One node, or none, is not."""
    assert [nodes(*["READY"] * count).several for count in range(4)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("health", "word"),
    [
        (("HEALTHY", "HEALTHY"), "HEALTHY"),
        (("HEALTHY", "UNHEALTHY_TPU"), "UNHEALTHY_TPU"),
        (("TIMEOUT", "UNHEALTHY_TPU"), "TIMEOUT"),
        (("HEALTHY", ""), ""),
        ((), ""),
    ],
)
def test_one_word_of_health_is_that_of_the_first_that_is_not_well(
    health: tuple[str, ...], word: str
) -> None:
    """HEALTHY only if every node is; missing nodes do not count."""
    assert nodes(*["READY"] * len(health), health=health).health == word


@pytest.mark.parametrize(
    ("states", "word"),
    [
        (("READY", "READY"), "READY"),
        (("READY", "CREATING", "PREEMPTED"), "CREATING"),
        (("READY", "MISSING", "PREEMPTED"), None),
        ((), "READY"),
    ],
)
def test_one_word_of_state_is_that_of_the_first_that_is_not_ready(
    states: tuple[str, ...], word: str | None
) -> None:
    """READY only if every node is; None if the first that is not READY is not there."""
    assert nodes(*states).state == word


def test_others_that_name_the_request_come_last_in_its_status() -> None:
    """Those that there should be in their order, there or not; then the rest."""
    there = nodes("READY", "CREATING").found
    shown = Nodes(("y-0", "x-1"), there).status()

    assert [(each.id, each.state, each.health) for each in shown] == [
        ("y-0", None, None),
        ("x-1", "CREATING", "HEALTHY"),
        ("x-0", "READY", "HEALTHY"),
    ]
    assert [each.ip_addresses for each in shown] == [(), ("10.0.0.2",), ("10.0.0.2",)]


def test_health_that_google_does_not_tell_is_none() -> None:
    """A node that is just being made has no health yet."""
    (shown,) = nodes("CREATING", health=("",)).status()

    assert shown.health is None


@pytest.mark.parametrize(
    ("several", "ids"),
    [
        (None, ("slice",)),
        ("?", ("slice",)),
        ({"nodeCount": 2.0}, ("slice-0", "slice-1")),
        ({"nodeCount": 2, "nodeIdPrefix": "w"}, ("w-0", "w-1")),
        ({"nodeCount": 1, "nodeIdPrefix": ""}, ("slice-0",)),
        ({"nodeCount": None}, ()),
        ({}, ()),
    ],
)
def test_ids_are_numbered_behind_the_prefix_or_the_request(
    several: Value, ids: tuple[str, ...]
) -> None:
    """One node has the request's id; of several each has its number behind a dash."""
    assert ids_of("slice", several) == ids


def test_the_first_is_the_first_that_is_there() -> None:
    """Not the first that there should be."""
    first = nodes("MISSING", "READY", "READY").first

    assert first is not None
    assert first.id == "x-1"
    assert nodes("MISSING").first is None
