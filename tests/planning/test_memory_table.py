"""The planner beside boot logs, published figures and the figures computed from the sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.planning.memory_requests import MODELS, model, planned, request
from tpuflex.planning.kv_cache import kv_bytes_per_token
from tpuflex.planning.weights import text_parameters

_GIB = 2**30
#: Gemma 4 12B as text alone, which the JAX path serves.
_TEXT_ONLY = {"implementation": "flax_nnx", "text_only": True}


@dataclass(frozen=True)
class Row:
    """One worked example: a server, and what it was seen or computed to do."""

    model: str
    accelerator: str
    length: int
    sequences: int
    weights: int
    token: int
    block: int
    blocks: int
    tokens: int
    concurrency: float
    flags: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.model} {self.accelerator} {self.length}x{self.sequences} {self.flags}"


_FP8 = {"kv_cache_dtype": "fp8"}
#: Boot logs (github.com/xbill9/gemma4-dev, read 2026-11-21), to the block.
LOGS = (
    Row("E2B", "v5litepod-1", 16384, 256, 9631988294, 18432, 32, 10043, 321376, 19.62),
    Row("E2B", "v5litepod-1", 16384, 256, 9631988294, 18432, 32, 10043, 321376, 19.62, _FP8),
    Row("E2B", "v6e-1", 32768, 256, 9631988294, 18432, 64, 17996, 1151744, 35.15),
    Row("E4B", "v6e-1", 2048, 16, 15374799444, 57344, 128, 2109, 269952, 131.81),
    Row("12B", "v6e-1", 2048, 16, 23814700640, 344064, 128, 160, 20480, 10.00, _TEXT_ONLY),
    Row("26B", "v6e-4", 2048, 16, 16416120476, 61440, 128, 1836, 235008, 114.75),
    # An article's figure, with the weights that it gives: 27.99 GiB of an FP8 checkpoint.
    Row(
        "26B", "v6e-1", 2048, 16, 30054033654, 225280, 128, 27, 3456, 1.69,
        {"weight_bytes": 30054033654},
    ),
    Row("31B", "v6e-4", 32768, 256, 15674122456, 225280, 64, 1053, 67392, 2.06),
    Row("31B", "v6e-4", 2048, 256, 15674122456, 225280, 128, 526, 67328, 32.88),
    # arXiv 2605.25645 (2026-05-25), as quoted in that repository: 187,136 tokens on eight chips.
    # Its context is not quoted; with 256 sequences, all from 2048 to 32768 give that number.
    Row("31B", "v6e-8", 16384, 256, 7862114008, 122880, 32, 5848, 187136, 11.42),
    # Blocks of other sizes, and 0.95 of the memory, which failed later (the same repository).
    Row(
        "E2B", "v5litepod-1", 16384, 256, 9631988294, 18432, 16, 20086, 321376, 19.62,
        {"block_size": 16},
    ),
    Row(
        "E2B", "v5litepod-1", 16384, 256, 9631988294, 18432, 64, 5021, 321344, 19.61,
        {"block_size": 64},
    ),
    Row(
        "E2B", "v5litepod-1", 16384, 256, 9631988294, 18432, 64, 5451, 348864, 21.29,
        {"block_size": 64, "gpu_memory_utilization": 0.95},
    ),
    # An article's figure, with the weights that it gives: 17.43 GiB of a W4A16 checkpoint.
    Row(
        "26B", "v6e-1", 2048, 16, 18715319992, 225280, 128, 421, 53888, 26.31,
        {"weight_bytes": 18715319992},
    ),
    # github.com/marin-community/marin .agents/logbooks/iris-rl-claude.md (2026-03-26), vLLM 0.13.2.
    *(
        Row(
            "Llama", "v5p-8", 2048, 16, 4015529984, 32768, 128, blocks, tokens, concurrency,
            {"gpu_memory_utilization": share},
        )
        for share, blocks, tokens, concurrency in (
            (0.9, 21101, 2700928, 1318.81),
            (0.8, 18650, 2387200, 1165.62),
            (0.7, 16199, 2073472, 1012.44),
            (0.6, 13748, 1759744, 859.25),
        )
    ),
)  # fmt: skip
#: Computed by the formulas from the sources; no log is known.
COMPUTED = (
    Row(
        "31B", "v6e-4", 16384, 256, 15674122456, 122880, 256, 461, 118016, 7.20,
        {**_FP8, "gpu_memory_utilization": 0.9, "block_size": 256},
    ),
    Row(
        "Llama", "v6e-1", 16384, 256, 16060522496, 65536, 32, 6737, 215584, 13.16,
        {**_FP8, "gpu_memory_utilization": 0.9},
    ),
    Row(
        "SmolLM2", "v6e-1", 2048, 256, 269030016, 30720, 128, 7609, 973952, 475.56,
        {"gpu_memory_utilization": 0.9},
    ),
)  # fmt: skip


@pytest.mark.parametrize("row", [*LOGS, *COMPUTED], ids=str)
def test_the_plan_equals_the_log(row: Row) -> None:
    """Block size, blocks, tokens and concurrency are those that vLLM logged, to the block."""
    plan = planned(
        request(
            row.model,
            row.accelerator,
            max_model_len=row.length,
            max_num_seqs=row.sequences,
            **row.flags,
        )
    )

    assert plan.weight_bytes == row.weights
    assert plan.kv_bytes_per_token == row.token
    assert plan.block_size == row.block
    assert plan.blocks == row.blocks
    assert plan.cached_tokens == row.tokens
    assert round(plan.full_length_sequences, 2) == row.concurrency


@pytest.mark.parametrize(
    ("accelerator", "length", "sequences", "gib", "blocks", "tokens", "concurrency"),
    [
        # Boot log. From its 24.56 GiB alone come 101 blocks.
        ("v6e-1", 2048, 16, 24.56, 102, 13_056, 6.38),
        # dev.to/gde/debugging-deployments-with-gemma-12b-tpu-v6e-4-mcp-and-antigravity-cli-12b6,
        # 2026-06-29: 26.01 GiB in use on four chips.
        ("v6e-4", 65536, 256, 26.01 / 4, 1898, 242_944, 3.71),
    ],
)
def test_the_pytorch_path_is_met_within_one_per_cent(
    accelerator: str,
    length: int,
    sequences: int,
    gib: float,
    blocks: int,
    tokens: int,
    concurrency: float,
) -> None:
    """Gemma 4 12B by torchax, whose rest beyond the parameters is taken from these two logs."""
    plan = planned(request("12B", accelerator, max_model_len=length, max_num_seqs=sequences))

    assert plan.weight_bytes / _GIB == pytest.approx(gib, rel=0.01)
    assert plan.blocks == pytest.approx(blocks, rel=0.01)
    assert plan.cached_tokens == pytest.approx(tokens, rel=0.01)
    assert plan.full_length_sequences == pytest.approx(concurrency, rel=0.01)


def test_weights_that_were_measured_are_taken() -> None:
    """With the 24.56 GiB of a log of Gemma 4 12B, the cache is that log's within 2 %."""
    plan = planned(
        request("12B", "v6e-1", max_model_len=2048, max_num_seqs=16, weight_bytes=26371099197)
    )

    assert plan.blocks == 101
    assert plan.blocks == pytest.approx(102, rel=0.02)


def test_the_published_layout_of_e2b_on_four_chips() -> None:
    """Gemma 4 E2B on v6e-4 with an fp8 cache at 0.40: the published number of blocks, and where
    its other figures contradict it.

    Published (a practitioner's report, vLLM 0.23.1rc1.dev667): 18,523 blocks of shape
    (32, 4, 4, 256), "each handles 16 tokens", "296,368 tokens"; per chip 2.39 GiB of weights,
    12.53 GiB of KV cache, 16.33 GiB of workspace, of 31.25 GiB.
    """
    plan = planned(
        request(
            "E2B", kv_cache_dtype="fp8", gpu_memory_utilization=0.40, max_num_seqs=256,
            max_num_batched_tokens=4096,
        )
    )  # fmt: skip

    # Three blocks fewer: the older runtime reported 5 MB more per chip.
    assert plan.blocks == pytest.approx(18_523, abs=3)
    assert plan.hbm_bytes / _GIB == pytest.approx(31.25, abs=0.01)
    # The shape says 32 tokens a block; 296,368 is 18,523 x 16, half of what fits.
    assert plan.block_size == 32
    assert plan.cached_tokens == pytest.approx(2 * 296_368, rel=0.001)
    # 18,523 such blocks take 10.17 GiB. With 12.53 GiB, weights and cache would be 14.92 GiB,
    # and 0.40 of 31.25 GiB is 12.50 GiB: the 12.53 GiB are both together.
    assert plan.kv_bytes / _GIB == pytest.approx(10.17, abs=0.01)
    assert (plan.weight_bytes + plan.kv_bytes) / _GIB == pytest.approx(12.53, rel=0.02)
    # Beside 2.39 GiB of weights, 0.40 would leave 18,400 blocks only.
    assert plan.weight_bytes / _GIB == pytest.approx(2.32, abs=0.005)
    assert (0.40 * 31.25 - 2.39) * _GIB / (plan.kv_bytes / plan.blocks) < 18_410


@pytest.mark.parametrize(
    ("short", "accelerator", "chips", "gib"),
    [
        ("Llama 70B", "v6e-8", 1, 16.43),  # of each chip, as a log of the TPU back-end has it
        ("Llama", "v6e-4", 4, 14.96),  # of all chips: the logbook of a multi-host run, as above
        ("Llama", "v5p-8", 4, 14.96),
    ],
)
def test_published_weights(short: str, accelerator: str, chips: int, gib: float) -> None:
    """Memory in use after loading, as servers logged it, to two decimals."""
    plan = planned(request(short, accelerator))

    assert round(chips * plan.weight_bytes / _GIB, 2) == gib


def test_a_published_size_of_cache() -> None:
    """131,072 tokens of Llama 3.1 8B take 16.00 GiB of four chips, as was published of TP 4."""
    assert 131_072 * 4 * kv_bytes_per_token(model("Llama"), 4, "bfloat16") == 16 * _GIB


def test_a_window_is_kept_whole_on_the_jax_path() -> None:
    """Gemma 3 1B by KerasHub's class, which is a JAX one, has one group of 26 layers: the 15,912
    blocks of its guide (2026-08-16), to one. The image's own path for it is PyTorch."""
    plan = planned(
        request(
            "Gemma 3 1B", "v5litepod-1", max_model_len=512, max_num_seqs=256,
            implementation="flax_nnx",
        )
    )  # fmt: skip

    assert plan.block_size == 32
    assert plan.blocks == pytest.approx(15_912, abs=1)
    assert plan.cached_tokens == pytest.approx(509_184, abs=32)


@pytest.mark.parametrize("short", MODELS)
def test_the_shape_gives_the_parameters(short: str) -> None:
    """The parameters counted from the shape are the published number, to the last one."""
    assert text_parameters(model(short)) == model(short).text_params


@pytest.mark.parametrize(
    ("short", "sixteen", "eight"),
    [
        ("E2B", (18432, 18432, 18432), (18432, 18432, 18432)),
        ("E4B", (57344, 28672, 28672), (28672, 28672, 28672)),
        ("12B", (344064, 98304, 57344), (180224, 57344, 57344)),
        ("26B", (225280, 61440, 35840), (112640, 35840, 35840)),
        ("31B", (901120, 225280, 122880), (450560, 122880, 71680)),
        ("Gemma 3 1B", (26624, 26624, 26624), (26624, 26624, 26624)),
        ("Gemma 3 4B", (139264, 34816, 34816), (69632, 34816, 34816)),
        ("Gemma 3 12B", (393216, 98304, 49152), (196608, 49152, 49152)),
        ("Gemma 3 27B", (507904, 126976, 63488), (253952, 63488, 31744)),
        ("Llama", (131072, 32768, 16384), (65536, 16384, 16384)),
        ("Llama 70B", (327680, 81920, 40960), (163840, 40960, 40960)),
        ("Qwen2.5 7B", (57344, 14336, 14336), (28672, 14336, 14336)),
        ("Qwen2.5 32B", (262144, 65536, 32768), (131072, 32768, 32768)),
        ("Qwen2.5 72B", (327680, 81920, 40960), (163840, 40960, 40960)),
        ("Qwen3 8B", (147456, 36864, 18432), (73728, 18432, 18432)),
        ("Qwen3 32B", (262144, 65536, 32768), (131072, 32768, 32768)),
        ("Qwen3 30B", (98304, 24576, 24576), (49152, 24576, 24576)),
    ],
)
def test_bytes_per_token(short: str, sixteen: tuple[int, ...], eight: tuple[int, ...]) -> None:
    """Bytes of one token on one of 1, 4 and 8 chips, with a cache of 16 and of 8 bits."""
    row = model(short)

    assert tuple(kv_bytes_per_token(row, tp, "bfloat16") for tp in (1, 4, 8)) == sixteen
    assert tuple(kv_bytes_per_token(row, tp, "fp8") for tp in (1, 4, 8)) == eight


def test_bytes_per_token_of_narrow_heads() -> None:
    """Heads of 64 keep K beside V in one row of 128, and heads are packed, not halves of them."""
    assert kv_bytes_per_token(model("SmolLM2"), 1, "bfloat16") == 30720
    assert kv_bytes_per_token(model("SmolLM2"), 1, "fp8") == 15360


@pytest.mark.parametrize(("tp", "repeated"), [(1, 0), (4, 0), (8, 4)])
def test_biases_are_split_and_repeated_with_their_heads(tp: int, repeated: int) -> None:
    """Qwen 2.5 has a bias on Q, K and V; where chips outnumber key-value heads, these are repeated,
    bias included."""
    row = model("Qwen2.5 7B")
    norms = 28 * 2 * 3584 + 3584
    heads = 28 * 2 * repeated * (3584 + 1) * 128
    split = row.text_params - norms + heads

    plan = planned(request("Qwen2.5 7B", "v6e-8", tensor_parallel_size=tp))

    assert plan.weight_bytes == -(-2 * split // tp) + 2 * norms


def test_cores_of_tpu7x_are_devices_of_their_own() -> None:
    """JAX sees two devices in a chip of tpu7x, each with half of its memory; v5p has one a chip.
    What no stack can be on is planned all the same, and said to be a plan only."""
    plan = planned(request("Llama 70B", "tpu7x-8"))

    assert (plan.chips, planned(request("Llama 70B", "v5p-8")).chips) == (8, 4)
    assert plan.hbm_bytes / _GIB == pytest.approx(94.745, abs=0.001)
    assert plan.fits
    assert any("a plan only" in each.what for each in plan.concerns)
