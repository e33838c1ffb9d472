"""Whether an endpoint serves now: it is asked for one token.

`GET /health` needs no key, and is asked first; but it answers 200 on an engine that is frozen
(measured with vLLM 0.32), so that only a completion is a proof.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import requests
from urllib3.exceptions import HTTPError

from tpuflex.advice import Advice
from tpuflex.errors import AccessError, BootError, ConflictError, NotFoundError, TpuflexError

#: Seconds to get a connection, and for the answer; and for a completion, which may wait for others.
_TIMEOUT = (3.0, 5.0)
_COMPLETION_TIMEOUT = (3.0, 10.0)
#: Seconds between two looks at what the engine counts.
_BETWEEN_LOOKS_S = 1.0
#: Bytes of a server's metrics that are read.
_METRICS_BYTES = 4 * 1024 * 1024
#: What the engine counts: the steps that made tokens.
_STEPS = re.compile(rb"^vllm:iteration_tokens_total_count(?:\{[^\n]*\})? (\S{1,30})$", re.MULTILINE)

#: What to do about a server that does not answer.
_NO_ANSWER = Advice(
    "its host notices that within some minutes and starts the server again, which `{logs}` shows;"
    " `{restart}` does it now. If that does not help, `{reboot}` boots the machine again"
)
#: What to do about a key that the host does not know.
KEY_REFUSED = Advice(
    "a host reads its keys when it boots, so that it has another value than Secret Manager. If"
    " tpuflex:secrets was changed: `{up}`. If the secret was deleted and made again: `{restart}`"
    " has the host read it"
)


@dataclass(frozen=True, slots=True)
class Health:
    """What came of asking.

    Attributes:
        answers: whether it answered a completion; None if it was not asked for one.
        through: ``direct`` or ``iap``; empty if nothing was asked.
        why: why it does not answer, or was not asked; of one that makes tokens but is too busy to
            answer soon, that; else empty.
        seconds: how long the answer took.
        problem: what somebody has to do something about, with its remedy.
    """

    answers: bool | None
    through: str = ""
    why: str = ""
    seconds: float | None = None
    problem: TpuflexError | None = None

    @classmethod
    def no(cls, through: str, why: str) -> Health:
        """A server that does not answer."""
        message = f"The host was READY, and its server does not answer: {why}."
        return cls(False, through, why, problem=BootError(message, hint=_NO_ANSWER.sentence()))

    def __str__(self) -> str:
        way = " (through IAP)" if self.through == "iap" else ""
        if self.answers is None:
            return f"not asked{way}: {self.why}"
        if not self.answers:
            return f"NO{way}: {self.why}"
        if self.seconds is None:
            return f"yes{way}, but {self.why}"
        return f"yes, in {self.seconds * 1000:.0f} ms{way}"

    def to_json(self) -> dict[str, object]:
        """The document under ``health`` that ``tpuflex status --json`` and ``up --json`` print."""
        return {
            "answers": self.answers,
            "through": self.through or None,
            "why": self.why or None,
            "seconds": None if self.seconds is None else round(self.seconds, 4),
        }


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks one server.

    Attributes:
        endpoint: its base URL, which ends in ``/v1``.
        model: served model name.
        session: connections to it.
        through: ``direct`` or ``iap``.
        now: a monotonic clock, in seconds.
        pause: waits that many seconds.
    """

    endpoint: str
    model: str
    session: requests.Session
    through: str
    now: Callable[[], float]
    pause: Callable[[float], None]

    def ask(self, key: Callable[[], str]) -> Health:
        """Ask it for one token.

        Args:
            key: reads the API key, which is not sent to what does not answer at all.
        """
        try:
            with self._get("/health") as response:
                code = response.status_code
        except requests.Timeout:
            return Health.no(self.through, "/health did not answer in time")
        except requests.exceptions.SSLError:
            return Health.no(self.through, "the server has not the stack's certificate")
        except (requests.RequestException, HTTPError):
            return Health.no(self.through, "no connection")
        if code != requests.codes.ok:
            return Health.no(self.through, f"/health answered {code}")
        try:
            return self._complete(key())
        except (NotFoundError, ConflictError) as gone:
            return Health(None, self.through, gone.message, problem=gone)
        except TpuflexError as error:
            why = f"/health answered, and the API key cannot be read: {error.message} {error.hint}"
            return Health(None, self.through, why.strip())

    def _get(self, path: str, headers: Mapping[str, str] | None = None) -> requests.Response:
        url = f"{self.endpoint.removesuffix('/v1')}{path}"
        return self.session.get(
            url, headers=headers, timeout=_TIMEOUT, stream=True, allow_redirects=False
        )

    def _complete(self, key: str) -> Health:
        headers = {"Authorization": f"Bearer {key}"}
        # Every model that serves completes text; not every one has a chat template.
        body = {"model": self.model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
        began = self.now()
        try:
            with self.session.post(
                f"{self.endpoint}/completions",
                json=body,
                headers=headers,
                timeout=_COMPLETION_TIMEOUT,
                stream=True,
                allow_redirects=False,
            ) as response:
                # The answer comes as a whole, when the token is there.
                code = response.status_code
        except requests.Timeout:
            return self._busy_or_frozen(headers)
        except (requests.RequestException, HTTPError):
            return Health.no(self.through, "it broke off a completion")
        if code in (requests.codes.unauthorized, requests.codes.forbidden):
            return self._refused()
        if code != requests.codes.ok:
            return Health.no(self.through, f"a completion was answered with {code}")
        return Health(True, self.through, seconds=self.now() - began)

    def _busy_or_frozen(self, headers: dict[str, str]) -> Health:
        """What a server is that answered no completion in time: behind a long queue none is, and
        tokens come all the same."""
        why = f"no token came within {_COMPLETION_TIMEOUT[1]:.0f} s"
        first = self._steps(headers)
        self.pause(_BETWEEN_LOOKS_S)
        if first is None or self._steps(headers) in (None, first):
            return Health.no(self.through, why)
        return Health(True, self.through, f"it is busy: {why}, others get theirs")

    def _steps(self, headers: dict[str, str]) -> bytes | None:
        """The engine's count of steps; None where it does not say."""
        try:
            with self._get("/metrics", headers) as response:
                text = next(response.iter_content(_METRICS_BYTES), b"")
        except (requests.RequestException, HTTPError):
            return None
        return b" ".join(_STEPS.findall(text)) or None

    def _refused(self) -> Health:
        error = AccessError(
            "The host is READY, and refuses the stack's API key.", hint=KEY_REFUSED.sentence()
        )
        return Health(False, self.through, "it refuses the stack's API key", problem=error)
