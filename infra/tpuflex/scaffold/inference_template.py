"""The template with an ``inference:`` tree (``trillium_inference_config.yaml``), key by key."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tpuflex.request.limits import ZONE_PATTERN
from tpuflex.scaffold.translation import AsIs, Refused, Rule, Sets, only, refused, sets

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


RULES: Mapping[str, Rule] = {
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
        "nothing asks the server for its health once it is READY",
        "`tpuflex status` looks when it is called; a load balancer may ask /health.",
    ),
    "inference.monitoring.log_level": _level,
}
