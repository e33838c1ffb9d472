"""HTTP requests that can be abandoned on shutdown, even while no answer comes.

A request without an answer blocks its thread until the read timeout, half a minute: after Ctrl-C
that looks like a hang. The request itself cannot be taken back: the server may have carried it
out, so its caller has to treat the result as unknown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tpuflex.errors import InterruptedByUser

if TYPE_CHECKING:
    import requests

    from tpuflex.google.transport import HttpSession

_T = TypeVar("_T")
#: Seconds between two checks for a shutdown.
_LOOK = 0.1
#: Seconds that an answer may still take after that: nearly all come in less.
_GRACE = 1.0


@dataclass(frozen=True, slots=True)
class InterruptibleSession:
    """A session whose requests are abandoned on shutdown.

    Attributes:
        session: sends the requests; used from several threads.
        stopped: whether the process is shutting down.
        grace: seconds to wait for an answer even then.
    """

    session: HttpSession
    stopped: Callable[[], bool]
    grace: float = _GRACE

    def request(self, method: str, url: str, **how: Any) -> requests.Response:
        """Send one request.

        Raises:
            InterruptedByUser: the process is shutting down, and no answer has come yet.
        """
        return self._unless_stopped(
            lambda: self.session.request(method, url, **how), f"{method} {url.partition('?')[0]}"
        )

    def refresh_token(self) -> None:
        """Get a new access token.

        Raises:
            InterruptedByUser: the process is shutting down, and no answer has come yet.
        """
        self._unless_stopped(self.session.refresh_token, "a new access token")

    def _unless_stopped(self, work: Callable[[], _T], what: str) -> _T:
        answer: Future[_T] = Future()

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)

        # A daemon: an abandoned request must not keep the process alive.
        threading.Thread(target=run, daemon=True).start()
        grace = self.grace
        while not wait([answer], timeout=_LOOK).done:
            if self.stopped():
                grace -= _LOOK
            if grace < 0:
                raise InterruptedByUser(f"stopped while waiting for {what}")
        return answer.result()
