"""Google's error answers, read once and turned into our exception tree."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pulumi_plugin.printable import marked, printable
from tpuflex import known_messages
from tpuflex.codes import Code
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    QuotaError,
    RequesterPaysError,
    ServiceDisabledError,
    TpuflexError,
    UnauthenticatedError,
)
from tpuflex.gcloud_commands import (
    enable_services,
    end_retention,
    log_in,
    no_requester_pays,
    set_quota_project,
)
from tpuflex.google.endpoints import is_loopback
from tpuflex.queued_resource.causes import Cause, classify, of_call, remedy, unpaid

_RATE_REASONS = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"})
#: https://cloud.google.com/apis/design/errors#error_info; the second is the older spelling.
_NOT_ENABLED = frozenset({"SERVICE_DISABLED", "accessNotConfigured"})
#: https://cloud.google.com/storage/docs/json_api/v1/status-codes#403-forbidden for the second.
_UNPAID = frozenset({"BILLING_DISABLED", "accountDisabled"})
#: A permission is missing, also where its name has the word quota (serviceusage.quotas.get):
#: https://cloud.google.com/apis/design/errors#error_info, and what Service Usage answers.
_DENIED = frozenset({"IAM_PERMISSION_DENIED", "AUTH_PERMISSION_DENIED"})
#: The caller may not take quota from the project that the request names.
_QUOTA_PROJECT_DENIED = "USER_PROJECT_DENIED"
_PROJECT = re.compile(r"/projects/([a-z][a-z0-9-]+)\b")
#: In Cloud Storage's JSON API: https://cloud.google.com/storage/docs/json_api/v1/buckets/get
_BUCKET = re.compile(r"/storage/v1/b/([^/?]+)")
#: Stands for the HTTP status where no usable answer came at all.
NO_ANSWER = 0
_LOG_IN = f"Run: {log_in()}"
_LOG_IN_EMBEDDED = 'The embedded cloud has a new token. Run: eval "$(tpuflex emulator env)"'
_RETRYABLE = frozenset({NO_ANSWER, 408, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class RpcError:
    """A google.rpc error as it came over HTTP.

    Attributes:
        http_status: HTTP status code.
        status: canonical code such as ``FAILED_PRECONDITION``; empty if none was given.
        message: Google's text, printable: it goes into errors, the state and logs.
        reasons: machine-readable reasons from ``errors`` and ``details``.
        service: the API that refused, such as ``tpu.googleapis.com``; empty if none is named.
    """

    http_status: int
    status: str
    message: str
    reasons: frozenset[str]
    service: str = ""

    @property
    def rate_limited(self) -> bool:
        """Whether this is a mere rate limit, whatever its code."""
        if known_messages.RESOURCE_QUOTA.search(self.message):
            return False
        if self.http_status == 429:
            return True
        if self.http_status != 403:
            return False
        return bool(self.reasons & _RATE_REASONS) or bool(
            known_messages.RATE_LIMITED.search(self.message)
        )

    @property
    def quota_project_missing(self) -> bool:
        """Whether a user's credential was refused because no quota project was named."""
        return self.http_status == 403 and bool(
            known_messages.NO_QUOTA_PROJECT.search(self.message)
        )

    @property
    def service_disabled(self) -> bool:
        """Whether the API is not enabled in the project, or does not know yet that it is."""
        refused = self.http_status == 403 and bool(self.reasons & _NOT_ENABLED)
        return refused and not self.quota_project_missing

    @property
    def billing_disabled(self) -> bool:
        """Whether the project has no open billing account."""
        refused = self.http_status in (400, 403)
        return refused and bool(self.reasons & _UNPAID or unpaid(self.message))

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later without anyone changing anything."""
        if self.http_status in (403, 429):
            return self.rate_limited
        return self.http_status in _RETRYABLE


def read_rpc_error(http_status: int, body: bytes) -> RpcError:
    """Read an error body; one that is not Google's JSON still yields an error."""
    try:
        payload = json.loads(body)
    except ValueError:
        payload = None
    error = payload.get("error") if isinstance(payload, dict) else None
    if not isinstance(error, dict):
        text = marked(body[:200].decode("utf-8", "replace").strip())
        return RpcError(http_status, "", text or "no error text", frozenset())
    listed = [*_dicts(error.get("errors")), *_dicts(error.get("details"))]
    return RpcError(
        http_status=http_status,
        status=printable(str(error.get("status", ""))),
        message=marked(str(error.get("message", ""))) or "no error text",
        reasons=frozenset(str(item["reason"]) for item in listed if "reason" in item),
        service=next((name for item in listed if (name := _service(item))), ""),
    )


def as_exception(
    error: RpcError, *, method: str, url: str, retry_after: float = 0.0
) -> TpuflexError:
    """The exception that says who must act; ``url`` must not carry a query."""
    code = " ".join(filter(None, (str(error.http_status or ""), error.status)))
    call, brief = f"{method} {url}: ", f"{code}: {error.message}"
    cause = classify(0, error.message)
    if error.quota_project_missing or _QUOTA_PROJECT_DENIED in error.reasons:
        return AccessError(
            call + brief, brief=brief, hint=_quota_project_hint(error, url), code=Code.PERMISSION
        )
    if error.rate_limited:
        # Whatever its code: neither a permission nor a quota of chips is missing.
        return ApiError(
            call + brief,
            brief=brief,
            status=429,
            reason="RATE_LIMITED",
            method=method,
            url=url,
            hint="Google asks to go slower: try again in a minute.",
            retry_after=retry_after,
        )
    if error.http_status == 404:
        return NotFoundError(call + brief, brief=brief)
    if error.http_status == 401:
        log_in = _LOG_IN_EMBEDDED if is_loopback(url) else _LOG_IN
        return UnauthenticatedError(call + brief, brief=brief, hint=log_in, code=Code.PERMISSION)
    quota = cause is Cause.QUOTA and not error.reasons & _DENIED
    if error.http_status == 429 or (error.http_status == 403 and quota):
        return QuotaError(
            call + brief, brief=brief, hint=remedy(Cause.QUOTA, error.message), code=Code.QUOTA
        )
    if error.service_disabled:
        return ServiceDisabledError(
            call + brief, brief=brief, hint=_enable_hint(error, url), code=Code.PERMISSION
        )
    if requester_is_to_pay(error.http_status, error.message) and (bucket := _BUCKET.search(url)):
        return requester_pays(f"gs://{bucket[1]}")
    if error.billing_disabled:
        return AccessError(call + brief, brief=brief, hint=_billing_hint(url), code=Code.PERMISSION)
    if error.http_status == 403 and (kept := known_messages.RETAINED.search(error.message)):
        return retained(f"gs://{kept['bucket']}", brief)
    if error.http_status == 403:
        cause = Cause.POLICY if cause is Cause.POLICY else Cause.PERMISSION
        if cause is Cause.PERMISSION and (lacks := of_call(method, url, error.message)):
            brief = f"{brief} (it asks for {lacks})"
        return AccessError(call + brief, brief=brief, hint=remedy(cause), code=Code.PERMISSION)
    if cause is Cause.POLICY and error.http_status in (400, 412):
        return AccessError(call + brief, brief=brief, hint=remedy(cause), code=Code.PERMISSION)
    kind: type[ApiError] = ApiError
    if error.status == "ALREADY_EXISTS" or (error.http_status == 409 and not error.status):
        kind = AlreadyExistsError
    elif error.http_status == 409 or error.status == "FAILED_PRECONDITION":
        kind = ConflictError
    hint = remedy(cause) if error.http_status == 400 and cause is Cause.UNSUPPORTED else ""
    return kind(
        call + brief,
        brief=brief,
        status=error.http_status,
        reason=error.status,
        method=method,
        url=url,
        hint=hint,
        retry_after=retry_after,
    )


def requester_is_to_pay(status: int, message: str) -> bool:
    """Whether Cloud Storage has refused, by HTTP ``status``, a request that names no project to pay
    for it: no request of ours names one."""
    return status == 400 and known_messages.REQUESTER_PAYS.search(message) is not None


def requester_pays(url: str) -> RequesterPaysError:
    """What is said of the bucket ``url``, ``gs://BUCKET``."""
    return RequesterPaysError(
        f"{url} lets whoever reads it pay (Requester Pays), which neither hosts nor a push can",
        hint=f"Run: {no_requester_pays(url)}\nOr name another bucket, which holds a copy.",
    )


def retained(url: str, message: str) -> ApiError:
    """What is said of an object that a retention policy keeps in the bucket ``url``: no role would
    help."""
    again = "Run it again after that time. To end the policy before, unless it is locked:"
    return ApiError(message, status=403, hint=f"{again} {end_retention(url)}")


def _service(detail: dict[str, object]) -> str:
    """The API that a ``google.rpc.ErrorInfo`` names."""
    metadata = detail.get("metadata")
    return printable(str(metadata.get("service", ""))) if isinstance(metadata, dict) else ""


def _enable_hint(error: RpcError, url: str) -> str:
    project = _PROJECT.search(url)
    if not error.service or project is None:
        return remedy(Cause.PERMISSION)
    # `tpuflex up` would enable it, too, and change more than a status or a teardown should.
    command = enable_services(project[1], error.service)
    return f"Enable it, and try again in a few minutes: {command}"


def _billing_hint(url: str) -> str:
    project = _PROJECT.search(url)
    return remedy(Cause.BILLING, project=project[1] if project else "PROJECT")


def _quota_project_hint(error: RpcError, url: str) -> str:
    project = _PROJECT.search(url)
    name = project[1] if project else "PROJECT"
    command = (
        f"{set_quota_project(name)}\n"
        f"If GOOGLE_APPLICATION_CREDENTIALS names a file, gcloud does not edit it: set"
        f" GOOGLE_CLOUD_QUOTA_PROJECT={name} instead."
    )
    if error.quota_project_missing:
        return f"Run: {command}"
    return (
        "You need the role roles/serviceusage.serviceUsageConsumer on the quota project; or name"
        f" another one: {command}"
    )


def _dicts(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
