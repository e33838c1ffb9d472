"""The stack file of an option: its sections, and the comment at its head."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tpuflex.planning.figure import SourceList
from tpuflex.scaffold.image_mirror import mirror_command

if TYPE_CHECKING:
    from tpuflex.planning.recommend import Option

#: A first run that ends within a working day; Flex-start allows 7 days.
_RUN = "4h"


def stack_sections(option: Option, image: str, project: str) -> dict[str, object]:
    """The sections of a stack file that serves ``option``, as for
    :func:`tpuflex.settings.load.parse`.

    Args:
        option: what is to be served; it has a zone.
        image: reference of the image that serves it.
        project: Google Cloud project.

    Raises:
        ValueError: no zone is known for the option.
    """
    if not option.zones:
        raise ValueError(f"no zone is known for {option.name}")
    request = option.request
    flags: dict[str, object] = {
        "dtype": "bfloat16",
        "gpu_memory_utilization": request.gpu_memory_utilization,
        "max_model_len": request.max_model_len,
        "max_num_batched_tokens": request.max_num_batched_tokens,
        "max_num_seqs": request.max_num_seqs,
    }
    if request.kv_cache_dtype != "bfloat16":
        flags["kv_cache_dtype"] = request.kv_cache_dtype
    if request.model.modalities != ("text",):
        flags["disable_chunked_mm_input"] = True
        flags["limit_mm_per_prompt"] = _media(request.model.modalities)
    return {
        "cloud": "google",
        "project": project,
        "slice": {
            "zones": list(option.zones),
            "accelerator_type": request.accelerator.name,
            "max_run_duration": _RUN,
        },
        "model": {"name": request.model.name},
        "serving": {"image": image, "flags": flags},
    }


def comments(option: Option, stack: str, project: str) -> dict[str, tuple[str, ...]]:
    """Comments above keys of :func:`stack_sections`, by path."""
    return {
        "model.name": (
            "Download it once, and write its directory at weights.source: `up` uploads it.",
            f"Or without: tpuflex --stack {stack} up makes the bucket, and then",
            f"  tpuflex --stack {stack} weights push DIRECTORY",
        ),
        "serving.image": _image_comment(option.zones[0], project),
    }


def _image_comment(zone: str, project: str) -> tuple[str, ...]:
    what, mode, how = str(mirror_command(zone, project)).partition("--mode=")
    mirrored, place, where = how.partition("--location=")
    return (
        "The hosts reach nothing but Google: the image comes through a mirror of Docker Hub,",
        "made once:",
        f"  {what}\\",
        f"    {mode}{mirrored}\\",
        f"    {place}{where}",
    )


def heading(option: Option, stack: str) -> list[str]:
    """The comment at the head: what was seen, what it costs, what is unproven, with sources."""
    sources = SourceList()
    price = option.per_hour
    cost = "not known" if price.value is None else f"${price.value:.2f} per hour"
    lines = [
        f"{option.name}, written by `tpuflex recommend --write {stack}`. NOT RUN ON A TPU BY US.",
        f"Price of the chips: {cost} {sources.references(price.sources)}",
    ]
    lines += [
        f"Seen: {row.result} on {row.accelerator}: {row.what} {sources.references((row.source,))}"
        for row in option.seen.seen
    ] or ["Seen: nothing."]
    lines += [f"Unproven: {text}" for text in option.unproven[1:]]
    return [*lines, "Sources:", *(f"  {line}" for line in sources.lines())]


def _media(modalities: Iterable[str]) -> dict[str, int]:
    """Limits per request: images as far as the model takes them; the TPU back-end loads no audio
    tower, and a video is many images."""
    known = {"image": 4, "audio": 0, "video": 0}
    return {kind: limit for kind, limit in known.items() if kind in modalities}
