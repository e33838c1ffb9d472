"""What holds for every plan, whatever is asked."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.planning.memory_requests import MODELS, chips, model, planned
from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import Model
from tpuflex.planning.layout import lay_out
from tpuflex.planning.memory import fits, nearest_that_fit, plan_memory
from tpuflex.planning.request import MemoryRequest, NotPlannable

_TYPES = ("v6e-1", "v6e-4", "v6e-8")


@st.composite
def requests(draw: st.DrawFn) -> MemoryRequest:
    """Any model of the catalog on the chips of one host, by flags that vLLM takes."""
    row = chips(draw(st.sampled_from(_TYPES)))
    return MemoryRequest(
        model=model(draw(st.sampled_from(sorted(MODELS)))),
        accelerator=row,
        tensor_parallel_size=draw(st.sampled_from([1, 2, 3, 4, 8, row.chips])),
        max_model_len=draw(st.integers(1, 300_000)),
        kv_cache_dtype=draw(st.sampled_from(["bfloat16", "fp8"])),
        gpu_memory_utilization=draw(st.floats(0.01, 1.0)),
        max_num_seqs=draw(st.integers(1, 2048)),
        max_num_batched_tokens=draw(st.integers(16, 32_768)),
        block_size=draw(st.sampled_from([None, None, 16, 32, 128, 256])),
        implementation=draw(st.sampled_from([None, "flax_nnx", "torchax"])),
        text_only=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
    )


@st.composite
def servers(draw: st.DrawFn) -> MemoryRequest:
    """A request that fits."""
    row = chips(draw(st.sampled_from(_TYPES)))
    found = replace(
        draw(requests()),
        accelerator=row,
        tensor_parallel_size=row.chips,
        max_model_len=draw(st.integers(1, 20_000)),
        gpu_memory_utilization=draw(st.floats(0.9, 1.0)),
    )
    assume(fits(found))
    return found


def _shrunk(number: int, share: float) -> int:
    """A number from 1 to ``number``."""
    return max(int(number * share), 1)


@given(asked=requests())
def test_the_parts_add_up_to_the_chip(asked: MemoryRequest) -> None:
    """Weights, cache and workspace are the memory of the chip, to the byte."""
    plan = planned(asked)

    assert plan.weight_bytes + plan.kv_bytes + plan.workspace_bytes == plan.hbm_bytes
    assert plan.kv_bytes >= 0
    if plan.fits:  # the cache takes no more than its share
        assert plan.weight_bytes + plan.kv_bytes <= plan.hbm_bytes * asked.gpu_memory_utilization


@given(asked=servers())
def test_more_chips_never_fit_less(asked: MemoryRequest) -> None:
    """What fits on some chips fits on twice as many that can share it, and as much or more of it.

    Twice as many as 8 chips is no type of one host; the arithmetic is the same.
    """
    doubled = replace(
        asked,
        accelerator=chips("v6e-8").model_copy(update={"chips": 16}),
        tensor_parallel_size=2 * asked.tensor_parallel_size,
    )
    assume(asked.model.attention_heads % doubled.tensor_parallel_size == 0)

    assert fits(doubled)
    assert lay_out(doubled).blocks >= lay_out(asked).blocks
    assert lay_out(doubled).weight_bytes <= lay_out(asked).weight_bytes


@given(asked=servers(), share=st.floats(0, 1))
def test_what_fits_fits_with_a_shorter_context(asked: MemoryRequest, share: float) -> None:
    """A shorter context never makes a server impossible, whatever block size it brings."""
    assert fits(replace(asked, max_model_len=_shrunk(asked.max_model_len, share)))


@given(asked=servers(), share=st.floats(0, 1))
def test_no_fewer_shorter_sequences_fit(asked: MemoryRequest, share: float) -> None:
    """With one block size, at least as many shorter sequences fit.

    Without one, vLLM's choice changes with the context, and what is lost to rounding with it.
    """
    asked = replace(asked, block_size=asked.block_size or 32)
    shorter = replace(asked, max_model_len=_shrunk(asked.max_model_len, share))

    assert lay_out(shorter).full_length_sequences >= lay_out(asked).full_length_sequences


@given(asked=servers(), share=st.floats(0, 1))
def test_what_fits_fits_with_fewer_sequences(asked: MemoryRequest, share: float) -> None:
    """Fewer sequences at once never make a server impossible, nor its blocks larger."""
    few = replace(asked, max_num_seqs=_shrunk(asked.max_num_seqs, share))

    assert fits(few)
    assert lay_out(few).block_size <= lay_out(asked).block_size


@given(asked=servers(), more=st.floats(0, 1))
def test_more_utilization_never_fits_less(asked: MemoryRequest, more: float) -> None:
    """A higher utilisation fits what a lower one fits, with at least as many blocks."""
    higher = asked.gpu_memory_utilization + more * (1 - asked.gpu_memory_utilization)
    raised = replace(asked, gpu_memory_utilization=min(higher, 1.0))

    assert fits(raised)
    assert lay_out(raised).blocks >= lay_out(asked).blocks


@given(asked=requests())
def test_eight_bits_never_fit_less_than_sixteen(asked: MemoryRequest) -> None:
    """An fp8 cache never holds fewer tokens than one in bfloat16."""
    eight, sixteen = (
        lay_out(replace(asked, kv_cache_dtype=dtype)) for dtype in ("fp8", "bfloat16")
    )

    assert eight.blocks >= sixteen.blocks


@given(asked=requests())
def test_the_nearest_fit_does_fit(asked: MemoryRequest) -> None:
    """Whatever is offered instead of what does not fit can be planned without a problem."""
    offered = nearest_that_fit(asked, builtin().accelerators.values())

    assert all(planned(other).fits for other in offered)
    assert fits(asked) == (offered == (asked,))


@given(server=servers(), data=st.data())
def test_something_near_is_found(server: MemoryRequest, data: st.DataObject) -> None:
    """A server that one change made impossible is led back to one that fits."""
    spoilt = data.draw(
        st.sampled_from(
            [
                replace(server, gpu_memory_utilization=0.01),
                replace(server, max_model_len=10_000_000),
                replace(server, tensor_parallel_size=5),
                replace(server, tensor_parallel_size=32),
            ]
        )
    )
    # Contexts are offered in steps of 256.
    assume(not fits(spoilt) and fits(replace(server, max_model_len=256)))

    assert nearest_that_fit(spoilt, builtin().accelerators.values())


@given(asked=requests())
def test_a_plan_with_problems_says_what_to_write(asked: MemoryRequest) -> None:
    """Each problem names a setting and ends in an instruction; problems and concerns exclude each
    other."""
    plan = planned(asked)

    assert plan.fits is (not plan.problems)
    assert not (plan.problems and plan.concerns)
    for remark in (*plan.problems, *plan.concerns):
        assert remark.setting.startswith(("slice.", "serving.", "model."))
        assert remark.what
        assert not remark.what.endswith(".")
        assert remark.nearest.endswith(".") or not remark.nearest
    assert all(problem.nearest for problem in plan.problems)


@given(asked=requests(), number=st.integers(2**31, 10**400))
def test_absurd_numbers_are_not_planned(asked: MemoryRequest, number: int) -> None:
    """Numbers that no server takes are said to be out of range, at once."""
    for name, absurd in (
        ("max_model_len", replace(asked, max_model_len=number)),
        ("max_num_seqs", replace(asked, max_num_seqs=number)),
        ("max_num_batched_tokens", replace(asked, max_num_batched_tokens=number)),
        ("block_size", replace(asked, block_size=number)),
    ):
        plan = plan_memory(absurd)

        assert isinstance(plan, NotPlannable)
        assert name in plan.reason


_COUNTS = st.one_of(st.integers(1, 64), st.integers(1, 2**63 - 1))
_COUNTS_OR_NONE = st.one_of(st.none(), _COUNTS)


@st.composite
def rows(draw: st.DrawFn) -> Model:
    """A row that a user may write: any numbers that the catalog takes."""
    fields = {
        "family": st.sampled_from(["gemma4", "gemma3", "llama", "qwen2", "qwen3", "qwen3_moe"]),
        "implementation": st.sampled_from(["flax_nnx", "torchax"]),
        "tied_embeddings": st.booleans(),
        **dict.fromkeys(
            (
                "layers",
                "hidden_size",
                "attention_heads",
                "kv_heads",
                "head_dim",
                "vocab_size",
                "text_params",
            ),
            _COUNTS,
        ),
        **dict.fromkeys(
            (
                "intermediate_size",
                "wide_intermediate_size",
                "global_kv_heads",
                "global_head_dim",
                "full_attention_every",
                "window",
                "vision_params",
                "max_context",
            ),
            _COUNTS_OR_NONE,
        ),
        **dict.fromkeys(
            ("wide_layers", "kv_shared_layers", "experts", "expert_size", "per_layer_embedding"),
            st.one_of(st.just(0), _COUNTS),
        ),
    }
    shape = draw(st.fixed_dictionaries(fields))
    return model("Llama").model_copy(update={**shape, "vision_replicated_params": None})


@given(row=rows(), asked=requests())
def test_any_row_is_planned_or_not(row: Model, asked: MemoryRequest) -> None:
    """Whatever numbers a user's row has, there is a plan or a reason, at once and without error."""
    plan = plan_memory(replace(asked, model=row), builtin().accelerators.values())

    if isinstance(plan, NotPlannable):
        assert plan.reason == f"no layer of {row.name} owns a KV cache"
    else:
        assert plan.weight_bytes + plan.kv_bytes + plan.workspace_bytes == plan.hbm_bytes
