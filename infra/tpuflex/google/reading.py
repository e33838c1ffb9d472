"""A reading that may have failed: a right that is missing is no finding about the project."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TypeVar

from tpuflex.advice import Advice
from tpuflex.errors import ApiError, NotFoundError, ServiceDisabledError, TpuflexError
from tpuflex.gcloud_commands import enable_services

T = TypeVar("T")
#: The API that knows a project, its policies and what the caller may do in it.
RESOURCE_MANAGER = "cloudresourcemanager.googleapis.com"
#: What to do where nothing better is known.
_AGAIN = "Run it again; if it stays so, ask whoever administers the project."
#: Letters of a reason that are shown; it may quote a server's whole page.
_SHOWN = 300
#: Seconds for readings side by side, all together.
PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class DisabledApi:
    """An API that is off in a project, such as tpu.googleapis.com."""

    service: str
    project: str


@dataclass(frozen=True, slots=True)
class Unread:
    """What could not be read.

    Attributes:
        why: why not, in a line.
        remedy: what to do about that.
        disabled: the API that is off, where that is why.
        error: the failure itself, where a call has failed.
    """

    why: str
    remedy: Advice | str = _AGAIN
    disabled: DisabledApi | None = None
    error: TpuflexError | None = field(default=None, compare=False, repr=False)


def attempt(
    read: Callable[[], T], remedy: str = "", *, service: str = "", project: str = ""
) -> T | Unread:
    """What ``read`` returns, or why it could not be read.

    Args:
        read: does the reading.
        remedy: what to do where it fails; the error's own hint by default.
        service: the API that is asked, such as tpu.googleapis.com.
        project: the project that it is asked for.
    """
    try:
        return read()
    except ServiceDisabledError as error:
        if not service:
            return Unread(_line(error.brief), remedy or error.hint or _AGAIN, error=error)
        enable = enable_services(project, service)
        why = f"{service} is not enabled in {project}, or not yet"
        return Unread(why, str(enable), DisabledApi(service, project), error)
    except TpuflexError as error:
        return Unread(_line(error.brief), remedy or error.hint or _AGAIN, error=error)
    except OSError as error:
        why = _line(str(error))
        return Unread(why, remedy or _AGAIN, error=ApiError(why, hint=remedy or _AGAIN))


def attempt_if_there(read: Callable[[], T]) -> T | Unread | None:
    """As :func:`attempt`; None where what ``read`` is to return is not there."""

    def found() -> T | None:
        try:
            return read()
        except NotFoundError:
            return None

    return attempt(found)


def read_all(
    reads: Sequence[tuple[str, Callable[[], T]]], *, patience: float = PATIENCE
) -> tuple[T | Unread, ...]:
    """What each of ``reads`` returns, or why it could not be read.

    Each has a thread of its own that dies with the process: an endpoint that does not answer, or
    a gcloud that hangs, must keep nobody waiting.

    Args:
        reads: names of their threads, and what does the reading.
        patience: seconds for all of them together.
    """
    give_up = time.monotonic() + patience
    outcomes = [_begin(name, read) for name, read in reads]
    for outcome in outcomes:
        wait([outcome], timeout=max(0.0, give_up - time.monotonic()))
    return tuple(
        outcome.result() if outcome.done() else _unanswered(patience) for outcome in outcomes
    )


def _begin(name: str, read: Callable[[], T]) -> Future[T | Unread]:
    outcome: Future[T | Unread] = Future()

    def run() -> None:
        try:
            outcome.set_result(attempt(read))
        except BaseException as error:  # a bug: raised where the result is taken
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True, name=name).start()
    return outcome


def _unanswered(patience: float) -> Unread:
    why = f"no answer within {patience:g} s"
    remedy = "Run it again; if it stays so, look at the network and its proxy."
    return Unread(why, remedy, error=ApiError(why, hint=remedy))


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
