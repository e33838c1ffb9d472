"""Published tables are read row by row, and each point is held against its chips."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.catalog.rows import Source
from tpuflex.errors import SettingsError
from tpuflex.planning.plausibility import PointVerdict, judge_point
from tpuflex.planning.published import (
    COLUMNS,
    FIGURES,
    LARGEST_TABLE,
    PublishedPoint,
    builtin_points,
    read_table,
)

CATALOG = builtin()
HERE = Source(where="a table", date=date(2026, 11, 29))
DENSE, MOE = "google/gemma-4-31B-it", "google/gemma-4-26B-A4B-it"
#: Beginnings of the sources of the control figures: what others measured with care.
CONTROLS = (
    "https://github.com/AI-Hypercomputer/tpu-recipes",
    "https://newsletter.semianalysis.com",
    "https://github.com/xbill9/gemma4-dev/blob/main/benchmarks/ROLLUP.md",
)


def point(**values: object) -> PublishedPoint:
    known = {"model": DENSE, "accelerator": "v6e-4", "source": HERE}
    return PublishedPoint.model_validate({**known, **values})


def test_what_comes_with_it_names_its_sources() -> None:
    """Each published figure belongs to a model and an accelerator type that are known, or says
    that its model is not, and to a page."""
    strange = {row.model for row in builtin_points()} - set(CATALOG.models)

    assert strange == {"Qwen3.5"}
    assert {row.accelerator for row in builtin_points()} <= set(CATALOG.accelerators)
    assert all(row.source.where.startswith("https://") for row in builtin_points())


def test_no_control_figure_is_flagged() -> None:
    """What was measured with care is possible; what is not known of it is said."""
    controls = [row for row in builtin_points() if row.source.where.startswith(CONTROLS)]
    verdicts = [judge_point(row, CATALOG).verdict for row in controls]

    assert len(controls) == 7
    assert set(verdicts) == {"possible", "not_known"}


def test_every_published_figure_above_a_ceiling_is_flagged() -> None:
    """Of the dense model all throughputs from 16 requests on are impossible, and its price; the
    peaks of the mixture of experts are not credible; long contexts at 256 and more do not fit the
    cache."""
    judged = {
        (row.model, row.accelerator, row.concurrency, row.context, row.prompt_tokens_per_second): (
            judge_point(row, CATALOG).verdict
        )
        for row in builtin_points()
        if not row.source.where.startswith(CONTROLS)
    }
    flagged: dict[PointVerdict, set[tuple[object, ...]]] = {}
    for key, verdict in judged.items():
        flagged.setdefault(verdict, set()).add((key[0].rpartition("/")[2], *key[2:]))

    assert flagged.keys() == {"possible", "not_credible", "impossible", "not_feasible"}
    assert flagged["impossible"] == {
        ("gemma-4-31B-it", 16, None, 133_697.0),
        ("gemma-4-31B-it", 32, None, 191_631.0),
        ("gemma-4-31B-it", 64, None, 261_802.0),
        ("gemma-4-31B-it", 128, None, 328_909.0),
        ("gemma-4-31B-it", 256, None, 352_654.0),
        ("gemma-4-31B-it", 256, None, 463_345.0),
        ("gemma-4-31B-it", 512, None, 318_854.0),
        ("gemma-4-31B-it", 1024, None, 240_170.0),
    }
    assert flagged["not_credible"] == {
        ("gemma-4-31B-it", 8, None, 88_055.5),
        ("gemma-4-E4B-it", None, None, 463_345.0),
        ("gemma-4-26B-A4B-it", 1024, None, 467_825.0),
        ("gemma-4-26B-A4B-it", None, None, 483_930.0),
    }
    assert {key[1:3] for key in flagged["not_feasible"]} == {
        (256, 2048),
        *((users, context) for users in (256, 512, 1024) for context in (8192, 16_384)),
    }


@pytest.mark.parametrize(
    ("figures", "verdict", "reason"),
    [
        ({"prompt_tokens_per_second": 463_345}, "impossible", "is 775% of the arithmetic ceiling"),
        ({"requests_per_second": 70, "context": 2048}, "impossible", "143,360 tokens/s"),
        (
            {"output_tokens_per_second": 70_000, "prompt_tokens_per_second": 60_000},
            "impossible",
            "prompts and answers together: 130,000 tokens/s",
        ),
        ({"output_tokens_per_second": 150, "concurrency": 1}, "not_credible", "1.4 times the 107"),
        ({"output_tokens_per_second": 600, "concurrency": 1}, "not_credible", "5.6 times the 107"),
        (
            {"output_tokens_per_second": 600, "concurrency": 1, "setup": "fp8, no speculation"},
            "impossible",
            "and 4 bits are four times as fast at most",
        ),
        (
            {"output_tokens_per_second": 4000, "concurrency": 1, "setup": "EAGLE-3"},
            "impossible",
            "both 4 bits and speculation are 32 times as fast at most",
        ),
        ({"output_tokens_per_second": 600}, "possible", ""),
        ({"ttft_s": 0.1, "context": 8192}, "not_credible", "takes 0.131 s at least"),
        ({"ttft_s": 0.03, "context": 8192}, "impossible", "takes 0.131 s at least"),
        ({"ttft_s": 0.001}, "impossible", "any prompt takes 0.00894 s at least"),
        ({"inter_token_s": 0.005}, "not_credible", "5 ms between two tokens"),
        ({"inter_token_s": 0.001}, "not_credible", "reading the weights once takes 9.37 ms"),
        ({"inter_token_s": 0.0001}, "impossible", "reading the weights once takes 9.37 ms"),
        ({"usd_per_million": 0.00325}, "impossible", "too low by a factor of 3.7"),
        ({"usd_per_million": 0.05}, "possible", ""),
        (
            {"requests_per_second": 20, "ttft_s": 2, "concurrency": 16},
            "impossible",
            "are 40 at once, not 16",
        ),
        (
            {
                "output_tokens_per_second": 1000,
                "output": 101,
                "inter_token_s": 0.1,
                "concurrency": 64,
            },
            "impossible",
            "9.9 requests/s that take 10 s each are 99 at once, not 64",
        ),
        (
            {
                "requests_per_second": 1,
                "ttft_s": 2,
                "inter_token_s": 0.02,
                "output": 128,
                "concurrency": 256,
            },
            "not_credible",
            "are 4.54 at once: most of the 256 were not in flight",
        ),
        ({"requests_per_second": 1, "ttft_s": 2, "concurrency": 256}, "possible", ""),
        (
            {"requests_per_second": 10, "context": 1000, "prompt_tokens_per_second": 20_000},
            "impossible",
            "10 requests/s of 1,000 prompt tokens each are 10,000 tokens/s, not 20,000",
        ),
        (
            {"requests_per_second": 10, "context": 1000, "prompt_tokens_per_second": 2000},
            "possible",
            "",
        ),
        (
            {"requests_per_second": 10, "output": 100, "output_tokens_per_second": 10},
            "not_credible",
            "are 1,000 tokens/s, not 10",
        ),
        ({"concurrency": 256, "context": 16_384}, "not_feasible", "are 4,194,304"),
        ({"concurrency": 4, "context": 16_384}, "possible", ""),
        ({"accelerator": "v6e-1", "concurrency": 1, "context": 8}, "not_feasible", "do not fit"),
    ],
)
def test_verdicts(figures: dict[str, object], verdict: PointVerdict, reason: str) -> None:
    """Each bound flags what is above it, says by how much, and leaves alone what is below."""
    judged = judge_point(point(**figures), CATALOG)

    assert judged.verdict == verdict
    assert reason in "; ".join(judged.reasons)
    assert bool(judged.reasons) == (verdict != "possible")


@pytest.mark.parametrize(
    ("strange", "missing"),
    [
        ({"model": "google/gemma-4-13B-it"}, "the model google/gemma-4-13B-it is not in the cat"),
        ({"accelerator": "v6e-3"}, "the accelerator type v6e-3 is not in the catalog (nearest: v6"),
    ],
)
def test_what_is_not_known_is_said(strange: dict[str, object], missing: str) -> None:
    """A point whose model or chips the catalog lacks is not judged, and what is missing is said."""
    judged = judge_point(point(ttft_s=1e-6, **strange), CATALOG)

    assert (judged.verdict, judged.reasons) == ("not_known", ())
    assert judged.missing[0].startswith(missing)


def test_a_part_that_cannot_be_judged_is_said() -> None:
    """Without a price in the catalog a claimed price alone is not known; beside a figure that can
    be judged it is missing."""
    without = Catalog.of(CATALOG.rows.model_copy(update={"prices": ()}))
    alone = judge_point(point(usd_per_million=1e-6), without)
    beside = judge_point(point(usd_per_million=1e-6, ttft_s=1), without)

    assert (alone.verdict, beside.verdict) == ("not_known", "possible")
    assert alone.missing == beside.missing == ("no price of v6e is known",)


@given(
    numbers=st.fixed_dictionaries(
        {"model": st.sampled_from((DENSE, MOE)), "ttft_s": st.floats(1e-300, 1e9)},
        optional={
            **dict.fromkeys(("concurrency", "context", "output"), st.integers(1, 10**15)),
            **dict.fromkeys((set(FIGURES) - {"ttft_s"}), st.floats(1e-300, 1e9)),
        },
    )
)
def test_any_numbers_have_a_verdict(numbers: dict[str, object]) -> None:
    """However absurd a point is, it is judged, and fits into a JSON document."""
    judged = judge_point(point(**numbers), CATALOG)

    assert json.dumps(judged.to_json())
    assert (judged.verdict in ("possible", "not_known")) == (not judged.reasons)


def test_numbers_as_reports_print_them() -> None:
    """Thousands may be separated, columns stand in any order, and empty lines and cells say
    nothing; a row without a source has that of its file."""
    table = (
        "\ufeffTTFT_s , accelerator,prompt_tokens_per_second,model\r\n"
        '1.5,v6e-4,"463,345.5",a/b\r\n\r\n,v6e-8,7,a/b\r\n'
    )
    first, second = read_table(table.encode(), "t.csv", HERE)

    assert (first.ttft_s, first.prompt_tokens_per_second) == (1.5, 463_345.5)
    assert (second.ttft_s, second.accelerator) == (None, "v6e-8")
    assert first.source == HERE


@pytest.mark.parametrize(
    ("table", "line", "column", "words"),
    [
        ("model,accelerator,ttft\na,v6e-4,1\n", 1, 3, "ttft: is not a column"),
        ("model,ttft_s\na,1\n", 1, 1, "accelerator: is missing"),
        ("model,model,accelerator\n", 1, 2, "model: is there twice"),
        ("model,accelerator,ttft_s\na,v6e-4,fast\n", 2, 3, "ttft_s: 'fast'"),
        ("model,accelerator,ttft_s\n\na,v6e-4,-1\n", 3, 3, "ttft_s: '-1'"),
        ("model,accelerator,ttft_s\na,v6e-4,nan\n", 2, 3, "ttft_s: 'nan'"),
        ("model,accelerator,concurrency,context\na,v6e-4,1.5,8\n", 2, 3, "concurrency: '1.5'"),
        ("model,accelerator,ttft_s\n,v6e-4,1\n", 2, 1, "model: is missing"),
        ("model,accelerator,ttft_s\na,v6e-4\n", 2, 1, "has 2 cells, and the first line 3"),
        ("model,accelerator,ttft_s\na,v6e-4,\n", 2, 1, "has no figure"),
        ("model,accelerator,ttft_s,date\na,v6e-4,1,May\n", 2, 4, "date: 'May'"),
        ('model,accelerator,ttft_s\n"a"b,v6e-4,1\n', 2, 1, "is no CSV here"),
    ],
)
def test_bad_tables(table: str, line: int, column: int, words: str) -> None:
    """What is wrong is said with its line, and its column by number and name."""
    with pytest.raises(SettingsError) as raised:
        read_table(table.encode(), "t.csv", HERE)

    (finding,) = raised.value.findings
    assert finding.position is not None
    assert (finding.position.line, finding.position.column) == (line, column)
    assert words in str(finding)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "accelerator: is missing"),
        (b"model,accelerator\n", "has no rows"),
        (b"model,accelerator\n\xff", "is not UTF-8 text"),
        (b"x" * (LARGEST_TABLE + 1), "is longer than"),
        (b"model,accelerator,ttft_s\n" + b"a,v6e-4,1\n" * 20_001, "has more than 20,000 rows"),
    ],
    ids=["empty", "header alone", "binary", "long", "many rows"],
)
def test_files_that_are_no_table(content: bytes, words: str) -> None:
    """What is not a table within bounds is refused."""
    with pytest.raises(SettingsError) as raised:
        read_table(content, "t.csv", HERE)

    assert words in str(raised.value)


@given(content=st.binary(max_size=300) | st.text(alphabet=',"\nab1', max_size=300).map(str.encode))
def test_any_bytes_are_rows_or_refused(content: bytes) -> None:
    """Whatever stands in a file, it gives rows or an error of ours."""
    header = ",".join(COLUMNS).encode() + b"\n"
    for table in (content, header + content):
        with suppress(SettingsError):
            assert read_table(table, "t.csv", HERE)
