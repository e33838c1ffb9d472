"""The JSON document that ``vllm bench serve --save-result --save-detailed`` writes.

https://docs.vllm.ai/en/latest/cli/bench/serve/ (fields read in vLLM 0.32, vllm/benchmarks/serve.py)
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tpuflex.measure.run import Count, Rate, Seconds


class VllmResult(BaseModel):
    """What one run of the load generator has measured, at the client.

    Attributes:
        duration: seconds from the first request to the end of the last one.
        completed: requests that were answered.
        failed: requests that were not.
        total_input_tokens: tokens of the prompts, as the server said in ``usage``.
        total_output_tokens: tokens of the answers, as the server said in ``usage``.
        request_throughput: answered requests per second.
        output_throughput: tokens of answers per second.
        max_concurrency: requests that were kept in flight.
        num_prompts: requests.
        input_lens, output_lens: tokens of each request.
        ttfts: seconds to the first token of each request; 0 of one that failed.
        itls: seconds between the tokens of each request.
        latencies: seconds to the last token of each request.
        start_times: when each request was sent, in seconds of a monotonic clock.
        errors: why each request failed; empty of one that was answered.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    duration: Seconds
    completed: Count
    failed: Count = 0
    total_input_tokens: Count
    total_output_tokens: Count
    request_throughput: Rate
    output_throughput: Rate
    max_concurrency: int | None = None
    num_prompts: Count = 0
    model_id: str = ""
    date: str = ""
    input_lens: tuple[Count, ...] = ()
    output_lens: tuple[Count, ...] = ()
    ttfts: tuple[Seconds, ...] = ()
    itls: tuple[tuple[Seconds, ...], ...] = ()
    latencies: tuple[Seconds, ...] = ()
    start_times: tuple[Seconds, ...] = ()
    errors: tuple[str, ...] = ()
