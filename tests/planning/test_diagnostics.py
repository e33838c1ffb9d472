"""What a plan says: why something cannot be served, what fits instead, and what to know."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.planning.memory_requests import chips, model, planned, request
from tpuflex.planning.diagnostics import Diagnostic
from tpuflex.planning.memory import MemoryPlan, plan_memory
from tpuflex.planning.request import NotPlannable


def _concern(plan: MemoryPlan, setting: str) -> Diagnostic:
    [found] = [remark for remark in plan.concerns if remark.setting == setting]
    return found


def test_weights_that_do_not_fit_name_the_chips_that_hold_them() -> None:
    """A model too large for the chip is refused with the smallest type that takes it."""
    [problem] = planned(request("31B", "v6e-1")).problems

    assert problem == Diagnostic(
        "slice.accelerator_type",
        "the weights of google/gemma-4-31B-it take 58.25 GiB of each chip of v6e-1, and "
        "gpu_memory_utilization 0.92 gives weights and cache 28.74 GiB",
        "Write accelerator_type v6e-4 with tensor_parallel_size 4.",
    )


def test_a_context_that_does_not_fit_names_every_way_out() -> None:
    """One sequence too long: a smaller cache type, more chips, or what fits."""
    [problem] = planned(request("31B", max_model_len=100_000)).problems

    assert problem == Diagnostic(
        "serving.flags.max_model_len",
        "one sequence of 100,000 tokens needs 20.98 GiB of KV cache on each chip, and 14.14 GiB "
        "are left beside the weights (67,408 tokens)",
        "Write kv_cache_dtype fp8, or accelerator_type v6e-8 with tensor_parallel_size 8, or "
        "max_model_len 67328.",
    )


def test_changes_are_combined_where_one_is_not_enough() -> None:
    """A context that only more chips and a smaller cache together hold is offered with both."""
    [problem] = planned(request("31B", max_model_len=250_000)).problems

    assert problem.nearest == (
        "Write accelerator_type v6e-8 with tensor_parallel_size 8 and kv_cache_dtype fp8, or "
        "max_model_len 67328."
    )


def test_a_shorter_context_is_offered_on_the_fewest_chips() -> None:
    """The whole context of 31B takes eight chips; a shorter one is offered where fewer hold it."""
    [problem] = planned(request("31B", "v6e-1", max_model_len=262_144)).problems

    assert problem.nearest == (
        "Write accelerator_type v6e-8 with tensor_parallel_size 8 and kv_cache_dtype fp8, or "
        "accelerator_type v6e-4 with tensor_parallel_size 4 and max_model_len 67328."
    )


def test_low_utilization_is_raised_to_the_default() -> None:
    """Weights that do not fit into a small share fit into vLLM's default one."""
    [problem] = planned(request("31B", gpu_memory_utilization=0.3)).problems

    assert problem.nearest.startswith("Write gpu_memory_utilization 0.92, or ")


def test_heads_that_cannot_be_shared_are_refused() -> None:
    """SmolLM2 has 9 query and 3 key-value heads: one chip can serve it, four cannot."""
    [problem] = planned(request("SmolLM2", max_model_len=2048)).problems

    assert problem == Diagnostic(
        "serving.flags.tensor_parallel_size",
        "HuggingFaceTB/SmolLM2-135M-Instruct has 9 query heads and 3 key-value heads, which 4 "
        "chips cannot share evenly",
        "Write tensor_parallel_size 1.",
    )


def test_more_chips_than_there_are() -> None:
    """A parallel size above the slice is refused."""
    [problem] = planned(request("E2B", "v6e-1", tensor_parallel_size=4)).problems

    assert problem.what == "4 chips are more than v6e-1 has"
    assert problem.nearest.startswith("Write tensor_parallel_size 1")


def test_a_context_longer_than_the_model_takes() -> None:
    """The publisher's longest context is a limit, too."""
    [problem] = planned(request("E2B", "v6e-1", max_model_len=200_000)).problems

    assert problem.what == (
        "200,000 tokens are more than the 131,072 that google/gemma-4-E2B-it takes"
    )
    assert problem.nearest == "Write max_model_len 131072."


def test_more_blocks_than_the_chip_has() -> None:
    """A number of blocks of one's own is not bounded by utilisation, but by the chip."""
    plan = planned(request("31B", blocks=10_000, block_size=32))

    assert plan.problems == (
        Diagnostic(
            "serving.extra_args",
            "10,000 blocks take 67.14 GiB of each chip, and beside the weights there are 16.64 GiB",
            "Write no --num-gpu-blocks-override.",
        ),
    )


def test_nothing_near_fits() -> None:
    """Where no type of the generation holds the model, that is said instead of a guess."""
    row = model("31B").model_copy(update={"layers": 6000})

    [problem] = planned(request("31B", model=row)).problems

    assert problem.nearest == (
        "Nothing near it fits, on no accelerator type of the same generation and one host."
    )


def test_preemption_is_told_with_the_number_that_fits() -> None:
    """31B at 16384 with 256 sequences: 7.2 of full length fit, so 256 admits preemption."""
    plan = planned(
        request(
            "31B", kv_cache_dtype="fp8", gpu_memory_utilization=0.9, block_size=256,
            max_num_seqs=256,
        )
    )  # fmt: skip

    assert _concern(plan, "serving.flags.max_num_seqs") == Diagnostic(
        "serving.flags.max_num_seqs",
        "7.2 sequences of 16,384 tokens fit, and up to 256 are admitted: once they hold more than "
        "about 256 tokens each, some are preempted and computed again",
        "Write 7 for none at any length.",
    )


def test_preemption_counts_what_a_window_holds() -> None:
    """Behind a window, short sequences take almost as many blocks as long ones: the length that is
    named is one at which all of them fit, and the next block is one too many."""
    asked = request("Gemma 3 27B", max_num_seqs=64, max_num_batched_tokens=8192)
    plan = planned(asked)
    what = _concern(plan, "serving.flags.max_num_seqs").what
    each = int(re.findall(r"about ([\d,]+) tokens", what)[0].replace(",", ""))

    def fitting(length: int) -> float:
        shorter = replace(asked, max_model_len=length, block_size=plan.block_size)
        return planned(shorter).full_length_sequences

    assert fitting(each) >= 64 > fitting(each + 1)


def test_preemption_names_a_smaller_cache_where_it_helps() -> None:
    """In bfloat16, an fp8 cache is offered with what it brings."""
    remark = _concern(planned(request("31B", max_num_seqs=16)), "serving.flags.max_num_seqs")

    assert remark.nearest == (
        "Write 4 for none at any length, or kv_cache_dtype fp8, with which 7.5 fit."
    )


@pytest.mark.parametrize(
    ("accelerator", "changes", "thin"),
    [
        # What the logs say: 0.78 GiB failed, 2.5 GiB served.
        ("v5litepod-1", {"gpu_memory_utilization": 0.95}, True),
        ("v6e-1", {}, False),
        ("v6e-1", {"gpu_memory_utilization": 0.98}, True),
        ("v6e-1", {"implementation": "torchax"}, True),
        ("v6e-1", {"implementation": "torchax", "gpu_memory_utilization": 0.8}, False),
    ],
)
def test_thin_workspace(accelerator: str, changes: dict[str, Any], thin: bool) -> None:
    """What is left for programs is compared with what was seen to be enough."""
    plan = planned(request("E2B", accelerator, **changes))

    settings = {remark.setting for remark in plan.concerns}
    assert ("serving.flags.gpu_memory_utilization" in settings) is thin


def test_thin_workspace_names_its_evidence() -> None:
    """What the guess is taken from is said with it."""
    plan = planned(request("E2B", "v6e-1", gpu_memory_utilization=0.98))

    assert _concern(plan, "serving.flags.gpu_memory_utilization") == Diagnostic(
        "serving.flags.gpu_memory_utilization",
        "0.98 leaves 0.62 GiB of each chip for programs and activations, which may be too little: "
        "Gemma 4 E2B failed with 0.78 GiB on v5e, and served with 1.26 GiB",
        "Write 0.95 or less if it runs out of memory.",
    )


def test_a_small_cache_is_sensitive() -> None:
    """Where hardly anything is left, a small error of the weights is a large one of the cache."""
    plan = planned(
        request("26B", "v6e-1", max_model_len=2048, weight_bytes=30054033654, max_num_seqs=1)
    )

    assert any("37 % smaller" in remark.what for remark in plan.concerns)


def test_small_blocks_of_ones_own() -> None:
    """A block size of one's own is not checked against the scalar memory, so the plan does."""
    plan = planned(request("E2B", "v6e-1", block_size=16, max_num_seqs=256))

    assert _concern(plan, "serving.flags.block_size").nearest == "Leave it out, or write 32."


def test_weights_quantised_after_loading() -> None:
    """What is quantised at load is planned as it is loaded, as a lower bound of the cache."""
    plan = planned(request("31B", quantized_on_load=True, max_model_len=250_000))

    assert plan.fits
    assert _concern(plan, "serving.flags.additional_config").what.startswith(
        "the weights are quantised after they are loaded"
    )


def test_weights_quantised_after_loading_have_to_be_loaded() -> None:
    """The whole model has to fit the chip before it is quantised."""
    [problem] = planned(request("31B", "v6e-1", quantized_on_load=True)).problems

    assert "to load them takes 58.25 GiB of each chip, which has 31.24 GiB" in problem.what
    assert problem.nearest == "Write accelerator_type v6e-4 with tensor_parallel_size 4."


def test_what_nobody_reported_is_unproven() -> None:
    """A model without a report on these chips is said to be unproven there."""
    row = model("E2B").model_copy(update={"seen": ()})

    remark = _concern(planned(request(model=row)), "slice.accelerator_type")

    assert remark.what == "no report of google/gemma-4-E2B-it on v6e-4 is known"


def test_a_report_of_a_failure_is_told() -> None:
    """Where the only report is of a failure, what failed is said, and where it served."""
    seen = model("E2B").seen
    failed = [one for one in seen if one.result == "failed"]
    served = [one for one in seen if one.result == "served" and one.accelerator == "v6e-4"]
    row = model("E2B").model_copy(update={"seen": (*failed, *served)})

    remark = _concern(planned(request("E2B", "v5litepod-1", model=row)), "slice.accelerator_type")

    assert remark.what.startswith(
        "the only report of google/gemma-4-E2B-it on v5litepod-1 is of a failure ("
    )
    assert remark.nearest == f"Reported to serve: v6e-4 ({served[0].source.date}, fp8 KV cache)."


def test_images_of_unknown_size() -> None:
    """Parts of the model that the catalog does not know are not in the plan, which says so."""
    plan = planned(request("12B", max_model_len=2048))

    whats = [one.what for one in plan.concerns if one.setting == "model.name"]
    assert any("for images" in what for what in whats)
    assert any("PyTorch implementation" in what for what in whats)


@pytest.mark.parametrize(
    ("accelerator", "changes", "reason"),
    [
        ("v6e-16", {}, "v6e-16 has 4 hosts, whose memory is not described"),
        ("v6e-1", {"gpu_memory_utilization": 1.5}, "gpu_memory_utilization 1.5 is not between"),
        ("v6e-1", {"min_token_bucket": 24}, "MIN_TOKEN_BUCKET is 24, which is no power of two"),
        ("v6e-1", {"max_num_seqs": 0}, "max_num_seqs is not between 1 and 2,147,483,647"),
        (
            "v6e-1",
            {"bucket_padding_gap": 1, "max_num_batched_tokens": 10**9},
            "VLLM_TPU_BUCKET_PADDING_GAP 1 makes about",
        ),
    ],
)
def test_what_is_not_planned(accelerator: str, changes: dict[str, Any], reason: str) -> None:
    """What there is no source for is not planned, and the reason is given."""
    plan = plan_memory(request("E2B", accelerator, **changes))

    assert isinstance(plan, NotPlannable)
    assert plan.reason.startswith(reason)


def test_chips_of_unknown_memory() -> None:
    """Nominal memory is not what a server gets, so chips without the figure are not planned."""
    row = chips("v6e-1").model_copy(update={"hbm_bytes_per_chip": None})

    plan = plan_memory(replace(request("E2B", "v6e-1"), accelerator=row))

    assert plan == NotPlannable("how much memory the runtime reports for a v6e chip is not known")
