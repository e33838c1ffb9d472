"""Read a configuration of another tool, find out whose it is, and translate it."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from tpuflex.catalog.flags import flag_rules
from tpuflex.errors import Finding, NotFoundError, SettingsError
from tpuflex.queued_resource.limits import ZONE_PATTERN
from tpuflex.scaffold.container import CHIPS, image
from tpuflex.scaffold.google_stack import ANY_IMAGE, ANY_PROJECT
from tpuflex.scaffold.sections import put
from tpuflex.scaffold.serve_command import (
    add_container_command,
    is_command,
    is_flags,
    translated_command,
    translated_flags,
)
from tpuflex.scaffold.shell_script import without_gaps
from tpuflex.scaffold.translation import (
    AsIs,
    Refused,
    Rule,
    Sets,
    Translation,
    as_is,
    only,
    refused,
    sets,
    translated,
)
from tpuflex.scaffold.workload import (
    MORE,
    ONE,
    SCALING,
    add_compose,
    add_dstack,
    add_engine_values,
    add_kubernetes,
    add_skypilot,
    is_compose,
    is_dstack,
    is_engine_values,
    is_kubernetes,
    is_skypilot,
)
from tpuflex.settings.load import parse
from tpuflex.settings.secret_shapes import masked
from tpuflex.settings.stack_yaml import LONGEST, RefusedYamlError, read_yaml

_NO_GATEWAY = (
    "nothing in vLLM or tpuflex turns requests away by load or latency",
    "Do it in the gateway in front of the endpoint.",
)


def _zone(value: object) -> Sets | Refused:
    if isinstance(value, str) and re.fullmatch(ZONE_PATTERN, value):
        return Sets("slice.zones", [value])
    return Refused(f"{value!r} is no zone", "Write one such as us-east5-a.")


def _level(value: object) -> Sets | Refused:
    if isinstance(value, str) and value.upper() in ("DEBUG", "INFO", "WARNING", "ERROR"):
        return Sets("serving.env.VLLM_LOGGING_LEVEL", value.upper())
    return Refused(f"{value!r} is no level of vLLM's log", "Write INFO, WARNING or ERROR.")


def _split(value: object) -> AsIs | Refused:
    if value is False:
        return AsIs("one server does both")
    return Refused(
        "prefill and decode on separate queues takes two servers, and a stack has one",
        "vLLM mixes both in one schedule (chunked prefill), by default.",
    )


_TEMPLATE: Mapping[str, Rule] = {
    "inference.model": sets("model.name"),
    "inference.runtime": sets("slice.runtime_version"),
    # A zone, in spite of its name.
    "inference.region": _zone,
    "inference.hardware.tpu_type": sets("slice.accelerator_type"),
    "inference.hardware.tensor_parallel": sets("serving.flags.tensor_parallel_size"),
    "inference.hardware.memory_utilization": sets("serving.flags.gpu_memory_utilization"),
    "inference.scheduling.max_concurrent_sequences": sets("serving.flags.max_num_seqs"),
    "inference.scheduling.ttft_threshold_sec": refused(*_NO_GATEWAY),
    "inference.scheduling.circuit_breaker_enabled": only(
        False, because="there is none", otherwise=_NO_GATEWAY[0], remedy=_NO_GATEWAY[1]
    ),
    "inference.scheduling.prefill_decode_split": _split,
    "inference.caching.paged_attention": only(
        True, because="vLLM has no other", otherwise="vLLM has no attention without pages"
    ),
    "inference.caching.prefix_caching": sets("serving.flags.enable_prefix_caching"),
    "inference.caching.block_size_tokens": sets("serving.flags.block_size"),
    "inference.caching.eviction_policy": only(
        "lru",
        because="vLLM evicts the cached blocks that were used least recently",
        otherwise="vLLM evicts the cached blocks that were used least recently, and nothing else",
    ),
    "inference.monitoring.metrics_endpoint": only(
        "/metrics",
        because="the server has it there, behind a key",
        otherwise="vLLM serves its metrics at /metrics and nowhere else",
    ),
    "inference.monitoring.health_check_interval_sec": refused(
        "the host asks the server every 5 seconds, and that cannot be set",
        "A load balancer may ask /health as often as it likes.",
    ),
    "inference.monitoring.log_level": _level,
}


ARGUMENTS = "args"
COMMAND = "command"

_MONITORING = (
    "vLLM's own metrics are at /metrics, under its names (vllm:kv_cache_usage_perc, "
    "vllm:num_requests_waiting, vllm:time_to_first_token_seconds …)",
    "Collect them from there: tpuflex:secrets.metrics_key_version makes a key for that.",
)


def _enabled(because: str, otherwise: tuple[str, str]) -> Rule:
    return only(False, because=because, otherwise=otherwise[0], remedy=otherwise[1])


def _metrics_enabled(value: object) -> AsIs | Refused:
    if value is True:
        return AsIs("the server has /metrics, behind a key")
    return Refused("the server has /metrics in any case, behind a key")


_HELM: Mapping[str, Rule] = {
    "replicaCount": only(1, because=ONE, otherwise=ONE, remedy=MORE),
    "image.repository": image,
    "image.tag": as_is("an image is named by its digest"),
    "image.pullPolicy": as_is("a host pulls its image once, when it boots"),
    "resources": lambda _value: CHIPS,
    "autoscaling.enabled": _enabled("nothing is scaled", SCALING),
    "autoscaling.minReplicas": refused(*SCALING),
    "autoscaling.maxReplicas": refused(*SCALING),
    "autoscaling.targetGPUUtilization": refused(*SCALING),
    "autoscaling.targetQueueDepth": refused(*SCALING),
    "monitoring.enabled": _metrics_enabled,
    "monitoring.exporter": refused("dcgm and its like read GPUs", _MONITORING[1]),
    "monitoring.metrics": refused(*_MONITORING),
}


def translated_values(document: Mapping[str, object], given: Mapping[str, str]) -> Translation:
    """What the values say, the container's command and arguments among them."""
    if isinstance(document.get("image"), str):
        document = {**document, "image": {"repository": document["image"]}}
    named = document.get("image")
    named = dict(named) if isinstance(named, Mapping) else named
    rest = {key: value for key, value in document.items() if key not in (ARGUMENTS, COMMAND)}
    words: dict[str, object] = {}
    if isinstance(named, dict):
        rest["image"] = named
        if COMMAND in named:
            words[f"image.{COMMAND}"] = named.pop(COMMAND)
            if not named:
                del rest["image"]
    words |= {key: document[key] for key in (COMMAND, ARGUMENTS) if key in document}
    found = translated(rest, _HELM)
    command: list[str] = []
    for key, value in words.items():
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            command += map(str, value)
        else:
            found.add(key, Refused("is not a list of words", "Write each word in quotes."))
    if command:
        add_container_command(found, command, f"{next(reversed(words))}: ", given)
    return found


_FORMATS = (
    "It may be a command line or a script with `vllm serve` or `docker run`; a manifest of"
    " Kubernetes, a file of Compose, a task of dstack or SkyPilot; Helm-style values with `args:`"
    " or `image:`; flags as `vllm serve --config` reads them; or YAML with `inference:` at the top."
)
#: A stack in which nothing stands in the way of a single flag or variable.
_NEUTRAL: Mapping[str, object] = {
    "cloud": "google",
    "project": ANY_PROJECT,
    "slice": {"zones": ["us-east5-a"], "accelerator_type": "v6e-8", "max_run_duration": "4h"},
    "model": {"name": "any/model"},
    "serving": {"image": ANY_IMAGE},
}
#: What stands between the documents of a YAML file.
_SEPARATOR = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
_JUDGED = ("serving.flags.", "serving.env.")


def translated_file(
    path: Path, *, model: str | None = None, given: Mapping[str, str] | None = None
) -> Translation:
    """What the file at ``path`` says, in settings of ours.

    Args:
        path: the file.
        model: what will be served instead of the file's model.
        given: variables that the file's commands may name.

    Raises:
        NotFoundError: there is no such file.
        SettingsError: it cannot be read, or is of none of the formats.
    """
    source = path.name
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {path}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(source, f"cannot be read ({type(error).__name__})") from error
    if len(text) > LONGEST:
        raise _unreadable(source, f"is longer than {LONGEST} characters")
    found = _translated(source, without_gaps(text), given or {})
    if not (found.origins or found.as_is or found.refused or found.unset):
        raise _unreadable(source, "says nothing")
    _refuse_members(found, model or str(found.settings.get("model.name", "")))
    _refuse_impossible(found)
    return found


def _translated(source: str, text: str, given: Mapping[str, str]) -> Translation:
    """What ``text`` says; which format it has, its structure tells."""
    try:
        documents = [read_yaml(part) for part in _SEPARATOR.split(text)]
    except (yaml.YAMLError, RefusedYamlError) as error:
        if "{{" in text and not is_command(text):
            problem = "is a template of Helm, and says nothing before `helm template` renders it"
            raise _unreadable(source, problem) from error
        if source.endswith((".yaml", ".yml")) and not text.startswith("#!"):
            raise _unreadable(source, f"is not YAML ({_place(error)})") from error
        return _translated_script(source, text, given)
    values = [each.value for each in documents if each.value is not None]
    if not values:
        raise _unreadable(source, "says nothing")
    if not all(_is_section(value) for value in values):
        return _translated_script(source, text, given)
    if repeated := tuple(finding for each in documents for finding in each.repeated):
        raise SettingsError(source, repeated)
    if is_kubernetes(values):
        return add_kubernetes(values, given)
    value = values[0] if isinstance(values[0], dict) else {}
    if len(values) == 1 and isinstance(value.get("inference"), dict):
        return translated(value, _TEMPLATE)
    for is_format, add in (
        (is_compose, add_compose),
        (is_dstack, add_dstack),
        (is_skypilot, add_skypilot),
        (is_engine_values, add_engine_values),
        (_is_helm, translated_values),
        (is_flags, translated_flags),
    ):
        if len(values) == 1 and is_format(value):
            return add(value, given)
    keys = ", ".join(str(key)[:40] for key in [*value][:8])
    raise _unreadable(source, f"is of no format that tpuflex reads: it has {keys}")


def _place(error: yaml.YAMLError | RefusedYamlError) -> str:
    if isinstance(error, RefusedYamlError):
        return error.problem
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}" if mark is not None else "it cannot be parsed"


def _is_section(value: object) -> bool:
    """Whether ``value`` is keys and values, and no line of a script that YAML takes for them."""
    return isinstance(value, dict) and all(re.fullmatch(r"[\w./-]+", str(key)) for key in value)


def _is_helm(value: Mapping[str, object]) -> bool:
    return bool(value.keys() & {"args", "command", "image", "replicaCount"})


def _translated_script(source: str, text: str, given: Mapping[str, str]) -> Translation:
    try:
        return translated_command(text, given)
    except SettingsError as error:
        if is_command(text):
            raise
        found = "; ".join(each.problem for each in error.findings)
        raise _unreadable(
            source, f"is neither YAML nor a script that starts vLLM: it {found}"
        ) from error


def _refuse_members(found: Translation, model: str) -> None:
    """Refuse members of flags that ``model`` cannot have, and keep the others."""
    for key, value in list(found.settings.items()):
        flag = key.removeprefix("serving.flags.")
        if flag == key or not isinstance(value, Mapping):
            continue
        kept = dict(value)
        for member, content in value.items():
            for rule in flag_rules().values:
                # What is wrong only without another member is judged among all of them.
                if rule.absent or not rule.refused:
                    continue
                if rule.holds({flag: {member: content}}, "google", model):
                    kept.pop(member, None)
                    name = f"{found.origins[key]} {member}"
                    found.refused.append(Finding(name, rule.refused, rule.remedy))
        if kept:
            found.settings[key] = kept
        elif value:
            del found.settings[key], found.origins[key]


def _refuse_impossible(found: Translation) -> None:
    """Turn flags and variables that no stack can have into refusals, with the reason.

    One of them is impossible if it is wrong alone and among the others: a flag may need another,
    and what contradicts another, or is wrong on this slice, is for the user to decide.
    """
    judged = {key: found.settings[key] for key in found.settings if key.startswith(_JUDGED)}
    among_others = _problems(judged)
    for key, value in judged.items():
        alone = _problems({key: value})
        why = next((each for each in alone if each in among_others), None)
        if why is not None:
            del found.settings[key]
            found.refused.append(Finding(found.origins.pop(key), why.problem, why.remedy))


def _problems(settings: Mapping[str, object]) -> tuple[Finding, ...]:
    sections = copy.deepcopy(dict(_NEUTRAL))
    for key, value in settings.items():
        put(sections, key, value)
    try:
        parse(sections, "some settings")
    except SettingsError as error:
        return error.findings
    return ()


def _unreadable(source: str, problem: str) -> SettingsError:
    return SettingsError(source, (Finding(source, masked(problem), _FORMATS),))
