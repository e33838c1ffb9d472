"""Wrong answers, made from the effect and, if there is one, the right answer."""

from __future__ import annotations

import dataclasses
import hashlib
from email.utils import formatdate

from embedded_cloud.clock import rfc3339
from embedded_cloud.errors import CODES, CloudError
from embedded_cloud.faults.effect import (
    Answer,
    Effect,
    Empty,
    Html,
    OperationError,
    Reset,
    Timeout,
    Truncated,
)
from embedded_cloud.faults.rule import CallFacts
from embedded_cloud.json_types import JsonObject, text
from embedded_cloud.routing import Delivery, Reply

_LOGIN_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>"
_TYPICAL = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def replaced(effect: Effect, facts: CallFacts, right: Reply | None, now: float) -> Reply:
    """The answer that is given instead.

    Args:
        effect: what goes wrong; a delay or a kill changes no answer.
        facts: the call.
        right: the right answer, once the call was done.
        now: the embedded cloud's time, epoch seconds.
    """
    match effect:
        case Answer():
            return _answer(effect, facts, now)
        case Reset():
            return Reply(status=502, delivery=Delivery.RESET)
        case Timeout():
            return Reply(status=504, delivery=Delivery.SILENT, silent_s=effect.hold_s)
        case Truncated():
            return dataclasses.replace(right or Reply(), delivery=Delivery.CUT)
        case Html():
            return Reply(effect.status, _LOGIN_PAGE, {"Content-Type": "text/html; charset=UTF-8"})
        case Empty():
            return Reply(200, b"", {"Content-Type": "application/json; charset=UTF-8"})
        case OperationError():
            body = right.body if right is not None and isinstance(right.body, dict) else {}
            return Reply(200, failed_operation(effect, facts, body, now))
        case _:
            return right or Reply()


def pending_operation(facts: CallFacts, name: str, now: float) -> JsonObject:
    """The operation that a call seems to have begun, under way."""
    return {"name": name, "metadata": _metadata(facts, now), "done": False}


def failed_operation(
    effect: OperationError, facts: CallFacts, body: JsonObject, now: float
) -> JsonObject:
    """The operation in ``body`` (or an invented one), done and failed."""
    if facts.service == "compute":
        return _failed_compute_operation(effect, facts, body)
    return {
        "name": text(body, "name") or operation_name(facts),
        "metadata": body.get("metadata") or _metadata(facts, now),
        "done": True,
        "error": {"code": effect.code, "message": effect.message},
    }


def operation_name(facts: CallFacts) -> str:
    """Name of the operation that a GET asks about; an invented one for any other call."""
    if facts.method == "GET":
        return facts.path.lstrip("/").partition("/")[2]
    digest = hashlib.sha256(facts.resource.encode()).hexdigest()
    place = facts.path.lstrip("/").partition("/")[2]
    parent = "/".join(place.split("/")[:4]) if place.startswith("projects/") else "projects/-"
    return f"{parent}/operations/operation-injected-{digest[:13]}"


def _answer(effect: Answer, facts: CallFacts, now: float) -> Reply:
    code = effect.code or _TYPICAL.get(effect.status, "UNKNOWN")
    message = effect.message or f"Injected {effect.status} for {facts.method_id}."
    error = CloudError(effect.status, code, message, legacy_reason=effect.reason)
    headers = dict(effect.headers)
    if effect.retry_after_s is not None:
        headers["Retry-After"] = (
            formatdate(now + effect.retry_after_s, usegmt=True)
            if effect.retry_after_date
            else f"{effect.retry_after_s:.0f}"
        )
        # By the same clock: a client counts from the one date to the other.
        headers.setdefault("Date", formatdate(now, usegmt=True))
    return Reply(effect.status, error.body(), headers)


def _failed_compute_operation(
    effect: OperationError, facts: CallFacts, body: JsonObject
) -> JsonObject:
    """Compute's own shape: https://cloud.google.com/compute/docs/api/how-tos/api-requests-responses."""
    names = {number: (code, http) for code, (number, http, _) in CODES.items()}
    code, http = names.get(effect.code, ("UNKNOWN", 500))
    name = text(body, "name") or operation_name(facts).rpartition("/")[2]
    return {
        "kind": "compute#operation",
        **body,
        "name": name,
        "status": "DONE",
        "progress": 100,
        "httpErrorStatusCode": http,
        "httpErrorMessage": code,
        "error": {"errors": [{"code": effect.reason or code, "message": effect.message}]},
    }


def _metadata(facts: CallFacts, now: float) -> JsonObject:
    kind = "type.googleapis.com/google.cloud.common.OperationMetadata"
    target = facts.resource.lstrip("/").partition("/")[2]
    return {
        "@type": kind,
        "createTime": rfc3339(now),
        "target": target,
        "verb": facts.method_id.rpartition(".")[2],
        "cancelRequested": False,
    }
