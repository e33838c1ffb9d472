"""A stack on Google for a model on an accelerator type, with flags that are safe to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuflex.catalog.catalog import Catalog
from tpuflex.catalog.rows import Image
from tpuflex.catalog.zones import region_of
from tpuflex.errors import NotFoundError
from tpuflex.gcloud_commands import create_mirror

#: Docker Hub's name of vLLM for TPU.
_REPOSITORY = "vllm/vllm-tpu"
#: Prompt and answer together; most models take more, at the cost of cache.
_CONTEXT = 16384
MIRROR_REPOSITORY = "dockerhub"

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
class Wanted:
    """What a new stack on Google is for.

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


def frame(wanted: Wanted, image: str) -> dict[str, Any]:
    """The sections of a stack that serves ``image`` with vLLM's own defaults."""
    return {
        "cloud": "google",
        "project": wanted.project,
        "slice": {
            "zones": list(wanted.zones),
            "accelerator_type": wanted.accelerator_type,
            "max_run_duration": wanted.max_run_duration,
        },
        "model": {
            "name": wanted.model,
            "weights": {"source": wanted.weights or weights_directory(wanted.model)},
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


def mirrored_image(catalog: Catalog, *, project: str, zone: str) -> str:
    """Reference of the newest known image of vLLM for TPU, in the project's mirror of Docker Hub.

    Raises:
        NotFoundError: the catalog has no such image.
    """
    images = [row for row in catalog.images.values() if row.repository == _REPOSITORY]
    if not images:
        raise NotFoundError(
            f"The catalog has no image of {_REPOSITORY}.",
            hint="Name one: --set serving.image=REPOSITORY@sha256:…",
        )
    newest = max(images, key=_age)
    place = f"{region_of(zone)}-docker.pkg.dev/{project}/{MIRROR_REPOSITORY}"
    return f"{place}/{newest.repository}@{newest.digest}"


def _age(image: Image) -> str:
    return image.date.isoformat() if image.date is not None else ""


def mirror_command(project: str, zone: str) -> str:
    """The command that makes the mirror of Docker Hub, once for each project and region."""
    region = region_of(zone)
    return str(
        create_mirror(MIRROR_REPOSITORY, upstream="docker-hub", location=region, project=project)
    )
