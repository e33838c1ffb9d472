"""Helm-style values for vLLM on Kubernetes (``vllm-production-values.yaml``), key by key.

What is about replicas, pods and GPUs has no counterpart: a stack is one server on one TPU slice.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuflex.scaffold.serve_command import add_container_command
from tpuflex.scaffold.translation import (
    AsIs,
    Refused,
    Rule,
    Translation,
    only,
    refused,
    translated,
)

ARGUMENTS = "args"
COMMAND = "command"

_ONE = "a stack is one server"
_MORE = "Make a stack for each, with a load balancer in front."
_CHIPS = (
    "a TPU slice has whole hosts, with all of their processors, memory and chips",
    "Choose the slice: --accelerator.",
)
_SCALING = ("the number of servers follows no load: a stack is one server", _MORE)
_MONITORING = (
    "vLLM's own metrics are at /metrics, under its names (vllm:kv_cache_usage_perc, "
    "vllm:num_requests_waiting, vllm:time_to_first_token_seconds …)",
    "Collect them from there: tpuflex:secrets.metrics_key_version makes a key for that.",
)


def _repository(value: object) -> Refused:
    return Refused(
        f"{value} is an image for other hardware, or not pinned by its digest"
        if isinstance(value, str)
        else "is not the name of an image",
        "vllm/vllm-tpu is taken, by digest; another: --set serving.image=REPOSITORY@sha256:…",
    )


def _enabled(because: str, otherwise: tuple[str, str]) -> Rule:
    return only(False, because=because, otherwise=otherwise[0], remedy=otherwise[1])


def _metrics_enabled(value: object) -> AsIs | Refused:
    if value is True:
        return AsIs("the server has /metrics, behind a key")
    return Refused("the server has /metrics in any case, behind a key")


RULES: Mapping[str, Rule] = {
    "replicaCount": only(1, because=_ONE, otherwise=_ONE, remedy=_MORE),
    "image.repository": _repository,
    "image.tag": refused(
        "a tag can be moved under a running stack", "An image is named by digest."
    ),
    "image.pullPolicy": only(
        "IfNotPresent",
        because="a host pulls the image once",
        otherwise="a host pulls its image once, when it boots",
    ),
    "resources.limits.nvidia.com/gpu": refused("there are no GPUs in a TPU slice", _CHIPS[1]),
    "resources.requests.nvidia.com/gpu": refused("there are no GPUs in a TPU slice", _CHIPS[1]),
    "resources.requests.cpu": refused(*_CHIPS),
    "resources.requests.memory": refused(*_CHIPS),
    "resources.limits.cpu": refused(*_CHIPS),
    "resources.limits.memory": refused(*_CHIPS),
    "autoscaling.enabled": _enabled("nothing is scaled", _SCALING),
    "autoscaling.minReplicas": refused(*_SCALING),
    "autoscaling.maxReplicas": refused(*_SCALING),
    "autoscaling.targetGPUUtilization": refused(*_SCALING),
    "autoscaling.targetQueueDepth": refused(*_SCALING),
    "monitoring.enabled": _metrics_enabled,
    "monitoring.exporter": refused("dcgm and its like read GPUs", _MONITORING[1]),
    "monitoring.metrics": refused(*_MONITORING),
}


def translated_values(document: Mapping[str, object]) -> Translation:
    """What the values say, the container's command and arguments among them."""
    image = document.get("image")
    image = dict(image) if isinstance(image, Mapping) else image
    rest = {key: value for key, value in document.items() if key not in (ARGUMENTS, COMMAND)}
    words: dict[str, object] = {}
    if isinstance(image, dict):
        rest["image"] = image
        if COMMAND in image:
            words[f"image.{COMMAND}"] = image.pop(COMMAND)
            if not image:
                del rest["image"]
    words |= {key: document[key] for key in (COMMAND, ARGUMENTS) if key in document}
    found = translated(rest, RULES)
    command: list[str] = []
    for key, value in words.items():
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            command += map(str, value)
        else:
            found.add(key, Refused("is not a list of words", "Write each word in quotes."))
    if command:
        add_container_command(found, command, f"{next(reversed(words))}: ")
    return found
