"""Memory in the rules of a stack file: what is refused, and what is warned of."""

from __future__ import annotations

import pytest

from tests.unit.stack_sections import embedded, findings, sections
from tpuflex.settings.load import parse
from tpuflex.settings.rules import warnings

FLAGS = "serving.flags"

REFUSED = [
    (
        {
            "model.name": "google/gemma-4-31B-it",
            "slice.accelerator_type": "v6e-1",
            f"{FLAGS}.max_model_len": 16384,
        },
        "tpuflex:slice.accelerator_type",
        "accelerator_type v6e-4",
    ),
    (
        {
            "model.name": "google/gemma-4-31B-it",
            f"{FLAGS}.max_model_len": 131072,
            f"{FLAGS}.gpu_memory_utilization": 0.9,
        },
        f"tpuflex:{FLAGS}.max_model_len",
        "max_model_len 64",
    ),
    ({f"{FLAGS}.max_model_len": 140000}, f"tpuflex:{FLAGS}.max_model_len", "max_model_len 131072"),
]


@pytest.mark.parametrize(("changes", "key", "nearest"), REFUSED)
def test_what_cannot_fit_is_refused(changes: dict[str, object], key: str, nearest: str) -> None:
    """The key that is to blame, and the nearest that fits."""
    (found,) = findings(sections(changes))

    assert found.key == key
    assert nearest in found.remedy


def test_a_scaled_context_is_what_the_stack_file_says() -> None:
    """A model whose context hf_overrides lift by YaRN, as its card says, takes it; where they leave
    its length as it was, the remedy is the key that vLLM reads."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    changes: dict[str, object] = {"model.name": "Qwen/Qwen3-8B", f"{FLAGS}.max_model_len": 131072}

    def found(overrides: dict[str, object]) -> list[str]:
        said = findings(sections({**changes, f"{FLAGS}.hf_overrides": overrides}))
        return [item.remedy for item in said]

    assert found({"rope_parameters": yarn, "max_position_embeddings": 131072}) == []
    (remedy,) = found({"rope_parameters": yarn})
    assert "max_position_embeddings: 131072 in hf_overrides" in remedy


def test_beside_other_problems() -> None:
    """It is reported with everything else that is wrong, as long as the sections can be read."""
    small = {"model.name": "google/gemma-4-31B-it", "slice.accelerator_type": "v6e-1"}
    found = findings(sections({**small, "slice.zones": ["us-east5-a", "us-east5-a"]}))

    assert [item.key for item in found] == ["tpuflex:slice.zones", "tpuflex:slice.accelerator_type"]


def test_what_is_wrong_by_itself_is_reported_once() -> None:
    """More chips than there are is a rule of its own; the plan adds nothing to it."""
    (found,) = findings(sections({f"{FLAGS}.tensor_parallel_size": 8}))

    assert "more than the 4 chips" in found.problem


WARNED = [
    ({f"{FLAGS}.max_model_len": 16384}, "max_num_seqs", "sequences of 16,384 tokens fit"),
    ({f"{FLAGS}.gpu_memory_utilization": 0.98}, "gpu_memory_utilization", "for programs"),
    ({f"{FLAGS}.kv_cache_dtype": "fp8"}, "kv_cache_dtype", "exactly what bfloat16 takes"),
    ({f"{FLAGS}.tensor_parallel_size": 1}, "tensor_parallel_size", "3 of the 4 chips"),
]


@pytest.mark.parametrize(("changes", "key", "text"), WARNED)
def test_what_fits_with_reservations_is_warned_of(
    changes: dict[str, object], key: str, text: str
) -> None:
    """What will preempt, saves nothing, or leaves little for programs deploys with a warning."""
    warned = warnings(parse(sections(changes), "test"))

    assert any(item.key == f"tpuflex:{FLAGS}.{key}" and text in item.problem for item in warned)


UNKNOWN = [
    {"model.name": "acme/own-model"},
    {"model.name": "google/gemma-4-31B-it", f"{FLAGS}.quantization": "compressed-tensors"},
]


@pytest.mark.parametrize("changes", UNKNOWN)
def test_what_is_not_known_is_neither_refused_nor_warned_of(changes: dict[str, object]) -> None:
    """No figure is invented for a model, or for weights, that nobody has described."""
    settings = sections({**changes, "slice.accelerator_type": "v6e-1"})

    assert not [item for item in findings(settings) if "GiB" in item.problem]
    assert not [item for item in warnings(parse(settings, "test")) if "GiB" in item.problem]


def test_the_context_on_the_embedded_cloud() -> None:
    """No server there takes more tokens than the model, either."""
    changes = {
        "model.name": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "serving.env": {"VLLM_CPU_KVCACHE_SPACE": "1"},
        "serving.flags": {"max_model_len": 9000},
    }
    (found,) = findings(embedded(changes))

    assert found.key == "tpuflex:serving.flags.max_model_len"
    assert "more than the 8,192 that" in found.problem


def test_the_cache_of_the_embedded_cloud() -> None:
    """A CPU cache that holds no sequence of full length is refused, too."""
    (found,) = findings(
        embedded(
            {
                "model.name": "HuggingFaceTB/SmolLM2-135M-Instruct",
                "serving.env": {"VLLM_CPU_KVCACHE_SPACE": "0"},
            }
        )
    )

    assert found.key == "tpuflex:serving.env.VLLM_CPU_KVCACHE_SPACE"


@pytest.mark.parametrize(
    "changes",
    [
        {"model.name": "nobody/knows-it"},
        {f"{FLAGS}.hf_overrides": {"num_hidden_layers": 2}},
    ],
)
def test_what_cannot_be_planned_is_said(changes: dict[str, object]) -> None:
    """No plan is no silence: that memory is not known is a warning, with how to plan it."""
    found = [each for each in warnings(parse(sections(changes), "s")) if "model.name" in each.key]

    assert [each.key for each in found] == ["tpuflex:model.name"]
    assert "how much memory it takes is not known" in found[0].problem
    assert "tpuflex memory --model-dir" in found[0].remedy


def test_overrides_without_a_shape() -> None:
    """Overrides that change neither weights nor cache do not end the plan."""
    changes = {f"{FLAGS}.hf_overrides": {"rope_theta": 1000000}, f"{FLAGS}.max_model_len": 4096}

    found = warnings(parse(sections(changes), "s"))

    assert not [each for each in found if "not known" in each.problem]
