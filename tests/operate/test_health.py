"""Whether an endpoint serves now, by what its server answers."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pytest
import requests
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

from tpuflex.errors import AccessError, NotFoundError, TpuflexError
from tpuflex.operate.health import Completion, Health, Probe, read_body, response_within

ENDPOINT = "http://127.0.0.9:8000/v1"
HEALTH, COMPLETIONS, METRICS = "/health", "/v1/completions", "/metrics"
#: What a server answers, by path: a status, what is raised instead, or texts, one after the other.
Answers = dict[str, int | Exception | list[bytes]]
#: What vLLM 0.32 answers.
COMPLETED = (
    b'{"id":"cmpl-1","object":"text_completion","choices":[{"index":0,"text":" I","logprobs":null,'
    b'"finish_reason":"length","stop_reason":null}],'
    b'"usage":{"prompt_tokens":1,"total_tokens":2,"completion_tokens":1}}'
)


class Server(BaseAdapter):
    """A server without a network."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.answers = answers
        self.asked = list[str]()

    def send(
        self, request: requests.PreparedRequest, *_: object, **__: object
    ) -> requests.Response:
        self.asked.append(request.path_url)
        answer = self.answers[request.path_url]
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code = answer if isinstance(answer, int) else 200
        body = answer.pop(0) if isinstance(answer, list) else b""
        response.raw = HTTPResponse(io.BytesIO(body), preload_content=False)
        return response

    def close(self) -> None:
        """There is nothing to close."""


def ask(answers: Answers, key: Callable[[], str] = lambda: "key") -> tuple[Health, list[str]]:
    """What comes of asking, and which paths were asked."""
    server, session = Server(answers), requests.Session()
    session.mount("http://", server)
    clock = iter([0.0, 0.25])
    asker = Probe(ENDPOINT, "m", session, "direct", lambda: next(clock), lambda _seconds: None)
    return asker.ask(key), server.asked


def steps(count: int) -> bytes:
    return b'# HELP of it\nvllm:iteration_tokens_total_count{engine="0"} %d.0\n' % count


def test_one_that_completes() -> None:
    """The proof is a completion, by a server that is asked for nothing else."""
    found, asked = ask({HEALTH: 200, COMPLETIONS: [COMPLETED]})

    completion = Completion(" I", "length", 1)
    assert found == Health(True, "direct", seconds=0.25, completion=completion)
    assert str(found) == "yes, in 250 ms"
    assert asked == [HEALTH, COMPLETIONS]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({HEALTH: requests.ConnectionError()}, "no connection"),
        ({HEALTH: requests.Timeout()}, "/health did not answer in time"),
        ({HEALTH: 503}, "/health answered 503"),
        ({HEALTH: 200, COMPLETIONS: 500}, "a completion was answered with 500"),
        ({HEALTH: 200, COMPLETIONS: requests.ConnectionError()}, "it broke off a completion"),
        *(
            ({HEALTH: 200, COMPLETIONS: [body]}, "a completion was answered without a token")
            for body in (
                b"",
                b"<html></html>",
                b'{"choices": []}',
                COMPLETED.replace(b'"completion_tokens":1', b'"completion_tokens":0'),
                COMPLETED.replace(b'"length"', b"null"),
            )
        ),
        # Its engine is frozen: it counts on nothing.
        (
            {HEALTH: 200, COMPLETIONS: requests.Timeout(), METRICS: [steps(7), steps(7)]},
            "no token came within 10 s",
        ),
        ({HEALTH: 200, COMPLETIONS: requests.Timeout(), METRICS: 404}, "no token came within 10 s"),
    ],
)
def test_one_that_does_not_answer(answers: Answers, why: str) -> None:
    """It does not serve, whatever its host says: an error that says what to do."""
    found, _ = ask(answers)

    assert (found.answers, str(found)) == (False, f"NO: {why}")
    assert found.problem is not None
    assert found.problem.exit_code == 7
    assert "`tpuflex logs`" in str(found.problem.hint)


def test_one_that_is_busy() -> None:
    """Behind a long queue no completion comes in time; that others get tokens is a proof, too."""
    found, _ = ask({HEALTH: 200, COMPLETIONS: requests.Timeout(), METRICS: [steps(7), steps(9)]})

    assert (found.answers, found.problem) == (True, None)
    assert str(found) == "yes, but it is busy: no token came within 10 s, others get theirs"


def test_one_that_refuses_the_key() -> None:
    """It serves to others: the error is that of a right that is missing."""
    found, _ = ask({HEALTH: 200, COMPLETIONS: 401})

    assert (found.answers, type(found.problem)) == (False, AccessError)
    assert str(found) == "NO: it refuses the stack's API key"


@pytest.mark.parametrize(
    ("error", "is_problem"),
    [(NotFoundError("it is gone"), True), (AccessError("403"), False)],
)
def test_one_whose_key_cannot_be_read(error: TpuflexError, is_problem: bool) -> None:
    """That says nothing against the endpoint; a key that is gone, somebody has to bring back."""

    def key() -> str:
        raise error

    found, asked = ask({HEALTH: 200}, key)

    assert found.answers is None
    assert (found.problem is error) is is_problem
    assert asked == [HEALTH]


def test_a_body_is_read_up_to_a_bound() -> None:
    """Of what a server sends there is no end to wait for: neither in bytes nor in seconds."""

    def response(body: bytes) -> requests.Response:
        answer = requests.Response()
        answer.raw = HTTPResponse(io.BytesIO(body), preload_content=False)
        return answer

    assert read_body(response(b"x" * 100_000), 200_000) == b"x" * 100_000
    assert read_body(response(b"x" * 300_000), 200_000) == b"x" * 200_000
    with pytest.raises(requests.Timeout):
        read_body(response(b"x" * 300_000), 200_000, seconds=-1.0)


def test_headers_without_end_are_not_waited_for() -> None:
    """A server that goes on sending them holds nobody longer than the deadline."""
    ends = threading.Event()

    def ask() -> requests.Response:
        ends.wait(30)
        return requests.Response()

    with pytest.raises(requests.Timeout):
        response_within(ask, 0.01)
    ends.set()
