"""A transport over a session that answers from a list, in fake time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.provider.fakes import FakeTime
from tpuflex.google.transport import Transport

BASE = "https://tpu.googleapis.com"
PATH = "/v2alpha1/projects/p/locations/z/queuedResources/q"
OK = (200, {"name": "q"})


def refusal(status: int, reason: str, message: str = "no", **more: Any) -> tuple[int, Any]:
    """A Google-shaped error answer."""
    return status, {"error": {"code": status, "status": reason, "message": message, **more}}


def dated(text: str) -> tuple[int, bytes, dict[str, str]]:
    return 503, b"", {"Retry-After": text}


@dataclass
class FakeSession:
    """Answers from a list: (status, JSON or bytes[, headers]), or an exception to raise."""

    answers: list[Any]
    time: FakeTime
    at: list[float] = field(default_factory=list)
    sent: list[tuple[str, str, Mapping[str, str], bytes | None]] = field(default_factory=list)
    refreshed: int = 0
    refresh_faults: list[Exception] = field(default_factory=list)

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str],
        data: bytes | None,
        headers: Mapping[str, str],  # noqa: ARG002 - the session's signature
        timeout: tuple[float, float],
        allow_redirects: bool,
    ) -> requests.Response:
        assert timeout
        assert not allow_redirects
        self.at.append(self.time.now)
        self.sent.append((method, url, params, data))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code = answer[0]
        body = answer[1]
        response._content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response.headers.update(answer[2] if len(answer) > 2 else {})
        return response

    def refresh_token(self) -> None:
        self.refreshed += 1
        if self.refresh_faults:
            raise self.refresh_faults.pop(0)


def transport(*answers: Any, stop_at: float | None = None) -> tuple[Transport, FakeSession]:
    time = FakeTime(stop_at=stop_at)
    session = FakeSession([*answers], time)
    return Transport(session, BASE, time.timing()), session
