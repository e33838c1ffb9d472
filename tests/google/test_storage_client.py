"""Google's storage library on an API that was enabled a moment ago."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from tests.provider.fakes import FakeTime
from tpuflex.google.storage_client import SettlingAdapter
from tpuflex.google.timing import Settling

DISABLED = {"error": {"code": 403, "errors": [{"reason": "accessNotConfigured"}], "message": "off"}}
DENIED = {"error": {"code": 403, "errors": [{"reason": "forbidden"}], "message": "no"}}


class Answers(BaseAdapter):
    """Answers with these, one after the other."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        super().__init__()
        self.answers = [*answers]

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        status, body = self.answers.pop(0)
        response = requests.Response()
        response.status_code = status
        response.raw = io.BytesIO(json.dumps(body).encode())
        response.request = request
        return response

    def close(self) -> None:
        pass


def sent(answers: Answers, time: FakeTime, *, settling: float, body: Any = b"x") -> int:
    """The status of what comes back for a request with ``body``."""
    adapter = SettlingAdapter(answers, Settling(time.now + settling), time.timing())
    request = requests.Request("POST", "https://storage.googleapis.com/b", data=body).prepare()
    return adapter.send(request).status_code


def test_b2_a_push_right_after_enabling_waits_for_the_api() -> None:
    """SERVICE_DISABLED is asked again while APIs settle."""
    time = FakeTime()
    answers = Answers((403, DISABLED), (403, DISABLED), (200, {}))

    assert sent(answers, time, settling=300) == 200
    assert time.pauses == [5.0, 5.0]


@pytest.mark.parametrize(
    ("settling", "refusal", "body"),
    [(-1.0, DISABLED, b"x"), (300.0, DENIED, b"x"), (300.0, DISABLED, iter([b"x"]))],
    ids=["nobody enabled anything", "a right is missing", "a stream was read"],
)
def test_any_other_refusal_is_final(settling: float, refusal: Any, body: Any) -> None:
    """No wait can change it, or the request cannot be sent twice."""
    time = FakeTime()

    assert sent(Answers((403, refusal)), time, settling=settling, body=body) == 403
    assert time.pauses == []


def test_an_api_that_never_answers_is_given_up() -> None:
    """After the time in which APIs settle, the refusal stands."""
    time = FakeTime()

    assert sent(Answers(*[(403, DISABLED)] * 9), time, settling=30) == 403
    assert sum(time.pauses) <= 30
