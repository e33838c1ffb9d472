"""Types of vLLM's flags whose values could name code, files or other places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tpuflex.settings.base import refusal

JsonObject = dict[str, str | int | float | bool]
#: A name that becomes the value of a flag; it cannot be taken for another flag.
FlagName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
#: A file of the checkpoint: templates from anywhere else are not served.
ChatTemplate = Annotated[
    str,
    Field(
        max_length=200,
        pattern=r"^(?:[A-Za-z0-9][A-Za-z0-9._-]*/)*[A-Za-z0-9][A-Za-z0-9._-]*\.jinja$",
    ),
]
#: Formats of `--load-format` that hold data only (`vllm/model_executor/model_loader` of 0.32.0,
#: 2026-11-22). `pt` and `npcache` unpickle, `tensorizer`, `ipc_cache` and `modelexpress` read from
#: elsewhere, and others come with plugins.
LoadFormat = Literal[
    "auto",
    "hf",
    "safetensors",
    "fastsafetensors",
    "instanttensor",
    "mistral",
    "dummy",
    "sharded_state",
    "runai_streamer",
    "runai_streamer_sharded",
]

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: Parts of a model's configuration that name code, or what typed settings say.
_NOT_OVERRIDDEN = frozenset(
    {"auto_map", "custom_pipelines", "quantization_config", "compression_config"}
)
_DEEPEST = 8
#: The defaults that a server can set (`ModelConfig.get_diff_sampling_param` of vLLM 0.32.0).
_SAMPLING = frozenset(
    {
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "max_new_tokens",
    }
)
#: What vLLM's chat template is itself, and how it is rendered.
_NOT_TEMPLATE_ARGUMENTS = frozenset({"chat_template", "tokenize"})


def check_overrides(overrides: dict[str, object]) -> dict[str, object]:
    """``overrides`` of a model's configuration if they are numbers, switches and plain words."""
    for path, value in _leaves(overrides, ""):
        names = path.split(".")
        if banned := _NOT_OVERRIDDEN.intersection(names):
            raise refusal(
                f"overrides {min(banned)}, which names code or how the weights are quantized",
                "Remove it.",
            )
        if not all(_WORD.fullmatch(name) for name in names) or len(names) > _DEEPEST:
            raise refusal(f"{path[:60]!r} is no key of a model's configuration", "Remove it.")
        if isinstance(value, str) and not _WORD.fullmatch(value):
            raise refusal(
                f"the value of {path} is no plain word",
                'Write a name such as {"architectures": ["Gemma4ForCausalLM"]}.',
            )
    return overrides


def check_template_arguments(arguments: JsonObject) -> JsonObject:
    """``arguments`` of the chat template unless they would replace it."""
    for name in sorted(_NOT_TEMPLATE_ARGUMENTS.intersection(arguments)):
        raise refusal(
            f"{name} is no argument of a chat template",
            "Remove it; write the template's file at tpuflex:serving.flags.chat_template.",
        )
    return arguments


def check_sampling(defaults: dict[str, float]) -> dict[str, float]:
    """``defaults`` of sampling if a server can set them all."""
    for name in sorted(set(defaults) - _SAMPLING):
        reason = " (vLLM on a TPU refuses a request with a seed)" if name == "seed" else ""
        raise refusal(
            f"{name[:40]!r} is no default that vLLM can set{reason}",
            f"Write {', '.join(sorted(_SAMPLING))}.",
        )
    return defaults


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Every value that is neither an object nor a list, with its dotted path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
        if not value and path:
            yield path, None
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
        if not value:
            yield path, None
    else:
        yield path, value


HfOverrides = Annotated[dict[str, object], AfterValidator(check_overrides)]
TemplateArguments = Annotated[JsonObject, AfterValidator(check_template_arguments)]
SamplingDefaults = Annotated[dict[str, float], AfterValidator(check_sampling)]
