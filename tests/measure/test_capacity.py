"""What an archive says of capacity: prices, peaks beside other slices, and plain advice."""

from __future__ import annotations

import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.measure.snapshots import ORIGIN, Server, snapshot, unanswered
from tpuflex.catalog.catalog import builtin
from tpuflex.errors import NotFoundError, TpuflexError, UsageError
from tpuflex.measure.archive import Snapshot
from tpuflex.measure.capacity import Capacity, capacity
from tpuflex.measure.capacity_plot import draw, require_form

#: Minutes of a day and of its last snapshot.
DAY = 1441


def found(snapshots: list[Snapshot]) -> Capacity:
    """What the packaged catalog makes of ``snapshots``."""
    return capacity(snapshots, builtin())


def option(seen: Capacity, accelerator: str) -> tuple[float | None, bool]:
    """The share of its cache that the peak takes there, and whether it holds that."""
    (row,) = (each for each in seen.options if each.accelerator == accelerator)
    return row.cache_share, row.holds


def test_a_day_is_paid_whole_and_idle_hours_are_in_the_price() -> None:
    """4 chips of v6e at $1.35 in us-east5 for 24 hours, $129.60, half of which nothing ran."""
    busy = Server(running=4.0).minutes(721)
    idle = [
        replace(each, metrics=replace(each.metrics, running=0.0))
        for each in Server(running=1.0).minutes(720, first=721)
        if each.metrics
    ]
    seen = found([*busy, *idle])
    assert seen.paid.value == pytest.approx(Decimal("129.60"))
    assert seen.idle.value == pytest.approx(Decimal("64.80"), rel=Decimal("0.01"))
    # 6000 a minute for 1440 minutes.
    assert seen.per_million.value == pytest.approx(Decimal("15"), rel=Decimal("0.001"))
    assert seen.total.generated == 6000 * 1440


def test_figures_stand_beside_the_ceilings_of_the_chips() -> None:
    """200 computed tokens a second of the 59,810 that four v6e compute for 31B at peak."""
    seen = found(Server(running=4.0, every=60).minutes(DAY))
    assert seen.peaks.computed == 200
    assert seen.arithmetic.value == 59_810
    assert seen.peaks.generated == 100
    assert seen.decode.value == pytest.approx(4 * 1640e9 / (2 * 30.69e9 / 4), rel=0.01)


@pytest.mark.parametrize(
    ("server", "minutes", "said"),
    [
        (Server(), 30, ["Too little to say: 29 min are watched"]),
        (Server(running=9.0, kv_use=0.8), 120, ["A first impression: 1.98 hours", "fits its load"]),
        (Server(running=9.0, kv_use=0.8), DAY, ["The slice fits its load"]),
        (
            Server(running=9.0, kv_use=0.3, origin=replace(ORIGIN, accelerator="v6e-8")),
            DAY,
            [
                "A v5litepod-8 holds the peak of 9 requests: 30,000 tokens of 62,608 in its cache;"
                " it costs $144.00 a day less.",
                "The busiest time would take 0.8% of what its chips compute at peak.",
            ],
        ),
        (
            Server(running=32.0, waiting=3.0, kv_use=0.4),
            DAY,
            ["Requests waited in 24", "At most 32 sequences run at once (max_num_seqs)"],
        ),
        (
            Server(running=20.0, waiting=3.0, kv_use=0.95),
            DAY,
            [
                "KV cache was above 85% in 24",
                "A v6e-8 computes 2.0 times as much at peak",
                "$129.60 a day more",
            ],
        ),
        (Server(), DAY, ["No request ran in 100% of the time"]),
        (
            Server(running=9.0, origin=replace(ORIGIN, model="o/unknown")),
            DAY,
            ["Other slices are not compared: o/unknown is not in the catalog."],
        ),
    ],
)
def test_advice(server: Server, minutes: int, said: list[str]) -> None:
    """One thing to do, with what it saves or costs; none where too little is known."""
    every = 1 if minutes < DAY else 60
    advice = " ".join(found(replace(server, every=every).minutes(minutes)).advice)
    for words in said:
        assert words in advice
    if minutes < 60:
        assert advice.startswith(said[0])
        assert "holds" not in advice


def test_the_peak_is_held_against_the_cache_of_each_slice() -> None:
    """By tokens that were in the cache, not by sequences of full length."""
    seen = found(Server(running=12.0, kv_use=0.6, every=60).minutes(DAY))
    assert option(seen, "v6e-4") == (0.6, True)
    share, holds = option(seen, "v6e-8")
    assert share == pytest.approx(60_000 / 187_152)
    assert holds
    prices = [each.per_day.value for each in seen.options if each.per_day.value is not None]
    assert prices == sorted(prices)


def test_figures_are_those_of_the_slice_that_the_stack_has_now() -> None:
    """What was served on others is named, and mixed in with nothing."""
    larger = replace(ORIGIN, accelerator="v6e-8", slice="another")
    before = Server(running=30.0, kv_use=0.9, origin=larger).minutes(121)
    seen = found([*before, *Server(running=2.0, kv_use=0.1).minutes(240, first=121)])
    assert seen.origin.accelerator == "v6e-4"
    assert (seen.total.peak, seen.peaks.kv_use) == (2, 0.1)
    assert seen.other_slices == ("2 h of google/gemma-4-31B-it on v6e-8",)


def test_the_embedded_cloud_is_free() -> None:
    """And its figures stand beside no ceiling of chips that it does not have."""
    own = replace(ORIGIN, cloud="embedded")
    seen = found(Server(running=2.0, kv_use=0.1, origin=own, every=60).minutes(DAY))
    assert (seen.paid.value, seen.per_million.value) == (0, 0)
    assert seen.arithmetic.value is None
    assert not any(each.current for each in seen.options)
    assert all(each.more_per_day is None for each in seen.options)


def test_an_archive_without_an_answer_says_nothing() -> None:
    with pytest.raises(NotFoundError, match="no snapshot with an answer"):
        found([unanswered(0, "no connection"), unanswered(1, "no connection")])


@pytest.mark.parametrize("form", ["svg", "png"])
def test_a_plot_is_the_same_file_each_time(tmp_path: Path, form: str) -> None:
    """With gaps, restarts, and a server that does not say all."""
    pytest.importorskip("matplotlib")
    silent = snapshot(9, kv_use=None, ttft=None, running=None)
    seen = found([*Server(running=3.0).minutes(5), unanswered(5, "no"), silent])
    one, other = tmp_path / f"one.{form}", tmp_path / f"other.{form}"
    draw(seen, one)
    draw(seen, other)
    assert one.read_bytes() == other.read_bytes()


def test_a_plot_of_another_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.svg or \.png"):
        require_form(tmp_path / "plot.pdf")


def test_matplotlib_is_asked_for_by_the_name_of_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is computed."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(TpuflexError, match="matplotlib") as raised:
        require_form(tmp_path / "plot.svg")
    assert str(raised.value.hint) == "Run: pip install 'tpuflex[measure]'"
