"""What alerts are about: the numbers that a server, its host and its slice give, and their names.

vLLM's names were read in 0.32 (``vllm/v1/metrics/loggers.py``); those in Cloud Monitoring are below
:data:`CLOUD_PREFIX`, where hosts write them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tpuflex.host.report import AT_ONCE, PHASES, READY

#: What the names of a host's metrics in Cloud Monitoring begin with.
CLOUD_PREFIX = "workload.googleapis.com/vllm/"


class Kind(StrEnum):
    """How a number changes.

    Attributes:
        GAUGE: it goes up and down.
        COUNTER: it goes up, and begins at 0 when the server is started again.
        HISTOGRAM: counters of observations, by how large they were at most.
    """

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Signal:
    """One number.

    Attributes:
        name: what it is called here.
        kind: how it changes.
        prometheus: its name where Prometheus collects from the server; empty where that cannot.
        cloud: its name below :data:`CLOUD_PREFIX`; empty where no host writes it.
        merge: how the values of several engines become one, in PromQL's words.
        words: what it counts, of one and of many; empty where it counts nothing.
        where: labels of its series in Prometheus, and the regular expressions that they match.
    """

    name: str
    kind: Kind
    prometheus: str = ""
    cloud: str = ""
    merge: str = "sum"
    words: tuple[str, str] = ("", "")
    where: tuple[tuple[str, str], ...] = ()


#: Share of the KV cache in use.
KV_USE = Signal("kv_use", Kind.GAUGE, "vllm:kv_cache_usage_perc", "kv_cache_usage", merge="max")
#: Requests that are computed, and that wait.
RUNNING = Signal("running", Kind.GAUGE, "vllm:num_requests_running", "requests_running")
WAITING = Signal(
    "waiting",
    Kind.GAUGE,
    "vllm:num_requests_waiting",
    "requests_waiting",
    words=("waiting", "waiting"),
)
#: Requests that have not ended. The host's guard counts them; a Prometheus that collects from vLLM
#: has the engine's last word alone, which stays 0 where it froze while it was idle.
IN_FLIGHT = Signal(
    "requests_in_flight",
    Kind.GAUGE,
    "vllm:num_requests_running",
    "requests_in_flight",
    words=("in flight", "in flight"),
)
#: Requests put back to make room in the KV cache.
PREEMPTIONS = Signal(
    "preemptions",
    Kind.COUNTER,
    "vllm:num_preemptions_total",
    "preemptions",
    words=("preemption", "preemptions"),
)
#: Generated tokens.
GENERATED = Signal(
    "generation_tokens",
    Kind.COUNTER,
    "vllm:generation_tokens_total",
    "generation_tokens",
    words=("token", "tokens"),
)
#: Tokens of prompts, and requests that have ended: no rule is about them, dashboards show them.
PROMPT = Signal("prompt_tokens", Kind.COUNTER, "vllm:prompt_tokens_total", "prompt_tokens")
SUCCEEDED = Signal(
    "requests_succeeded", Kind.COUNTER, "vllm:request_success_total", "requests_succeeded"
)
#: Seconds to a request's first token, from its arrival at the server.
TTFT = Signal(
    "time_to_first_token",
    Kind.HISTOGRAM,
    "vllm:time_to_first_token_seconds",
    "time_to_first_token",
    words=("first token", "first tokens"),
)
#: 1 while the server answers, 0 while it does not. Prometheus' own word for that is ``up``, too.
UP = Signal("up", Kind.GAUGE, "up", "up", merge="min")
#: Seconds until Google ends the run.
RUN_SECONDS_LEFT = Signal("run_seconds_left", Kind.GAUGE, cloud="run_seconds_left", merge="min")
#: Further requests of the endpoint, one of which may take over.
SUCCESSORS = Signal("successors", Kind.GAUGE, words=("successor", "successors"))
#: Requests whose hosts run, are being made, or are being taken down.
SLICES = Signal("slices", Kind.GAUGE, words=("slice", "slices"))
#: Nodes that are billed.
BILLED_NODES = Signal("billed_nodes", Kind.GAUGE, words=("node billed", "nodes billed"))
#: US dollars that the run has cost.
SPENT_USD = Signal("spent_usd", Kind.GAUGE)
#: A host's phases, and what stands for the one before its first report.
BOOT_PHASES = ("silence", *(each for each in PHASES if each not in (*AT_ONCE, READY)))
#: Phase of a boot -> seconds since it began, 0 while the boot is in another one. Without end where
#: the boot has failed in it.
PHASE_SECONDS = {each: Signal(f"seconds_in_{each}", Kind.GAUGE) for each in BOOT_PHASES}
