"""The converter's rules: names, row order, shards. That its result answers is shown end to end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.weights.gguf_checkpoint import hugging_face_name, rotary_row_order, shards


@pytest.mark.parametrize(
    ("gguf", "expected"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("output.weight", "lm_head.weight"),
        ("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"),
        ("blk.29.ffn_down.weight", "model.layers.29.mlp.down_proj.weight"),
        ("blk.7.ffn_norm.weight", "model.layers.7.post_attention_layernorm.weight"),
        ("blk.7.attn_norm.weight", "model.layers.7.input_layernorm.weight"),
    ],
)
def test_names(gguf: str, expected: str) -> None:
    """Llama's tensors have one name each on both sides."""
    assert hugging_face_name(gguf) == expected


@pytest.mark.parametrize("gguf", ["blk.0.ffn_gate_inp.weight", "rope_freqs.weight", "blk.0.x"])
def test_unknown_tensors_are_refused(gguf: str) -> None:
    """A tensor that a Llama does not have is an error, never left out."""
    with pytest.raises(ValueError, match="not a tensor"):
        hugging_face_name(gguf)


def test_rows_of_a_head_are_taken_apart() -> None:
    """GGUF interleaves the two halves of each head; the first half comes first again."""
    assert rotary_row_order(8, 2) == [0, 2, 1, 3, 4, 6, 5, 7]
    assert rotary_row_order(6, 1) == [0, 2, 4, 1, 3, 5]


@given(st.integers(1, 8), st.integers(1, 16))
def test_row_order_undoes_the_interleaving(heads: int, half: int) -> None:
    """The order is a permutation, and the inverse of llama.cpp's for every shape."""
    rows = heads * 2 * half
    interleaved = [
        head * 2 * half + side * half + pair
        for head in range(heads)
        for pair in range(half)
        for side in range(2)
    ]
    order = rotary_row_order(rows, heads)
    assert [interleaved[index] for index in order] == list(range(rows))


@given(st.lists(st.integers(1, 50)), st.integers(1, 60))
def test_shards_hold_everything_in_order(sizes: list[int], limit: int) -> None:
    """Every tensor is in one shard, in order, and no shard of several exceeds the limit."""
    named = {f"t{index}": size for index, size in enumerate(sizes)}
    groups = shards(named, limit)
    assert [name for group in groups for name in group] == list(named)
    for group in groups:
        assert len(group) == 1 or sum(named[name] for name in group) <= limit
