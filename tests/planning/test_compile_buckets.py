"""Buckets and programs that start-up compiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.memory_requests import request
from tpuflex.planning.compile_buckets import compile_buckets, count_token_buckets

_DOUBLED = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@pytest.mark.parametrize(
    ("tokens", "sequences", "gap", "text_only", "counts"),
    [
        (4096, 256, 0, False, (9, 6, 18, 199)),
        (4096, 256, 512, False, (13, 6, 26, 267)),
        (2048, 16, 0, True, (8, 2, 8, 72)),
    ],
)
def test_counts_of_the_logs(
    tokens: int, sequences: int, gap: int, text_only: bool, counts: tuple[int, ...]
) -> None:
    """Buckets of tokens and of requests, programs of the backbone, and all calls."""
    buckets = compile_buckets(
        request(
            max_num_batched_tokens=tokens,
            max_num_seqs=sequences,
            bucket_padding_gap=gap,
            text_only=text_only,
        )
    )

    assert (
        len(buckets.tokens),
        len(buckets.requests),
        buckets.backbones,
        buckets.programs,
    ) == counts


def test_buckets_are_doubled_and_end_in_the_budget() -> None:
    """Without a gap each bucket is twice the one before; the last is the budget itself."""
    assert compile_buckets(request(max_num_batched_tokens=4096)).tokens == _DOUBLED
    assert compile_buckets(request(max_num_batched_tokens=5000)).tokens == (*_DOUBLED, 5008)


def test_a_gap_adds_buckets_in_steps() -> None:
    """From the gap on, buckets are as far apart as the gap."""
    buckets = compile_buckets(request(max_num_batched_tokens=2048, bucket_padding_gap=512))

    assert buckets.tokens == (16, 32, 64, 128, 256, 512, 1024, 1536, 2048)


def test_requests_end_in_their_number() -> None:
    """Buckets of requests begin at 8 and end in max_num_seqs, a power of two or not."""
    assert compile_buckets(request(max_num_seqs=100)).requests == (8, 16, 32, 64, 100)
    assert compile_buckets(request(max_num_seqs=1)).requests == (8,)


def test_attention_can_be_compiled_per_bucket_of_requests() -> None:
    """ATTN_BUCKETIZED_NUM_REQS makes a backbone for each bucket of requests."""
    one = compile_buckets(request("Llama", "v6e-1", max_num_seqs=256))
    many = compile_buckets(
        request("Llama", "v6e-1", max_num_seqs=256, attention_request_buckets=True)
    )

    assert one.backbones == len(one.tokens)
    assert many.backbones == 6 * len(many.tokens)


def test_without_warm_up_nothing_is_compiled() -> None:
    """enforce_eager leaves compilation to the first requests."""
    assert compile_buckets(request(precompile=False)).programs == 0


def test_programs_of_speculative_decoding_are_not_known() -> None:
    """There is no formula for speculative decoding, so no number is given."""
    buckets = compile_buckets(request(speculative=True))

    assert (buckets.backbones, buckets.programs) == (None, None)


@given(
    tokens=st.integers(1, 20_000),
    gap=st.one_of(st.just(0), st.integers(1, 30_000)),
    dtype=st.sampled_from(["bfloat16", "fp8"]),
)
def test_every_step_has_a_bucket(tokens: int, gap: int, dtype: str) -> None:
    """Buckets ascend, hold every step up to the budget, and none is far beyond it."""
    asked = request(max_num_batched_tokens=tokens, bucket_padding_gap=gap, kv_cache_dtype=dtype)

    buckets = compile_buckets(asked).tokens

    assert list(buckets) == sorted(set(buckets))
    assert tokens <= buckets[-1] < tokens + 16
    # The count that guards against endless lists is no estimate of another order.
    assert len(buckets) <= 1.1 * count_token_buckets(asked) + 3
