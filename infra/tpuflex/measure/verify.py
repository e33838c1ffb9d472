"""Whether an endpoint does what it is there for: a check for each promise, all of them made.

``GET /health`` answers 200 on an engine that is frozen, so what counts are tokens: a completion,
and the engine's own count of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.errors import AccessError, ApiError, BootError, ServerDownError, TpuflexError
from tpuflex.measure.server import ServerClient, open_server
from tpuflex.operate.endpoint_status import too_old
from tpuflex.operate.health import NO_ANSWER
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.measure.metrics import EngineMetrics
    from tpuflex.operate.health import Completion, Health
    from tpuflex.stack.connection import Connection

#: What a server is asked to go on with, and for how long.
_PROMPT, _TOKENS = "The capital of France is", 16
#: Seconds until an engine has counted what it has answered.
_COUNTED_WITHIN_S = 1.0
_REFUSED = (401, 403)

#: What to do about a server that takes no connection.
_DOWN = Advice(
    "if `{status}` says that it is being started again, wait: a host starts a server that has died"
    " within a minute. Otherwise, {otherwise}",
    otherwise=NO_ANSWER,
)
_ANOTHER_MODEL = Advice("`{up}` has the host serve what the stack file names")
_OPEN = Advice(
    "The host has checked that before it was READY: something else answers there, or the server was"
    " changed. `{restart}` starts it again; until then everybody who reaches it can use it"
)
_TOO_OLD = Advice("Write another image at tpuflex:serving.image, then `{up}`")


class Standing(StrEnum):
    """How a check stands."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One promise.

    Attributes:
        name: what was looked at.
        standing: how it stands.
        text: what was found.
        problem: the failure, with its exit code and its remedy; None where it did not fail.
    """

    name: str
    standing: Standing
    text: str
    problem: TpuflexError | None = None

    @classmethod
    def failed(cls, name: str, text: str, remedy: Advice) -> Check:
        """A failure to serve."""
        return cls.of(name, BootError(text, hint=remedy.sentence()))

    @classmethod
    def of(cls, name: str, problem: TpuflexError) -> Check:
        """The failure ``problem``."""
        return cls(name, Standing.FAILED, problem.message, problem)

    def to_json(self, stack: str) -> dict[str, object]:
        """The check in the document of the :class:`Verification` of ``stack``."""
        remedy = "" if self.problem is None else self.problem.hint.for_stack(stack)
        return {
            "name": self.name,
            "standing": self.standing.value,
            "text": self.text,
            "remedy": remedy,
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of verifying an endpoint.

    Attributes:
        stack: its stack.
        endpoint: its base URL, as it was asked.
        model: the served model's name.
        checks: all checks, in the order in which they were made.
        completion: what it completed; None if it did not.
        seconds: how long that took.
    """

    stack: str
    endpoint: str
    model: str
    checks: tuple[Check, ...]
    completion: Completion | None = None
    seconds: float | None = None

    @property
    def problems(self) -> tuple[TpuflexError, ...]:
        """Why checks failed."""
        return tuple(check.problem for check in self.checks if check.problem is not None)

    @property
    def exit_code(self) -> int:
        """0 where nothing failed; 7 where it does not serve as it should; 6 where only the key is
        the matter."""
        return max((problem.exit_code for problem in self.problems), default=0)

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex verify --json`` prints."""
        completion = self.completion
        return {
            "stack": self.stack,
            "endpoint": self.endpoint,
            "model": self.model,
            "ok": not self.problems,
            "exit_code": self.exit_code,
            "checks": [check.to_json(self.stack) for check in self.checks],
            "completion": None
            if completion is None
            else {
                "text": completion.text,
                "finish_reason": completion.finish_reason,
                "tokens": completion.tokens,
                "seconds": None if self.seconds is None else round(self.seconds, 4),
            },
        }


def verify(cloud: Connection, report: Report = silent, *, tunnel: bool = True) -> Verification:
    """Verify the endpoint of the stack of ``cloud``. A frozen server takes half a minute.

    Args:
        cloud: the stack's cloud.
        report: receives why a tunnel is opened.
        tunnel: whether one may be opened.

    Raises:
        NotFoundError, AccessError, TpuflexError: there is nothing to verify, or no way to it; as
            :func:`tpuflex.measure.server.open_server`.
    """
    with open_server(cloud, report, tunnel=tunnel) as server:
        return examine(server, cloud.stack.name, lambda version: too_old(version, cloud.stack))


def examine(server: ServerClient, stack: str, too_old: Callable[[str], str]) -> Verification:
    """Make all checks of ``server``.

    Args:
        server: the server.
        stack: its stack.
        too_old: why a version should not serve; empty where it may.
    """
    healthy = _healthy(server)
    checks = [healthy, _model(server), _version(server, too_old), _key(server)]
    before = _metrics(server)
    health = server.probe().ask(lambda: server.key, _PROMPT, _TOKENS)
    checks.append(_completion(health, healthy))
    checks.append(_tokens(server, before, health.completion))
    return Verification(
        stack, server.endpoint, server.model, tuple(checks), health.completion, health.seconds
    )


def _healthy(server: ServerClient) -> Check:
    name = "health"
    try:
        code = server.code("/health")
    except ApiError as error:
        return _no_answer(name, error)
    if code != 200:
        return Check.failed(name, f"/health answers {code}", NO_ANSWER)
    return Check(name, Standing.OK, "/health answers 200")


def _no_answer(name: str, error: ApiError) -> Check:
    down = isinstance(error, ServerDownError)
    return Check.failed(name, error.message, _DOWN if down else NO_ANSWER)


def _model(server: ServerClient) -> Check:
    name = "model"
    try:
        models = server.models()
    except AccessError as error:
        return Check.of(name, error)
    except ApiError as error:
        return _no_answer(name, error)
    served = next((model for model in models if model.id == server.model), None)
    if served is None:
        others = ", ".join(model.id for model in models[:5]) or "nothing"
        return Check.failed(name, f"it serves {others}, not {server.model}", _ANOTHER_MODEL)
    length = served.max_model_len
    upto = "" if length is None else f", up to {length:,} tokens"
    return Check(name, Standing.OK, f"{served.id}{upto}")


def _version(server: ServerClient, too_old: Callable[[str], str]) -> Check:
    name = "version"
    try:
        version = server.version()
    except AccessError as error:
        return Check.of(name, error)
    except ApiError as error:
        return Check(name, Standing.UNKNOWN, error.message)
    if why := too_old(version):
        return Check.failed(name, f"vLLM {version}, {why}", _TOO_OLD)
    return Check(name, Standing.OK, f"vLLM {version}, not below the security floor")


def _key(server: ServerClient) -> Check:
    """Models are listed for nobody without the key."""
    name = "key required"
    try:
        code = server.code("/v1/models")
    except ApiError as error:
        return Check(name, Standing.UNKNOWN, error.message)
    if code in _REFUSED:
        return Check(name, Standing.OK, f"a request without the key is refused with {code}")
    text = f"a request without the key is answered with {code}"
    if code == 200:
        return Check.of(name, AccessError(text, hint=_OPEN.sentence()))
    return Check(name, Standing.UNKNOWN, text)


def _completion(health: Health, healthy: Check) -> Check:
    name, completion = "completion", health.completion
    if completion is not None and health.seconds is not None:
        text = f"{completion.tokens} tokens in {health.seconds:.2f} s, ended by"
        text += f' {completion.finish_reason}: "{completion.text.strip()}"'
        return Check(name, Standing.OK, text)
    if health.problem is None:
        return Check(name, Standing.UNKNOWN, health.why)
    if isinstance(health.problem, AccessError):
        return Check.of(name, health.problem)
    if healthy.problem is not None:  # it is the reason of this one, too
        return Check(name, Standing.FAILED, health.why, healthy.problem)
    return Check(name, Standing.FAILED, f"/health answers 200, and {health.why}", health.problem)


def _metrics(server: ServerClient) -> EngineMetrics | TpuflexError:
    try:
        return server.metrics()
    except (AccessError, ApiError) as error:
        return error


def _tokens(
    server: ServerClient, before: EngineMetrics | TpuflexError, completion: Completion | None
) -> Check:
    """Whether the engine has counted what was answered: what answers may not be the engine."""
    name, answered = "tokens move", completion.tokens if completion is not None else 1
    after = _metrics(server)
    counted = _between(before, after)
    if counted is not None and counted < answered:
        server.pause(_COUNTED_WITHIN_S)
        after = _metrics(server)
        counted = _between(before, after)
    for look in (before, after):
        if isinstance(look, AccessError):
            return Check.of(name, look)
        if isinstance(look, TpuflexError):
            return Check(name, Standing.UNKNOWN, look.message)
    if counted is None:
        return Check(name, Standing.UNKNOWN, "the server does not say how many it has generated")
    if counted >= answered:
        return Check(name, Standing.OK, f"the engine counted {counted:,.0f} meanwhile")
    if completion is not None:
        text = f"{answered} were answered, and the engine counted {counted:,.0f}"
        return Check.failed(name, text, NO_ANSWER)
    return Check.failed(name, "the engine counted none meanwhile", NO_ANSWER)


def _between(
    before: EngineMetrics | TpuflexError, after: EngineMetrics | TpuflexError
) -> float | None:
    """The tokens that were generated between two looks."""
    if isinstance(before, TpuflexError) or isinstance(after, TpuflexError):
        return None
    return after.since(before).generation_tokens
