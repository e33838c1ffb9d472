"""What vLLM itself would refuse when it starts, said before chips are paid for: names that it does
not have, values that exclude each other, limits that contradict each other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tpuflex.catalog.flags import ValueRule, flag_rules, value_at, vllm_interface
from tpuflex.errors import Finding
from tpuflex.planning.request import (
    CPU_MAX_NUM_SEQS,
    DEFAULT_MAX_NUM_BATCHED_TOKENS,
    DEFAULT_MAX_NUM_SEQS,
)
from tpuflex.settings.extra_args import KEY
from tpuflex.settings.model import Draft
from tpuflex.settings.serving import FLAGS_KEY, ServingFlags, ServingSettings

#: What the names at a path name.
_KINDS = {
    "tool_call_parser": "tool parser",
    "reasoning_parser": "reasoning parser",
    "quantization": "quantization",
    "speculative_config.method": "method of speculative decoding",
}
#: Tokens of the largest image and video of Gemma 4: a video has 32 frames
#: (`get_mm_max_tokens_per_item` of `vllm/model_executor/models/gemma4_mm.py`, 0.32.0).
_GEMMA_4_ITEMS = {"image": 280, "video": 2496}
#: Keys and types of a rule of Qwix (`QuantizationRule` of `qwix/_src/qconfig.py`, `numerics.py`;
#: 0.1.2, which tpu-inference 0.29.0 to 0.32.0 install).
_QWIX_KEYS = (
    "module_path",
    "op_names",
    "weight_qtype",
    "act_qtype",
    "tile_size",
    "act_static_scale",
    "weight_calibration_method",
    "act_calibration_method",
    "act_batch_axes",
)
_QWIX_TYPES = ("float8_e4m3fn", "float8_e5m2", "int8", "int4", "nf4", "float4_e2m1fn")
_QWIX_RARE_TYPES = re.compile(r"u?int[2-8]|float8_e(3m4|4m3|4m3b11fnuz|4m3fnuz|5m2fnuz|8m0fnu)")


@dataclass(frozen=True, slots=True)
class _Given:
    """The flags of a stack file, of settings and of further arguments alike.

    Attributes:
        flags: values by name, with underscores.
        defaults: what vLLM takes for numbers that are not given.
    """

    flags: Mapping[str, object]
    defaults: Mapping[str, int]

    def number(self, path: str) -> int | None:
        """The number at a dotted path, or vLLM's default."""
        value = value_at(self.flags, path)
        return value if isinstance(value, int) else self.defaults.get(path)


def vllm_findings(draft: Draft) -> Iterator[Finding]:
    """What the vLLM in the image of ``draft`` would end at."""
    if draft.serving is None:
        return
    given = _given(draft, draft.serving)
    found = [
        Finding(_key(rule.key), rule.refused, rule.remedy)
        for rule in _rules_that_hold(draft, given)
        if rule.refused is not None
    ]
    yield from found
    if _version(draft) is not None:
        # A rule knows more of a value than the list of names.
        yield from _unknown_names(draft, given, {finding.key for finding in found})
    yield from _limits(given)
    yield from _experts(draft, given)
    yield from _media(draft, given)
    if draft.cloud == "google":
        yield from _qwix(value_at(given.flags, "additional_config.quantization"))


def vllm_warnings(draft: Draft) -> Iterator[Finding]:
    """What is likely wrong, but serves; and names that no known vLLM has, where it is not known
    which vLLM is in the image."""
    if draft.serving is None:
        return
    given = _given(draft, draft.serving)
    for rule in _rules_that_hold(draft, given):
        if rule.warned is not None:
            yield Finding(_key(rule.key), rule.warned, rule.remedy)
    if _version(draft) is None:
        yield from _unknown_names(draft, given, set())


def _given(draft: Draft, serving: ServingSettings) -> _Given:
    flags = serving.given_flags
    row = draft.served
    on_cpu = draft.cloud == "embedded"
    defaults = {"max_num_seqs": CPU_MAX_NUM_SEQS if on_cpu else DEFAULT_MAX_NUM_SEQS}
    if row is not None and row.max_context is not None:
        defaults["max_model_len"] = row.max_context
    if flags.get("enable_chunked_prefill") is not False:
        twice = 2 if flags.get("performance_mode") == "throughput" else 1
        defaults["max_num_batched_tokens"] = twice * DEFAULT_MAX_NUM_BATCHED_TOKENS
    return _Given(flags, defaults)


def _key(path: str) -> str:
    name = path.partition(".")[0]
    return f"{FLAGS_KEY}.{path}" if name in ServingFlags.model_fields else KEY


def _rules_that_hold(draft: Draft, given: _Given) -> Iterator[ValueRule]:
    name = draft.model.name if draft.model is not None else ""
    for rule in flag_rules().values:
        if rule.holds(given.flags, draft.cloud, name):
            yield rule


def _version(draft: Draft) -> str | None:
    """vLLM's version in the image, if the names that it has are known."""
    digest = draft.serving.image.partition("@")[2] if draft.serving is not None else ""
    row = draft.catalog.image(digest)
    version = row.vllm_version if row is not None else None
    return version if version and vllm_interface().lists_of(version) else None


def _unknown_names(draft: Draft, given: _Given, ruled: set[str]) -> Iterator[Finding]:
    version, interface = _version(draft), vllm_interface()
    lists = interface.lists_of(version) if version is not None else None
    lists = lists or interface.closed_lists[-1]
    for path, names in lists.names.items():
        value = value_at(given.flags, path)
        if isinstance(value, Mapping):
            unknown = [(f"{path}.{name}", "key", name) for name in value if name not in names]
        elif isinstance(value, str) and value not in names:
            unknown = [(path, _KINDS[path], value)]
        else:
            continue
        for where, kind, name in unknown:
            if kind == "key" or not ruled.intersection((_key(path), _key(path.split(".")[0]))):
                problem = f"vLLM {version or lists.vllm_version} has no {kind} {name}"
                remedy = _one_of(name, names)
                yield Finding(_key(where), f"{problem}, and does not start with it", remedy)


def _one_of(name: str, names: tuple[str, ...]) -> str:
    """What to write instead of ``name``: the nearest of ``names``, or one of all."""
    plain = {re.sub(r"[^a-z0-9]", "", each.lower()): each for each in names}
    wanted = re.sub(r"[^a-z0-9]", "", name.lower())
    close = difflib.get_close_matches(wanted, plain, n=1, cutoff=0.7)
    return f"Did you mean {plain[close[0]]}?" if close else f"Write one of {', '.join(names)}."


def _limits(given: _Given) -> Iterator[Finding]:
    for rule in flag_rules().limits:
        written = {path for path in (rule.key, rule.bound) if value_at(given.flags, path)}
        value, bound = given.number(rule.key), given.number(rule.bound)
        if value is None or bound is None or not written or not rule.applies(given.flags):
            continue
        flag = "" if _key(rule.key) != KEY else f"--{rule.key.replace('_', '-')} "
        if value < bound if rule.at_least else value > bound:
            compared, remedy = ("less", "more") if rule.at_least else ("more", "less")
            said = f"{flag}{value} is {compared} than {rule.bound} ({bound})"
            if rule.key not in written:
                said = f"is {value} by default, which is {compared} than {rule.bound} ({bound})"
            yield Finding(
                _key(rule.key), f"{said}, and vLLM refuses to start", f"Write {bound} or {remedy}."
            )


def _experts(draft: Draft, given: _Given) -> Iterator[Finding]:
    row = draft.served
    if row is not None and not row.experts and given.flags.get("enable_expert_parallel") is True:
        yield Finding(
            KEY,
            f"--enable-expert-parallel, but {row.name} has no experts and vLLM refuses to start",
            "Remove it.",
        )


def _media(draft: Draft, given: _Given) -> Iterator[Finding]:
    """An image or video that may not be split has to fit into a batch."""
    row = draft.served
    flags, batched = given.flags, value_at(given.flags, "max_num_batched_tokens")
    if row is None or row.family != "gemma4" or not isinstance(batched, int):
        return
    if flags.get("disable_chunked_mm_input") is not True or flags.get("language_model_only"):
        return
    served = [
        item
        for item in _GEMMA_4_ITEMS
        if item in row.modalities and value_at(flags, f"limit_mm_per_prompt.{item}") != 0
    ]
    largest = max(served, key=_GEMMA_4_ITEMS.__getitem__, default=None)
    if largest is not None and "hf_overrides" not in flags and batched < _GEMMA_4_ITEMS[largest]:
        yield Finding(
            _key("max_num_batched_tokens"),
            f"{batched} is less than the {_GEMMA_4_ITEMS[largest]} tokens of a {largest}, which"
            " disable_chunked_mm_input keeps in one batch, and vLLM refuses to start",
            f"Write {_GEMMA_4_ITEMS[largest]} or more, or {largest}: 0 in limit_mm_per_prompt.",
        )


def _qwix(quantization: object) -> Iterator[Finding]:
    """Rules by which the TPU backend quantizes weights when it has loaded them."""
    key = f"{FLAGS_KEY}.additional_config.quantization"
    if quantization is None:
        return
    rules = value_at({"quantization": quantization}, "quantization.qwix.rules")
    if not isinstance(rules, list | tuple) or not all(isinstance(rule, dict) for rule in rules):
        remedy = 'Write {qwix: {rules: [{module_path: ".*", weight_qtype: float8_e4m3fn}]}}.'
        yield Finding(key, "has no qwix.rules, at which vLLM's TPU backend ends", remedy)
        return
    for index, rule in enumerate(rules):
        for name, value in rule.items():
            where = f"{key}.qwix.rules[{index}].{name}"
            if name not in _QWIX_KEYS:
                yield Finding(where, "a rule of Qwix has no such key", _one_of(name, _QWIX_KEYS))
            elif name == "module_path" and not _is_pattern(value):
                yield Finding(where, "is no regular expression", 'Write one such as ".*attn.*".')
            elif name.endswith("_qtype") and not _is_qwix_type(value):
                remedy = _one_of(str(value), _QWIX_TYPES)
                yield Finding(where, f"Qwix cannot quantize to {str(value)[:40]}", remedy)


def _is_qwix_type(value: object) -> bool:
    known = isinstance(value, str) and (value in _QWIX_TYPES or _QWIX_RARE_TYPES.fullmatch(value))
    return value is None or bool(known)


def _is_pattern(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(re.compile(value))
    except re.error:
        return False
