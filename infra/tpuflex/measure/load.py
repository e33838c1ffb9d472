"""The load of a benchmark: ``vllm bench serve``, kept running for all points of a run.

It runs beside the server (:func:`on_host`) or here (:func:`here`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tpuflex.measure.run import Load
from tpuflex.measure.vllm_result import VllmResult
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection

#: What is the same at every point. Completions, since a chat template adds tokens that nobody
#: asked for; greedy, since what sampling costs depends on the model's own defaults.
COMMAND = (
    *("vllm", "bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions"),
    *("--dataset-name", "random", "--ignore-eos", "--temperature", "0"),
    *("--ready-check-timeout-sec", "0", "--percentile-metrics", "ttft,tpot,itl,e2el"),
    *("--save-detailed", "--disable-tqdm"),
)


@dataclass(frozen=True, slots=True)
class Drive:
    """A load that has been put on a server.

    Attributes:
        result: what the generator has measured.
        before, after: the server's ``/metrics`` right before and right after.
        lag: longest time in seconds that the generator stood still while requests were open.
        busy: processor seconds that the generator took per second meanwhile. It has one thread for
            all requests: near 1, it measures itself.
    """

    result: VllmResult
    before: str
    after: str
    lag: float
    busy: float


class Generator(Protocol):
    """A load generator that is ready."""

    @property
    def version(self) -> str:
        """The version of vLLM that it is of."""

    @property
    def command(self) -> tuple[str, ...]:
        """The words that are the same at every point, with the server's; no key is among them."""

    def drive(self, load: Load) -> Drive:
        """Put ``load`` on the server, to its end. A request that fails is part of the result.

        Raises:
            TpuflexError: the generator has failed, or is gone.
        """


def options(load: Load) -> tuple[str, ...]:
    """The words of ``vllm bench serve`` that make ``load``.

    The part of a prompt that is shared stands before the random one.
    """
    return (
        *("--random-input-len", str(load.context - load.shared)),
        *("--random-prefix-len", str(load.shared)),
        *("--random-output-len", str(load.output)),
        *("--num-prompts", str(load.requests)),
        *("--max-concurrency", str(load.concurrency)),
        *("--seed", str(load.seed)),
    )


@contextmanager
def on_host(cloud: Connection, status: SliceStatus, report: Report = silent) -> Iterator[Generator]:
    """A generator on the host of ``status``, in a container of its own without chips, which is gone
    after the block.

    Args:
        cloud: the stack's cloud.
        status: its slice, which has an address.
        report: receives gcloud's command.

    Raises:
        TpuflexError: it cannot be started: there is no gcloud, no server, or another generator
            runs there.
    """
    raise NotImplementedError(cloud, status, report)
    yield


@contextmanager
def here(
    url: str,
    model: str,
    *,
    key: str = "",
    tokenizer: str = "",
    python: str = "",
    ca: Path | None = None,
    report: Report = silent,
) -> Iterator[Generator]:
    """A generator on this machine, as long as the block runs.

    Args:
        url: base URL of an OpenAI server, with or without ``/v1`` at its end.
        model: name of the served model.
        key: API key; empty where the server wants none.
        tokenizer: directory or name in the Hub of the model's tokenizer; ``model`` by default.
        python: a Python that has vLLM; by default the one that runs this, or the first on PATH.
        ca: certificates that are trusted, beside the system's, in PEM.
        report: receives what is started.

    Raises:
        TpuflexError: no Python here has vLLM.
    """
    raise NotImplementedError(url, model, key, tokenizer, python, ca, report)
    yield
