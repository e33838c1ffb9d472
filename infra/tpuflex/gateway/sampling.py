"""Sampling parameters of a class of requests. Pure: a document in, another out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuflex.settings.gateway import SamplingSettings

#: What a request may call the most tokens of an answer: the older name, and the newer one, which
#: vLLM prefers where a chat has both.
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")


def with_sampling(document: Mapping[str, Any], sampling: SamplingSettings) -> dict[str, Any]:
    """A completion's document with the parameters of its class.

    Args:
        document: the body of a completion.
        sampling: what it gets where it says nothing itself; with ``enforce`` also where it does,
            but of two limits of tokens the lower holds.
    """
    completed = dict(document)
    for name in ("temperature", "top_p"):
        value = getattr(sampling, name)
        if value is not None and (sampling.enforce or completed.get(name) is None):
            completed[name] = value
    most = sampling.max_tokens
    if most is None:
        return completed
    said = [name for name in TOKEN_LIMITS if completed.get(name) is not None]
    if not said:
        # The older name: servers that do not know the newer one would leave out the limit.
        completed["max_tokens"] = most
    elif sampling.enforce:
        for name in said:
            completed[name] = min(completed[name], most)
    return completed
