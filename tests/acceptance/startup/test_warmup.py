"""The warm-up: what is asked before READY, how long, and what becomes of a server that fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.startup.cloud import API_KEY
from tests.startup.host import StartupHost
from tpuflex.startup.warmup_requests import (
    ANSWER_TOKENS,
    BATCH_ANSWER_TOKENS,
    FEWEST_SEQUENCES,
    FEWEST_TOKENS,
    MOST_SEQUENCES,
    MOST_TOKENS,
    Round,
    ask_all,
    batches,
    lengths,
)


def warm(host: StartupHost, **serving: Any) -> None:
    """Let the host have a warm-up."""
    host.cloud.config = host.config(serving=host.config()["serving"] | {"warmup_s": 45} | serving)


def asked(host: StartupHost, path: str) -> list[dict[str, Any]]:
    """The documents that were sent to a path."""
    prefix = f"POST {path} "
    lines = [line for line in host.cloud.requests if line.startswith(prefix)]
    return [json.loads(line.removeprefix(prefix)) for line in lines]


def at_phases(host: StartupHost, act: Callable[[str], object]) -> None:
    """Call ``act`` with each phase that the host reports."""
    host.cloud.on_report = lambda report: act(report["phase"])


def test_the_server_is_asked_between_its_completion_and_ready(host: StartupHost) -> None:
    """The server is asked in a phase of its own: a chat as users send it, an answer of a form,
    log probabilities, a prompt of a length that it takes; then it completes once more. A second run
    of the script leaves it alone, and one after docker has started it again does not. No key is in
    a file on a disk."""
    seen: list[tuple[str, int]] = []
    at_phases(host, lambda phase: seen.append((phase, host.cloud.asked("POST /v1/completions"))))
    warm(host, max_num_seqs=4)
    run = host.run()
    assert run.status == 0, run.output
    assert host.cloud.phases()[-3:] == ["completion", "warmup", "READY"]
    prompts = [len(each["prompt"]) for each in asked(host, "/v1/completions")]
    assert prompts[:2] == [128, 128]
    assert max(prompts) <= 198
    assert ("warmup", 0) in seen
    assert ("READY", len(prompts)) in seen
    first, chat, formed, token, last = asked(host, "/v1/chat/completions")
    assert first == last
    assert chat["stream"] is True
    assert "temperature" not in chat
    assert (token["logprobs"], token["top_logprobs"]) == (True, 1)
    assert formed["response_format"]["type"] == "json_schema"
    assert f"warmup: {len(prompts) + 3} requests in " in run.output
    assert API_KEY not in run.output
    assert not host.memory("key.header").exists()

    again = host.run()
    assert again.status == 0, again.output
    assert "the server was warmed up before" in again.output
    assert len(asked(host, "/v1/completions")) == len(prompts)

    record = host.directory / "container.json"
    record.write_text(record.read_text().replace('"RestartCount": 0', '"RestartCount": 1'))
    assert host.run().status == 0
    assert len(asked(host, "/v1/completions")) > len(prompts)


def test_a_server_that_refuses_requests_is_ready_all_the_same(host: StartupHost) -> None:
    """What a model cannot do is told, also in a stream, and is no failure of the host. Without the
    longest prompt no prompts are sent."""

    def act(phase: str) -> None:
        if phase == "warmup":
            host.cloud.answers = {"/v1/chat/completions": [400, 500, 200]}

    at_phases(host, act)
    host.cloud.models = b"{}"
    warm(host)
    run = host.run()
    assert run.status == 0, run.output
    assert "warmup: 3 requests in " in run.output
    assert ", 1 answered with 400, 1 answered with 500" in run.output
    assert ", 1 answered with an error" in run.output
    assert asked(host, "/v1/completions") == []


def test_a_server_that_is_slow_is_ready_when_the_time_is_over(host: StartupHost) -> None:
    """What is not answered in time is left, and the boot goes on: the server still completes."""
    host.cloud.silent = "/v1/completions"
    warm(host, warmup_s=1)
    run = host.run()
    assert run.status == 0, run.output
    assert "the time was over" in run.output


def test_a_server_that_dies_of_it_is_not_ready(host: StartupHost) -> None:
    """A server that dies of a prompt that it should serve fails the boot, and is stopped."""

    def act(phase: str) -> None:
        if phase == "warmup":
            paths = ("/v1/chat/completions", "/v1/completions")
            host.cloud.answers = {path: [503] * 99 for path in paths}

    at_phases(host, act)
    (host.directory / "container.log").write_text("RuntimeError: out of memory\n")
    warm(host)
    run = host.run()
    assert run.status == 1
    error = host.cloud.last("error")
    assert error.startswith("warmup: the server answers 503 to a completion after its warm-up (")
    assert "out of memory" in error
    assert host.cloud.phases()[-1] == "warmup"
    assert len(host.docker_calls("stop")) == 1
    assert not host.memory("key.header").exists()


def prompts_of(asked: Round) -> list[Sequence[int]]:
    """Its prompts; of a chat an empty one."""
    return [cast("Sequence[int]", each.get("prompt", ())) for each in asked.documents]


class Server:
    """A server that takes so many seconds longer for a size that is new."""

    def __init__(self, compiles: float) -> None:
        self._compiles = compiles
        self._known: set[tuple[int, int]] = set()
        self.rounds: list[Round] = []

    def send(self, asked: Round) -> float:
        """Its seconds."""
        self.rounds.append(asked)
        shape = len(asked.documents), len(prompts_of(asked)[0])
        new = shape not in self._known
        self._known.add(shape)
        return 0.1 + (self._compiles if new else 0.0)


def test_a_server_that_compiles_at_first_use_is_asked_for_every_shape() -> None:
    """Where the first prompt takes longer than a second one, all lengths and batches are asked for,
    and it is said up to which."""
    server = Server(compiles=3.0)
    said = list(ask_all(server.send, 4096, "m", 1024, 40))
    assert said == ["prompts up to 1024 tokens", "up to 40 at once"]
    prompts = [prompts_of(each) for each in server.rounds[3:]]
    alone = [len(each[0]) for each in prompts if len(each) == 1]
    assert alone == [128, 128, 16, 32, 64, 256, 512, 1024]
    assert [len(each) for each in prompts if len(each) > 1] == [16, 16, 32, 40]


def test_a_server_that_has_compiled_all_is_asked_little() -> None:
    """Where nothing is slower at its first use, the same size twice is all that is asked for."""
    server = Server(compiles=0.0)
    assert list(ask_all(server.send, 4096, "m", 1024, 40)) == []
    assert [len(each.documents) for each in server.rounds] == [1, 1, 1, 1, 1, 16, 16]


@given(st.integers(0, 300_000), st.integers(1, 20_000))
def test_lengths_are_served(longest: int, at_once: int) -> None:
    """Every prompt fits with its answer, none comes twice, and the longest is among them."""
    found = lengths(longest, at_once)
    most = min(longest - ANSWER_TOKENS, at_once, MOST_TOKENS)
    assert len(found) == len(set(found))
    assert all(0 < length <= most for length in found)
    assert (most < 1) == (not found)
    assert not found or max(found) == most
    assert all(after <= 2 * max(before, FEWEST_TOKENS) for before, after in pairwise(sorted(found)))


@given(st.integers(0, 5000), st.integers(1, 5000))
def test_batches_are_served(longest: int, sequences: int) -> None:
    """No batch has more requests than the server takes, or than is worth a warm-up, nor as few as
    one request is padded to."""
    found = batches(longest, sequences)
    assert found == sorted(set(found))
    assert all(FEWEST_SEQUENCES < count <= min(sequences, MOST_SEQUENCES) for count in found)
    fits = longest >= FEWEST_TOKENS + BATCH_ANSWER_TOKENS
    assert (sequences <= FEWEST_SEQUENCES or not fits) == (not found)
    assert not found or found[-1] == min(sequences, MOST_SEQUENCES)


def test_no_two_prompts_begin_alike() -> None:
    """What a prefix cache has is not computed, so each prompt is another one."""
    server = Server(compiles=3.0)
    list(ask_all(server.send, 4096, "m", 4096, 64))
    prompts = [prompt for each in server.rounds[3:] for prompt in prompts_of(each)]
    assert len({tuple(prompt[:16]) for prompt in prompts}) == len(prompts) > 100
