"""Rules about the serving container: flags that exclude each other, image, parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.catalog.flags import ValueRule, flag_rules
from tpuflex.duration import format_duration
from tpuflex.errors import Finding
from tpuflex.settings.environment_rules import (
    environment_findings,
    environment_warnings,
    tpu_environment_findings,
)
from tpuflex.settings.extra_args import extra_args_findings
from tpuflex.settings.image_rules import (
    image_findings,
    image_warnings,
    version_findings,
)
from tpuflex.settings.media_rules import media_findings
from tpuflex.settings.model import Draft
from tpuflex.settings.serving import (
    CODE_METHOD,
    COMPILE_CACHE_VARIABLES,
    ServingFlags,
    ServingSettings,
    is_import_path,
)

_KEY = "tpuflex:serving"

#: Repository of the image on the embedded cloud's hosts.
EMBEDDED_IMAGE = "tpuflex/vllm-cpu"


def serving_findings(draft: Draft) -> Iterator[Finding]:
    """What is wrong with the serving section, by itself and together with cloud and slice."""
    if draft.serving is None:
        return
    yield from _flags(draft.serving.flags)
    yield from (
        Finding(f"{_KEY}.flags.{rule.key}", rule.refused, rule.remedy)
        for rule in _rules_that_hold(draft)
        if rule.refused is not None
    )
    yield from extra_args_findings(draft.serving.extra_args)
    yield from environment_findings(draft.serving.env)
    if draft.cloud == "google":
        yield from tpu_environment_findings(draft.serving.env)
    yield from _compile_cache(draft.serving)
    yield from _warmup(draft, draft.serving)
    yield from media_findings(draft, draft.serving)
    yield from _image(draft, draft.serving)
    yield from _parallelism(draft, draft.serving.flags)


def serving_warnings(draft: Draft) -> Iterator[Finding]:
    """What about the serving section is likely wrong, but serves."""
    yield from (
        Finding(f"{_KEY}.flags.{rule.key}", rule.warned, rule.remedy)
        for rule in _rules_that_hold(draft)
        if rule.warned is not None
    )
    if draft.serving is not None:
        yield from environment_warnings(draft.serving.env)
        yield from image_warnings(draft, draft.serving)


def _rules_that_hold(draft: Draft) -> Iterator[ValueRule]:
    if draft.serving is None:
        return
    flags = draft.serving.flags.model_dump(exclude_none=True)
    name = draft.model.name if draft.model is not None else ""
    yield from (rule for rule in flag_rules().values if rule.holds(flags, draft.cloud, name))


def _flags(flags: ServingFlags) -> Iterator[Finding]:
    key = f"{_KEY}.flags"
    speculative = flags.speculative_config or {}
    method, draft = speculative.get("method"), speculative.get("model")
    if method == CODE_METHOD or (method is None and is_import_path(draft)):
        yield Finding(
            f"{key}.speculative_config",
            f"names a Python class ({draft}) that vLLM would load and run",
            "Write another method, such as ngram.",
        )
    elif isinstance(draft, str) and not draft.startswith("/"):
        yield Finding(
            f"{key}.speculative_config",
            f"names the model {draft} on the Hub, from which the server can download nothing",
            "Write a method that needs no other model, such as ngram.",
        )
    batched, sequences = flags.max_num_batched_tokens, flags.max_num_seqs
    if batched is not None and sequences is not None and batched < sequences:
        yield Finding(
            f"{key}.max_num_batched_tokens",
            f"{batched} is less than max_num_seqs ({sequences}), and vLLM refuses to start",
            f"Write {sequences} or more.",
        )


def _compile_cache(serving: ServingSettings) -> Iterator[Finding]:
    own = [name for name in COMPILE_CACHE_VARIABLES if name in serving.env]
    if own and serving.compile_cache in ("bucket", "host"):
        yield Finding(
            f"{_KEY}.compile_cache",
            f"{serving.compile_cache}, but {own[0]} in env names a directory that is not kept",
            f"Remove {' and '.join(own)}, or write none.",
        )


def _warmup(draft: Draft, serving: ServingSettings) -> Iterator[Finding]:
    if draft.slice is None or serving.warmup < (ready := draft.slice.timeouts.ready):
        return
    yield Finding(
        f"{_KEY}.warmup",
        f"{format_duration(serving.warmup)} is not shorter than tpuflex:slice.timeouts.ready"
        f" ({format_duration(ready)}), within which the host has to be READY, and its warm-up is a"
        " part of that",
        "Write less, or a longer timeouts.ready.",
    )


def _image(draft: Draft, serving: ServingSettings) -> Iterator[Finding]:
    yield from version_findings(draft, serving.image)
    cloud = draft.cloud
    repository = serving.image.partition("@")[0]
    if cloud == "embedded" and repository != EMBEDDED_IMAGE:
        yield Finding(
            f"{_KEY}.image",
            f"the embedded cloud has no {repository}",
            f"Write the {EMBEDDED_IMAGE} image of stacks/Pulumi.dev.yaml.",
        )
    if cloud == "google" and repository == EMBEDDED_IMAGE:
        yield Finding(
            f"{_KEY}.image",
            f"{EMBEDDED_IMAGE} exists on the embedded cloud only",
            "Write an image of vllm/vllm-tpu in Artifact Registry, with its digest.",
        )
    elif cloud == "google":
        yield from image_findings(draft, serving.image)


def _parallelism(draft: Draft, flags: ServingFlags) -> Iterator[Finding]:
    key = f"{_KEY}.flags.tensor_parallel_size"
    chosen = draft.slice.accelerator_type if draft.slice is not None else ""
    row = draft.catalog.accelerator(chosen)
    parallel = flags.tensor_parallel_size
    if row is not None and parallel is not None and parallel > row.chips:
        yield Finding(
            key,
            f"{parallel} is more than the {row.chips} chips of {row.name}",
            f"Write {row.chips}, or remove it.",
        )
    elif draft.cloud == "embedded" and row is not None and (parallel or row.chips) > 1:
        what = "" if parallel else f" (the chip count of {row.name})"
        yield Finding(
            key,
            f"{parallel or row.chips}{what}, but the embedded cloud serves with one CPU worker",
            "Write 1, or use v6e-1.",
        )
    if draft.cloud == "embedded" and (flags.kv_cache_dtype or "").startswith("fp8"):
        yield Finding(
            f"{_KEY}.flags.kv_cache_dtype",
            f"{flags.kv_cache_dtype} needs a TPU, and the embedded cloud serves on the CPU",
            "Remove it.",
        )
