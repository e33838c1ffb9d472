"""A stack on Google for a model on an accelerator type, with flags that are safe to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuflex.catalog.catalog import Catalog

#: Prompt and answer together; most models take more, at the cost of cache.
_CONTEXT = 16384

#: What stands for a project and an image while nothing but the rest of a stack is checked.
ANY_PROJECT = "any-project"
ANY_IMAGE = f"us-docker.pkg.dev/{ANY_PROJECT}/any/image@sha256:{'0' * 64}"

COMMENTS: Mapping[str, Sequence[str]] = {
    "serving.image": (
        "The hosts reach nothing but Google: the image comes through a mirror of Docker Hub.",
    ),
    "serving.flags.gpu_memory_utilization": (
        "The cache takes its share before programs and activations: 0.98 was seen to run out.",
    ),
    "serving.flags.disable_chunked_mm_input": (
        "vLLM warns that execution may fail without it for multimodal models on TPU.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleStack:
    """What a new stack on Google serves, and where.

    Attributes:
        project: Google Cloud project id.
        model: Hugging Face id.
        accelerator_type: such as ``v6e-4``.
        zones: zones of one region.
        max_run_duration: such as ``4h``.
        weights: directory of the weights relative to the project, if they are on this machine.
    """

    project: str
    model: str
    accelerator_type: str
    zones: tuple[str, ...]
    max_run_duration: str
    weights: str | None = None


def google_sections(target: GoogleStack, image: str) -> dict[str, Any]:
    """The sections of a stack that serves ``image`` with vLLM's own defaults."""
    return {
        "cloud": "google",
        "project": target.project,
        "slice": {
            "zones": list(target.zones),
            "accelerator_type": target.accelerator_type,
            "max_run_duration": target.max_run_duration,
        },
        "model": {
            "name": target.model,
            "weights": {"source": target.weights or weights_directory(target.model)},
        },
        "serving": {"image": image},
    }


def weights_directory(model: str) -> str:
    """Where the weights of ``model`` are expected, relative to the project."""
    return f"models/{model.rpartition('/')[2]}"


def first_flags(model: str, catalog: Catalog) -> dict[str, object]:
    """Flags to begin with for ``model``."""
    row = catalog.model(model)
    flags: dict[str, object] = {
        "dtype": "bfloat16",
        "gpu_memory_utilization": 0.9,
        "max_model_len": min(_CONTEXT, (row and row.max_context) or _CONTEXT),
        "max_num_batched_tokens": 4096,
        "max_num_seqs": 64,
    }
    if row is not None and set(row.modalities) != {"text"}:
        flags["disable_chunked_mm_input"] = True
    return flags
