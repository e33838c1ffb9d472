"""Gates are read with care, and decided by results alone."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.errors import UsageError
from tpuflex.measure.gates import METRICS, Gate, GateVerdict, parse_gate, parse_gates
from tpuflex.measure.run import Load, Measured, Point, Quantiles

SPREAD = Quantiles(mean=0.5, p50=0.4, p90=1.0, p95=1.2, p99=2.0, max=3.0)
MEASURED = Measured(
    seconds=10,
    completed=64,
    requests_per_second=6.4,
    output_per_second=409.6,
    prompt_per_second=6553.6,
    ttft=SPREAD,
    latency=SPREAD,
)
POINT = Point(
    load=Load(concurrency=8, context=1024, output=64, requests=64),
    verdict="result",
    measured=MEASURED,
    usd_per_million=Decimal("0.25"),
)


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("ttft_p95<1.5s@128", ("ttft_p95", "<", 1.5, 128)),
        ("ttft_p95 <= 1500 ms @ 128", ("ttft_p95", "<=", 1.5, 128)),
        ("itl_mean<50ms", ("itl_mean", "<", 0.05, None)),
        ("e2e_max<.5s@1", ("e2e_max", "<", 0.5, 1)),
        ("output_tokens_per_s>=1000", ("output_tokens_per_s", ">=", 1000.0, None)),
        ("requests_per_s>0.5@64", ("requests_per_s", ">", 0.5, 64)),
        ("usd_per_million<0.5", ("usd_per_million", "<", 0.5, None)),
    ],
)
def test_gates(text: str, gate: tuple[object, ...]) -> None:
    """Metric, comparison, limit in seconds, and the step or every one."""
    read = parse_gate(text)

    assert (read.metric, read.comparison, pytest.approx(read.limit), read.at) == gate
    assert parse_gate(read.text) == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "write METRIC<LIMIT"),
        ("ttft_p95", "write METRIC<LIMIT"),
        ("ttft_p95=1s", "write METRIC<LIMIT"),
        ("ttft_p95<1s<2s", "write METRIC<LIMIT"),
        ("ttft_p95<1s@8@9", "write METRIC<LIMIT"),
        ("<1s", "it names no metric"),
        ("ttft_p96<1s", "'ttft_p96' is not measured: did you mean ttft_p9"),
        ("ttft<1s", "'ttft' is not measured"),
        (
            "colour<1",
            "ttft, tpot, itl, e2e with mean, p50, p90, p95, p99, max; output_tokens_per_s",
        ),
        ("ttft_p95<", "'' is no limit, such as 1.5s or 1500ms"),
        ("ttft_p95<-1s", "'-1s' is no limit"),
        ("ttft_p95<1e3s", "'1e3s' is no limit"),
        ("ttft_p95<nans", "'nans' is no limit"),
        ("ttft_p95<" + "9" * 400 + "s", "is no limit"),
        ("ttft_p95<1.5", "its unit is missing: write seconds or milliseconds, such as 1.5s"),
        ("ttft_p95<1.5min", "'min' is no unit of it"),
        ("requests_per_s>5/s", "requests_per_s has no unit: write 5"),
        ("ttft_p95<1s@", "'' is no number of requests in flight"),
        ("ttft_p95<1s@0", "'0' is no number of requests in flight"),
        ("ttft_p95<1s@1.5", "'1.5' is no number of requests in flight"),
        ("ttft_p95<1s@3", "the ramp has no step of 3, only 1, 2, 4"),
    ],
)
def test_what_is_no_gate(text: str, why: str) -> None:
    """A gate that cannot be decided is refused, with what to write."""
    with pytest.raises(UsageError) as raised:
        parse_gates([text], (1, 2, 4))

    assert raised.value.option == "--gate"
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("ttft_p95<1.5s", "holds"),
        ("ttft_p95<1200ms", "fails"),
        ("ttft_p95<=1200ms", "holds"),
        ("ttft_p99<1.5s", "fails"),
        ("e2e_mean<1s", "holds"),
        ("e2e_max<3s", "fails"),
        ("output_tokens_per_s>400", "holds"),
        ("prompt_tokens_per_s>=10000", "fails"),
        ("requests_per_s>6", "holds"),
        ("usd_per_million<0.2", "fails"),
        ("itl_p50<1s", "undecided"),  # nobody measured it
    ],
)
def test_a_result_is_decided(text: str, verdict: GateVerdict) -> None:
    """The figure is compared with the limit; one that is missing decides nothing."""
    assert parse_gate(text).verdict(POINT) == verdict


@given(
    metric=st.sampled_from(METRICS),
    comparison=st.sampled_from(("<", "<=", ">", ">=")),
    limit=st.floats(0, 1e9),
    verdict=st.sampled_from(("not_a_result", "not_feasible")),
)
def test_what_is_no_result_decides_nothing(
    metric: str, comparison: str, limit: float, verdict: str
) -> None:
    """No gate passes or fails by a step that contradicts itself, or was not tried; by a result
    a limit and its opposite never give the same."""
    gate = Gate(metric, comparison, limit, None, "")
    opposite = Gate(metric, {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[comparison], limit, 8, "")

    assert gate.verdict(POINT.model_copy(update={"verdict": verdict})) == "undecided"
    assert gate.verdict(POINT) == "undecided" or gate.verdict(POINT) != opposite.verdict(POINT)


GATES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(METRICS),
    st.sampled_from(("<", "<=", ">", ">=")),
    st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,3})?(s|ms| ms|)", fullmatch=True),
    st.from_regex(r"(@[1-9][0-9]{0,3})?", fullmatch=True),
)


@given(text=GATES | st.text(max_size=40))
def test_any_text_is_a_gate_or_refused(text: str) -> None:
    """Any text is refused as wrong usage, or is a gate whose own text is read as the same gate."""
    try:
        gate = parse_gate(text)
    except UsageError:
        return
    assert parse_gate(gate.text) == gate
