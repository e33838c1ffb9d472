"""Whether an endpoint answers now: one `GET /health`, which needs no key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import requests
from urllib3.exceptions import HTTPError

#: Seconds to get a connection, and for the answer.
_TIMEOUT = (3.0, 5.0)


@dataclass(frozen=True, slots=True)
class Health:
    """What came of asking.

    Attributes:
        answers: whether it answered 200; None if it was not asked.
        through: ``direct`` or ``iap``; empty if it was not asked.
        why: why it does not answer, or was not asked; empty if it answers.
        seconds: how long the answer took.
    """

    answers: bool | None
    through: str = ""
    why: str = ""
    seconds: float | None = None

    def __str__(self) -> str:
        way = " (through IAP)" if self.through == "iap" else ""
        if self.answers is None:
            return f"not asked: {self.why}"
        if self.seconds is None or not self.answers:
            return f"NO{way}: {self.why}"
        return f"yes, in {self.seconds * 1000:.0f} ms{way}"

    def to_json(self) -> dict[str, object]:
        """The document under ``health`` that ``tpuflex status --json`` prints."""
        return {
            "answers": self.answers,
            "through": self.through or None,
            "why": self.why or None,
            "seconds": None if self.seconds is None else round(self.seconds, 4),
        }


def ask_health(
    endpoint: str, session: requests.Session, *, through: str, now: Callable[[], float]
) -> Health:
    """Ask the server of ``endpoint`` (base URL that ends in ``/v1``).

    Args:
        endpoint: its base URL.
        session: connections to it.
        through: ``direct`` or ``iap``.
        now: a monotonic clock, in seconds.
    """
    began = now()
    try:
        with session.get(
            f"{endpoint.removesuffix('/v1')}/health",
            timeout=_TIMEOUT,
            stream=True,
            allow_redirects=False,
        ) as response:
            code = response.status_code
    except requests.Timeout:
        return Health(False, through, "/health did not answer in time")
    except requests.exceptions.SSLError:
        return Health(False, through, "the server has not the stack's certificate")
    except (requests.RequestException, HTTPError):
        return Health(False, through, "no connection")
    if code != requests.codes.ok:
        return Health(False, through, f"/health answered {code}")
    return Health(True, through, seconds=now() - began)
