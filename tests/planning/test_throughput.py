"""Ceilings follow from peak figures and shapes, and claims are held against them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.catalog.catalog import builtin
from tpuflex.planning.figure import Figure
from tpuflex.planning.request import MemoryRequest
from tpuflex.planning.throughput import (
    active_params,
    arithmetic_ceiling,
    bandwidth_ceiling,
    decode_ceiling,
    first_token_bound,
    judge,
    kv_bytes_read,
    prompt_ceiling,
)
from tpuflex.planning.token_cost import token_prices

CATALOG = builtin()
MODELS = sorted(CATALOG.models)
DENSE = CATALOG.models["google/gemma-4-31B-it"]
V6E_4 = CATALOG.accelerators["v6e-4"]


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("google/gemma-4-31B-it", 30.7),
        ("google/gemma-4-26B-A4B-it", 3.82),  # its publisher says 3.8
        ("google/gemma-4-E2B-it", 2.30),  # without 2.35 of per-layer embedding tables
        ("Qwen/Qwen3-30B-A3B", 3.0),  # its publisher says 3.3 with both embedding tables
        ("meta-llama/Llama-3.1-8B-Instruct", 7.5),
    ],
)
def test_active_parameters(model: str, billions: float) -> None:
    """What a token is multiplied with leaves out idle experts and tables that are looked up."""
    assert active_params(CATALOG.models[model]) / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(
    ("model", "claim", "verdict", "share"),
    [
        ("google/gemma-4-31B-it", 463_345, "impossible", 7.75),
        ("google/gemma-4-26B-A4B-it", 467_825, "not_credible", 0.974),
        ("google/gemma-4-26B-A4B-it", 483_930, "not_credible", 1.008),
        ("google/gemma-4-26B-A4B-it", 18_554, "possible", 0.039),
        ("google/gemma-4-31B-it", 14_778, "possible", 0.247),
    ],
)
def test_published_claims(model: str, claim: float, verdict: str, share: float) -> None:
    """The published peaks on v6e-4 are flagged; what a single request reached is not."""
    judgement = judge(CATALOG.models[model], V6E_4, claim)

    assert judgement.verdict == verdict
    assert judgement.share == pytest.approx(share, rel=0.01)
    assert bool(judgement.text) == (verdict != "possible")


def test_eight_bits_are_not_called_impossible() -> None:
    """What chips compute in int8 is above their bfloat16 peak, so a claim between the two is held
    against bfloat16 by name."""
    ceiling = arithmetic_ceiling(DENSE, V6E_4)
    assert ceiling is not None

    judgement = judge(DENSE, V6E_4, 1.5 * ceiling)

    assert judgement.verdict == "not_credible"
    assert judgement.text.endswith("not credible in bfloat16")


def test_layers_that_share_a_cache_project_no_keys() -> None:
    """E2B holds 18.9 million parameters for keys and values that no token is multiplied with."""
    small = CATALOG.models["google/gemma-4-E2B-it"]
    tables = small.vocab_size * small.per_layer_embedding * small.layers

    assert small.text_params - tables - active_params(small) == 18_874_368


def test_the_least_price_is_that_of_prompt_tokens() -> None:
    """A prompt token needs no output head, so a bound on computed tokens is taken without it."""
    hour = Figure(Decimal(10), "USD per hour", "list")
    prices = token_prices(V6E_4, DENSE, hour)
    highest = prompt_ceiling(DENSE, V6E_4)

    assert highest is not None
    assert prices.least.value is not None
    assert float(prices.least.value) == pytest.approx(10 / 3600 * 1e6 / highest, rel=1e-4)


def test_speculation_is_named_with_the_bandwidth_ceiling() -> None:
    """A step that speculates may give several tokens, which the ceiling does not count."""
    request = MemoryRequest(
        model=DENSE, accelerator=V6E_4, tensor_parallel_size=4, max_model_len=4096, speculative=True
    )

    assert "speculation" in bandwidth_ceiling(request, 16.4).basis


def test_nothing_is_judged_without_a_peak() -> None:
    """Chips whose peak is not known have no ceiling, and no claim about them is flagged."""
    unknown = V6E_4.model_copy(update={"bf16_tflops": None})

    assert arithmetic_ceiling(DENSE, unknown) is None
    assert decode_ceiling(DENSE, unknown, 1, 1024, 2) is None
    assert first_token_bound(DENSE, unknown, 1024, 1) is None
    assert judge(DENSE, unknown, 1e12).verdict == "possible"


def test_decoding_alone_reads_all_weights_for_each_token() -> None:
    """One sequence of the 31B model on four v6e chips gets at most 106 tokens a second: 61.4 GB at
    6.55 TB/s."""
    assert decode_ceiling(DENSE, V6E_4, 1, 1, 2) == pytest.approx(106.7, rel=0.01)


def test_a_cache_behind_a_window_is_read_within_it() -> None:
    """Beyond the window only full-attention layers read more."""
    per_token = kv_bytes_read(DENSE, 4, 10_001) - kv_bytes_read(DENSE, 4, 10_000)

    assert per_token == 10 * 2 * 1 * 512 * 2  # 10 layers, one head per chip, K and V, bfloat16


@given(
    model=st.sampled_from(MODELS),
    prompt=st.integers(1, 1_000_000),
    concurrency=st.integers(1, 4096),
)
def test_first_token_bounds(model: str, prompt: int, concurrency: int) -> None:
    """A burst is never quicker than one request alone, longer prompts never quicker than short
    ones, and no bound claims more tokens a second than the chips compute."""
    row = CATALOG.models[model]
    bound = first_token_bound(row, V6E_4, prompt, concurrency)
    longer = first_token_bound(row, V6E_4, prompt + 1, concurrency)

    assert bound is not None
    assert longer is not None
    assert 0 < bound.alone <= bound.burst_mean
    assert bound.alone <= longer.alone
    ceiling = prompt_ceiling(row, V6E_4)
    assert ceiling is not None
    assert prompt / bound.alone <= ceiling * (1 + 1e-9)


@given(
    model=st.sampled_from(MODELS),
    sequences=st.integers(1, 2048),
    context=st.integers(1, 300_000),
)
def test_decode_ceilings(model: str, sequences: int, context: int) -> None:
    """More sequences never decode fewer tokens in total, longer ones never more, and arithmetic
    limits both."""
    row = CATALOG.models[model]
    rate = decode_ceiling(row, V6E_4, sequences, context, 2)
    more = decode_ceiling(row, V6E_4, sequences + 1, context, 2)
    longer = decode_ceiling(row, V6E_4, sequences, context + 1, 2)
    ceiling = arithmetic_ceiling(row, V6E_4)

    assert rate is not None
    assert more is not None
    assert longer is not None
    assert ceiling is not None
    assert longer <= rate * (1 + 1e-9) <= more * (1 + 2e-9)
    assert rate <= ceiling


@given(
    counts=st.fixed_dictionaries(
        {
            name: st.integers(1, 2**63 - 1)
            for name in ("layers", "hidden_size", "vocab_size", "text_params", "kv_heads")
        }
        | {
            name: st.integers(0, 2**63 - 1)
            for name in ("kv_shared_layers", "experts", "expert_size", "per_layer_embedding")
        }
    ),
    peaks=st.fixed_dictionaries(
        {
            name: st.floats(0, exclude_min=True, allow_infinity=True)
            for name in ("bf16_tflops", "hbm_gbps")
        }
    ),
    chips=st.integers(1, 2**63 - 1),
    load=st.tuples(st.integers(1, 100_000), st.integers(1, 10_000_000)),
)
def test_rows_that_cannot_be(
    counts: dict[str, int], peaks: dict[str, float], chips: int, load: tuple[int, int]
) -> None:
    """A user's row with numbers that make no sense gives numbers or nothing, never an error."""
    row = DENSE.model_copy(update=counts)
    accelerator = V6E_4.model_copy(update={**peaks, "chips": chips})
    sequences, context = load

    for rate in (
        arithmetic_ceiling(row, accelerator),
        prompt_ceiling(row, accelerator),
        decode_ceiling(row, accelerator, sequences, context, 2),
    ):
        assert rate is None or round(rate) >= 0
    bound = first_token_bound(row, accelerator, context, sequences)
    assert bound is None or bound.alone <= bound.burst_mean
    assert judge(row, accelerator, 463_345).verdict


def test_quantised_weights_have_no_bandwidth_ceiling_here() -> None:
    """How many bytes a quantised weight takes is not known, so nothing is said of its reading."""
    request = MemoryRequest(
        model=DENSE, accelerator=V6E_4, tensor_parallel_size=4, max_model_len=4096
    )

    assert bandwidth_ceiling(request, 16.4).value == 1307
    assert bandwidth_ceiling(replace(request, quantized_on_load=True), 16.4).value is None
    assert bandwidth_ceiling(replace(request, weight_bytes=2**33), 16.4).value is None
