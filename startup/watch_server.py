"""What the watch asks of the model server, and how it reads the answers.

Whoever runs in the container writes them: none may end the watch, or hold it.

``watch.py`` uses it, beside which the startup script writes this, ``routes.py``, ``series.py`` and
``watch_state.py``.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn

from routes import Server as Connection
from series import MOST, read_samples
from watch_state import Server

#: Bounds on what is waited for: an answer, a completion (the first one may compile programs).
ANSWER_S, COMPLETION_S = 10.0, 60.0


class ModelServer:
    """The model server, behind its guard.

    Args:
        url: its address.
        certificate: file with its certificate.
        key: file with the host's own key.
        model: the name that it serves under.

    Attributes:
        metrics: what it has said of its metrics at the last look that it answered.
    """

    def __init__(self, url: str, certificate: str, key: Path, model: str) -> None:
        self._url, self._certificate, self._key, self._model = url, certificate, key, model
        self.metrics = ""

    def look(self) -> Server | None:
        """What it says of itself; None if it does not answer."""
        requests = self._ask("GET", "/tpuflex/requests", ANSWER_S)
        metrics = None if requests is None else self._ask("GET", "/metrics", ANSWER_S)
        if requests is None or metrics is None:
            return None
        self.metrics = metrics
        return read_server(metrics, requests)

    def completes(self) -> bool:
        """Whether it answers a completion; a base model has no chat."""
        text = "Reply with one word: ready"
        asked: dict[str, object] = {"model": self._model, "max_tokens": 1, "temperature": 0}
        chat = asked | {"messages": [{"role": "user", "content": text}]}
        documents = {"/v1/chat/completions": chat, "/v1/completions": asked | {"prompt": text}}
        return any(
            self._ask("POST", path, COMPLETION_S, document) is not None
            for path, document in documents.items()
        )

    def _ask(self, method: str, path: str, seconds: float, document: object = None) -> str | None:
        """The text of an answer with status 200 that was whole in time; None otherwise."""
        try:
            key = self._key.read_text(encoding="ascii").strip()
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            content = None if document is None else json.dumps(document).encode()
            connection = Connection(self._url, self._certificate, seconds)
            with closing(connection), _within(seconds):
                status, body = connection.ask(method, path, headers, content)
        except Exception:
            # Whatever http.client cannot read is no answer (a header can have it raise TypeError).
            return None
        return body.decode("utf-8", "replace") if status == 200 else None


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError, an OSError, unless the block ends in time: a connection's own limit
    begins anew with every byte."""

    def too_late(*_: object) -> NoReturn:
        raise TimeoutError(f"not done after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def read_server(metrics: str, requests: str) -> Server:
    """What a server says of itself: Prometheus' text, of several engines the sum, and the guard's
    count. What it does not say, or what is no count, counts as 0, but for its steps."""
    sums: dict[str, float] = {}
    for name, _, value in read_samples(metrics):
        sums[name] = min(sums.get(name, 0.0) + value, float(MOST))
    try:
        found = json.loads(requests)["in_flight"]
    except (ValueError, LookupError, TypeError, RecursionError):
        found = 0
    in_flight = found if type(found) is int and 0 <= found <= MOST else 0
    running, waiting = (
        int(sums.get(name, 0)) for name in ("num_requests_running", "num_requests_waiting")
    )
    return Server(in_flight, running, waiting, sums.get("iteration_tokens_total_count"))
