"""The points of a benchmark: which, in which order, and which of them a server can hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.errors import UsageError
from tpuflex.measure.grid import Grid, parse_counts, parse_points, why_not_feasible
from tpuflex.measure.run import Load, Server

SERVER = Server(model="m", kv_tokens=18_523 * 16, block_size=16, max_model_len=16_384)


def test_the_whole_grid_has_144_points() -> None:
    """Twelve concurrencies up to 2048 users by twelve contexts up to 16,384 tokens, each once."""
    loads = Grid().loads(7)

    assert len({load.key for load in loads}) == len(loads) == 144
    assert max(load.concurrency for load in loads) == 2048
    assert {load.context for load in loads} == {2**power for power in range(3, 15)}


@given(st.integers(0, 2**40), st.sampled_from([0, 256]))
def test_no_point_repeats_the_prompts_of_another(seed: int, shared: int) -> None:
    """The seeds of a run's points differ, those of both series."""
    loads = Grid(shared=shared).loads(seed)

    assert len({load.seed for load in loads}) == len(loads)
    assert {load.seed for load in loads}.isdisjoint(each.seed for each in Grid().loads(seed + 1))


def test_a_run_that_stops_early_is_a_coarse_grid() -> None:
    """The first nine points span both axes; the shared series comes last."""
    loads = Grid(shared=64).loads(1)

    assert [(load.context, load.concurrency) for load in loads[:9]] == [
        (tokens, users) for tokens in (8, 128, 2048) for users in (1, 16, 256)
    ]
    assert not any(load.shared for load in loads[:144])
    assert {load.context for load in loads[144:]} == {2**power for power in range(7, 15)}


@pytest.mark.parametrize(
    ("concurrency", "per_user", "requests"),
    [(1, 8, 32), (8, 8, 64), (256, 8, 2048), (1024, 8, 4096), (4096, 8, 8192), (8, 1, 32)],
)
def test_a_point_has_requests_enough_and_not_too_many(
    concurrency: int, per_user: int, requests: int
) -> None:
    """At least 32, and two for each user; beyond that, no more than chance keeps distinct."""
    grid = Grid(points=((concurrency, 128),), requests_per_user=per_user)

    assert grid.loads(1)[0].requests == requests


@pytest.mark.parametrize(
    ("load", "says"),
    [
        (Load(concurrency=256, context=1024, output=64, requests=32), ""),
        (
            Load(concurrency=512, context=1024, output=64, requests=32),
            "512 sequences of 1,088 tokens take 512 x 68 = 34,816 blocks of 16 tokens, and the KV"
            " cache has 18,522 for them",
        ),
        (Load(concurrency=512, context=1024, output=64, requests=32, shared=1000), ""),
        (
            Load(concurrency=512, context=16_320, output=64, requests=32, shared=8000),
            "512 sequences of 16,384 tokens take 500 shared + 512 x 524 = 268,788 blocks of 16"
            " tokens, and the KV cache has 18,522 for them",
        ),
        (Load(concurrency=1, context=16_320, output=64, requests=32), ""),
        (
            Load(concurrency=1, context=16_384, output=64, requests=32),
            "16,384 tokens of a prompt and 64 of its answer are 16,448, and the server's longest"
            " sequence has 16,384 (max_model_len)",
        ),
    ],
)
def test_what_a_server_cannot_hold_is_not_feasible(load: Load, says: str) -> None:
    """Blocks and the longest sequence decide, and the arithmetic is said; blocks that all prompts
    share are held once."""
    assert why_not_feasible(load, SERVER) == says


def test_a_server_that_says_nothing_is_tried() -> None:
    """Without its figures, nothing is known not to fit."""
    load = Load(concurrency=10_000, context=100_000, output=64, requests=32)

    assert why_not_feasible(load, Server(model="m")) == ""


def test_options_say_which_points() -> None:
    """Pairs, or the values of an axis, where 2K is 2,048 as for vLLM."""
    assert parse_points("8x128, 64x2K") == ((8, 128), (64, 2048))
    assert parse_counts("1,8,64", "--concurrency") == (1, 8, 64)
    assert parse_counts("128,2K", "--context") == (128, 2048)
    loads = Grid(points=((8, 128), (1, 64), (8, 128))).loads(1)
    assert [(load.concurrency, load.context) for load in loads] == [(8, 128), (1, 64)]


@pytest.mark.parametrize("text", ["", "8", "8x", "x8", "0x128", "8x4", "8x128,", "8X128", "-1x8"])
def test_other_points_are_refused(text: str) -> None:
    """With the option that they came from."""
    with pytest.raises(UsageError) as caught:
        parse_points(text)

    assert caught.value.option == "--points"


@pytest.mark.parametrize(
    ("text", "option"),
    [("0", "--concurrency"), ("1,,2", "--concurrency"), ("4", "--context"), ("all", "--context")],
)
def test_other_counts_are_refused(text: str, option: str) -> None:
    """With the option that they came from."""
    with pytest.raises(UsageError) as caught:
        parse_counts(text, option)

    assert caught.value.option == option


def test_a_prefix_longer_than_all_prompts_is_refused() -> None:
    """There would be no second series."""
    with pytest.raises(UsageError, match="the longest has 64"):
        Grid(context=(16, 64), shared=64).loads(1)
