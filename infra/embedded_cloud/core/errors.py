"""Errors as Google's JSON APIs answer them.

The body is the google.rpc error shape (https://cloud.google.com/apis/design/errors) with
the older ``errors`` list beside it, which Cloud Storage and Compute Engine clients read.
"""

from __future__ import annotations

from collections.abc import Sequence

from embedded_cloud.core.json_types import JsonObject, JsonValue

#: Canonical code -> (google.rpc.Code number, HTTP status, legacy reason), from
#: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto.
CODES: dict[str, tuple[int, int, str]] = {
    "CANCELLED": (1, 499, "cancelled"),
    "UNKNOWN": (2, 500, "backendError"),
    "INVALID_ARGUMENT": (3, 400, "badRequest"),
    "DEADLINE_EXCEEDED": (4, 504, "deadlineExceeded"),
    "NOT_FOUND": (5, 404, "notFound"),
    "ALREADY_EXISTS": (6, 409, "alreadyExists"),
    "PERMISSION_DENIED": (7, 403, "forbidden"),
    "RESOURCE_EXHAUSTED": (8, 429, "rateLimitExceeded"),
    "FAILED_PRECONDITION": (9, 400, "failedPrecondition"),
    "ABORTED": (10, 409, "aborted"),
    "OUT_OF_RANGE": (11, 400, "outOfRange"),
    "UNIMPLEMENTED": (12, 501, "notImplemented"),
    "INTERNAL": (13, 500, "internalError"),
    "UNAVAILABLE": (14, 503, "backendError"),
    "UNAUTHENTICATED": (16, 401, "authError"),
}


_TYPE = "type.googleapis.com/google.rpc."


class CloudError(Exception):
    """An error answer of an emulated API.

    Args:
        http_status: HTTP status code.
        reason: canonical code such as ``FAILED_PRECONDITION``; the body's ``status``.
        message: what a client shows.
        details: google.rpc detail messages, each with its ``@type``.
        legacy_reason: ``errors[0].reason``; by default what belongs to ``reason``.
        legacy_errors: all of ``errors``, where one with message and reason does not tell enough.
        headers: extra HTTP headers of the answer (``Retry-After``, ``WWW-Authenticate``).
    """

    def __init__(
        self,
        http_status: int,
        reason: str,
        message: str,
        details: Sequence[JsonObject] = (),
        *,
        legacy_reason: str = "",
        legacy_errors: Sequence[JsonObject] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.reason = reason
        self.message = message
        self.details = tuple(details)
        self.legacy_reason = legacy_reason or CODES.get(reason, (2, 500, "backendError"))[2]
        self.legacy_errors = tuple(legacy_errors)
        self.headers = headers or {}

    @property
    def code(self) -> int:
        """The google.rpc.Code number, as operations carry it."""
        return CODES.get(self.reason, (2, 500, ""))[0]

    def body(self) -> JsonObject:
        """The JSON body of the answer."""
        plain: JsonObject = {
            "message": self.message,
            "domain": "global",
            "reason": self.legacy_reason,
        }
        error: JsonObject = {
            "code": self.http_status,
            "message": self.message,
            "status": self.reason,
            "errors": list[JsonValue](self.legacy_errors or (plain,)),
        }
        if self.details:
            error["details"] = list[JsonValue](self.details)
        return {"error": error}

    def status(self) -> JsonObject:
        """The error as a google.rpc.Status, the form in which an operation carries it."""
        status: JsonObject = {"code": self.code, "message": self.message}
        if self.details:
            status["details"] = list[JsonValue](self.details)
        return status


def cloud_error(reason: str, message: str, details: Sequence[JsonObject] = ()) -> CloudError:
    """An error of canonical code ``reason`` with the HTTP status that belongs to it."""
    return CloudError(CODES[reason][1], reason, message, details)


def error_info(reason: str, domain: str, **metadata: str) -> JsonObject:
    """The detail by which clients tell errors of one canonical code apart."""
    info: JsonObject = {"@type": f"{_TYPE}ErrorInfo", "reason": reason, "domain": domain}
    return {**info, "metadata": dict[str, JsonValue](metadata)} if metadata else info


def help_link(description: str, url: str) -> JsonObject:
    """The detail that leads to a page on which the error can be mended."""
    return {"@type": f"{_TYPE}Help", "links": [{"description": description, "url": url}]}


def localized_message(message: str) -> JsonObject:
    """The detail with what a client shows."""
    return {"@type": f"{_TYPE}LocalizedMessage", "locale": "en-US", "message": message}


def bad_request(**violation: str) -> JsonObject:
    """The detail that says what is wrong with a request."""
    return {"@type": f"{_TYPE}BadRequest", "fieldViolations": [dict[str, JsonValue](violation)]}


def precondition_failure(**violation: str) -> JsonObject:
    """The detail that names the condition that does not hold."""
    return {
        "@type": f"{_TYPE}PreconditionFailure",
        "violations": [dict[str, JsonValue](violation)],
    }


def not_found(message: str) -> CloudError:
    """404 NOT_FOUND."""
    return cloud_error("NOT_FOUND", message)


def already_exists(message: str) -> CloudError:
    """409 ALREADY_EXISTS."""
    return cloud_error("ALREADY_EXISTS", message)


def invalid_argument(message: str, details: Sequence[JsonObject] = ()) -> CloudError:
    """400 INVALID_ARGUMENT."""
    return cloud_error("INVALID_ARGUMENT", message, details)


def failed_precondition(message: str) -> CloudError:
    """400 FAILED_PRECONDITION (code 9): not possible in the resource's present state."""
    return cloud_error("FAILED_PRECONDITION", message)


def permission_denied(message: str) -> CloudError:
    """403 PERMISSION_DENIED."""
    return cloud_error("PERMISSION_DENIED", message)


def unauthenticated(message: str) -> CloudError:
    """401 UNAUTHENTICATED."""
    error = cloud_error("UNAUTHENTICATED", message)
    error.headers["WWW-Authenticate"] = 'Bearer realm="https://accounts.google.com/"'
    return error


def resource_exhausted(message: str) -> CloudError:
    """429 RESOURCE_EXHAUSTED (quota)."""
    return cloud_error("RESOURCE_EXHAUSTED", message)


def precondition_failed(message: str) -> CloudError:
    """412: a generation or etag condition of the request does not hold (Cloud Storage)."""
    return CloudError(412, "FAILED_PRECONDITION", message, legacy_reason="conditionNotMet")


def conflict(message: str, legacy_reason: str = "conflict") -> CloudError:
    """409 without a canonical ALREADY_EXISTS (Cloud Storage, Compute Engine)."""
    return CloudError(409, "ABORTED", message, legacy_reason=legacy_reason)


def unimplemented(method_id: str) -> CloudError:
    """501: Google has this method, the embedded cloud does not."""
    return cloud_error("UNIMPLEMENTED", f"The embedded cloud does not implement {method_id}.")
