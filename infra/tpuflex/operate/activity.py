"""Since when a model server has been asked nothing, as far as it can be known. Pure.

vLLM keeps counters and no time of the last request, so one look tells only whether it works now.
That it was idle takes two looks with the same counters, or counters that have counted nothing but
what the host itself had asked before it was READY
(https://docs.vllm.ai/en/stable/design/metrics/).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from tpuflex.host.reported import MOST
from tpuflex.host.serving import LAST_SECOND

#: When the server's process began: of Python's Prometheus client, which vLLM uses.
_STARTED = "process_start_time_seconds"
_IN_FLIGHT = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_FINISHED = "vllm:request_success_total"
_TOKENS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{.*\})? (?P<value>\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Counters:
    """What a server has counted since it started.

    Attributes:
        started: when its process began, in seconds since the epoch.
        finished: requests that it has answered.
        tokens: tokens that it has read and written.
    """

    started: float
    finished: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a server.

    Attributes:
        at: when.
        counters: what it had counted.
        in_flight: requests that it was working on, or that were waiting.
    """

    at: datetime
    counters: Counters
    in_flight: float = 0.0


@dataclass(frozen=True, slots=True)
class Idleness:
    """Since when nothing was asked.

    Attributes:
        since: since when at least; None if that is not known, or something is being asked.
        why: what that is known from, or why it is not known.
        busy: whether requests are in flight.
    """

    since: datetime | None
    why: str
    busy: bool = False


def read_counters(metrics: str, at: datetime) -> Observation | None:
    """The look at ``at`` whose answer ``metrics`` is; None where it lacks one of the counters."""
    values: dict[str, float] = {}
    for sample in _SAMPLE.finditer(metrics):
        try:
            value = float(sample["value"])
        except ValueError:
            continue
        values[sample["name"]] = values.get(sample["name"], 0.0) + value
    needed = (_STARTED, *_IN_FLIGHT, _FINISHED, *_TOKENS)
    if any(not 0 <= values.get(name, math.nan) <= MOST for name in needed):
        return None
    if values[_STARTED] >= LAST_SECOND:
        return None
    counters = Counters(values[_STARTED], values[_FINISHED], sum(values[n] for n in _TOKENS))
    return Observation(at, counters, sum(values[name] for name in _IN_FLIGHT))


def idleness(
    look: Observation,
    earlier: Iterable[Observation],
    ready_since: datetime | None,
    own_requests: int = 1,
) -> Idleness:
    """Since when the server has been asked nothing.

    Args:
        look: the last look.
        earlier: earlier looks at the same endpoint.
        ready_since: when its host was READY; None if that is not known.
        own_requests: how many requests the server had answered then. A server that was started
            since then has been asked none of them.
    """
    if look.in_flight:
        return Idleness(None, f"{look.in_flight:.0f} requests are in flight", busy=True)
    if ready_since is not None:
        began = datetime.fromtimestamp(look.counters.started, UTC)
        if look.counters.finished <= (own_requests if began <= ready_since else 0):
            return Idleness(max(began, ready_since), "it was asked nothing since it was READY")
    same = [each.at for each in earlier if each.counters == look.counters and each.at <= look.at]
    if same:
        return Idleness(min(same), "its counters have not moved since an earlier look")
    return Idleness(
        look.at,
        "vLLM does not say when it was last asked, and this is the first look with these counters",
    )
