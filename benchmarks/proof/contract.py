"""What Google answers to the cases that cost nothing, and what the embedded cloud does."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from proof.bundle import Bundle
from proof.cases import CASES, Call, Case
from proof.commands import StepError
from proof.options import ROOT, Options
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.session import AuthorizedSession, authorized_session

#: Where a recording is put that the embedded cloud is to be held to (`make contract`).
RECORDINGS = ROOT / "tests" / "embedded_cloud" / "data" / "google"
_TIMEOUT = (10.0, 60.0)
_AGAIN_S, _ATTEMPTS = 5.0, 12

Json = Any


class Caller:
    """Calls the APIs of one project.

    Args:
        session: has the credentials.
        endpoints: where the APIs are.
        names: what takes the place of ``{project}``, ``{zone}``, ``{region}`` and ``{name}``.
        pause: waits some seconds.
    """

    def __init__(
        self,
        session: AuthorizedSession,
        endpoints: Endpoints,
        names: Mapping[str, str],
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._session = session
        self._endpoints = endpoints
        self._names = names
        self._pause = pause

    def record(self, case: Case) -> Iterator[dict[str, Json]]:
        """Make the calls of ``case``, and clean up; each call with its answer."""
        try:
            for number, call in enumerate(case.calls):
                status, answer = self._repeated(call)
                yield {
                    "case": case.name,
                    "number": number,
                    "method": call.method,
                    "path": call.path,
                    "status": status,
                    "expected": call.status,
                    "reason": reason(answer),
                    "shape": shape(answer),
                    "as_expected": as_expected(call, status, answer),
                }
        finally:
            for call in case.cleanup:
                self._send(call)

    def _repeated(self, call: Call) -> tuple[int, Json]:
        for _ in range(_ATTEMPTS if call.again else 1):
            status, answer = self._send(call)
            if status == call.status:
                break
            self._pause(_AGAIN_S)
        return status, answer

    def _send(self, call: Call) -> tuple[int, Json]:
        base = getattr(self._endpoints, call.api)
        response = self._session.request(
            call.method,
            base + call.path.format_map(self._names),
            json=None if call.body is None else filled(call.body, self._names),
            timeout=_TIMEOUT,
        )
        try:
            return response.status_code, response.json()
        except ValueError:
            return response.status_code, None


def run_cases(
    given: Options, bundle: Bundle, environ: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Make the calls of all cases, keep what is answered, and say what was not expected.

    Raises:
        StepError: something was answered otherwise than expected: the recording says how, and the
            embedded cloud has to be changed.
    """
    endpoints = Endpoints.from_environ(environ)
    names = {
        "project": given.project,
        "zone": given.zone,
        "region": given.zone.rpartition("-")[0],
        "name": f"tpuflex-proof-{secrets.token_hex(4)}",
    }
    with authorized_session(endpoints, environ, given.project, renews=True) as session:
        caller = Caller(session, endpoints, names)
        recorded = []
        for case in CASES:
            calls = list(caller.record(case))
            recorded += calls
            odd = [call for call in calls if not call["as_expected"]]
            say(f"  {'otherwise' if odd else 'as said':10} {case.name}")
            for call in odd:
                say(f"      {call['method']} {call['path']}: {call['status']} {call['reason']}")
    odd = [call for call in recorded if not call["as_expected"]]
    bundle.step("free-tier", {"exit_code": 1 if odd else 0, "out": recorded})
    if given.cloud == "google":
        say(
            f"To hold the embedded cloud to it: copy {bundle.raw}/01-free-tier.json to {RECORDINGS}"
        )
    if odd:
        raise StepError(f"{len(odd)} of {len(recorded)} calls were answered otherwise than said")


def as_expected(call: Call, status: int, answer: Json) -> bool:
    """Whether the answer is the one that is expected of ``call``."""
    if call.status is None:
        return True
    return status == call.status and (not call.reason or reason(answer) == call.reason)


def reason(answer: Json) -> str:
    """``error.status`` of Google's error model; empty where there is none."""
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("status", "")) if isinstance(error, dict) else ""


def shape(answer: Json) -> Json:
    """The names and types of ``answer``, without any value."""
    if isinstance(answer, dict):
        return {key: shape(value) for key, value in sorted(answer.items())}
    if isinstance(answer, list):
        return [shape(answer[0])] if answer else []
    return type(answer).__name__


def filled(body: Json, names: Mapping[str, str]) -> Json:
    """``body`` with ``names`` in its strings."""
    if isinstance(body, Mapping):
        return {key: filled(value, names) for key, value in body.items()}
    if isinstance(body, list):
        return [filled(value, names) for value in body]
    return body.format_map(names) if isinstance(body, str) else body


def differences(
    recorded: Sequence[Mapping[str, Json]], here: Sequence[Mapping[str, Json]]
) -> list[str]:
    """What is answered otherwise ``here`` than ``recorded``, a line for each call; a call that one
    of both does not have is one."""
    theirs, ours = (
        {(call["case"], call["number"], call["method"], call["path"]): call for call in calls}
        for calls in (recorded, here)
    )
    return [
        f"{' '.join(map(str, key))}: {name} {theirs.get(key, {}).get(name)} is recorded, "
        f"{ours.get(key, {}).get(name)} is answered"
        for key in theirs | ours
        for name in ("status", "reason", "shape")
        if theirs.get(key, {}).get(name) != ours.get(key, {}).get(name)
    ]


def recordings() -> Iterator[list[dict[str, Json]]]:
    """What was recorded of Google, and is kept."""
    for file in sorted(RECORDINGS.glob("*.json")):
        yield json.loads(file.read_text("utf-8"))["out"]
