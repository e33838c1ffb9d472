"""What a load generator brings back of a server that treats all requests alike."""

from __future__ import annotations

from typing import Any

from tpuflex.measure.load import Drive
from tpuflex.measure.run import Load
from tpuflex.measure.vllm_result import VllmResult


def served(
    load: Load,
    *,
    ttft: float = 0.2,
    gap: float = 0.05,
    pause: float = 0.0,
    **changed: Any,
) -> VllmResult:
    """What a generator measures of a server that gives each request the same time.

    Args:
        load: what it is asked for.
        ttft: seconds to the first token.
        gap: seconds between two tokens.
        pause: seconds that the generator takes after each request, which are in no latency.
        changed: other values of the result.
    """
    latency = ttft + (load.output - 1) * gap
    count = load.requests
    starts = [1000 + (index // load.concurrency) * (latency + pause) for index in range(count)]
    seconds = starts[-1] + latency - 1000
    columns = {
        "duration": seconds,
        "completed": count,
        "total_input_tokens": count * load.context,
        "total_output_tokens": count * load.output,
        "request_throughput": count / seconds,
        "output_throughput": count * load.output / seconds,
        "input_lens": [load.context] * count,
        "output_lens": [load.output] * count,
        "ttfts": [ttft] * count,
        "itls": [[gap] * (load.output - 1)] * count,
        "latencies": [latency] * count,
        "start_times": starts,
        "errors": [""] * count,
    }
    return VllmResult.model_validate({**columns, **changed})


_METRICS = """\
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{engine="0"}} {prompts}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0"}} {generated}
# TYPE vllm:prompt_tokens_cached_total counter
vllm:prompt_tokens_cached_total{{engine="0"}} 0
"""


class ScriptedGenerator:
    """A generator whose server serves everything, or does as ``script`` says.

    Args:
        script: for the number of a drive, what comes of it instead: raised, or the kind of error
            that all requests end with. The first drive is the warm-up.

    Attributes:
        driven: what it was asked for.
    """

    version = "0.32.0"
    command = ("vllm", "bench", "serve", "--model", "m")

    def __init__(self, script: dict[int, BaseException | str] | None = None) -> None:
        self._script = script or {}
        self.driven: list[Load] = []
        self._prompts = self._generated = 1000

    def drive(self, load: Load) -> Drive:
        """What the next drive is."""
        self.driven.append(load)
        instead = self._script.get(len(self.driven) - 1)
        if isinstance(instead, BaseException):
            raise instead
        before = self._metrics()
        result = served(load)
        if instead is not None:
            result = served(load, errors=[instead] * load.requests, output_lens=[0] * load.requests)
        self._prompts += load.requests * load.context
        self._generated += load.requests * load.output
        return Drive(result, before, self._metrics(), lag=0.01, busy=0.1)

    def _metrics(self) -> str:
        return _METRICS.format(prompts=self._prompts, generated=self._generated)
