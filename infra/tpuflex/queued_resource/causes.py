"""Why a request failed, by what can be done about it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from tpuflex import known_messages
from tpuflex.codes import Code
from tpuflex.gcloud_commands import billing_accounts, link_billing
from tpuflex.known_messages import Sentence


class Cause(StrEnum):
    """Why a request failed, by what can be done about it."""

    STOCKOUT = "stock-out"
    QUOTA = "quota"
    PERMISSION = "permission"
    POLICY = "organization policy"
    BILLING = "billing"
    UNSUPPORTED = "unsupported"
    EXPIRED = "expired"
    INTERNAL = "internal"


# In this order: a message names its cause more surely than its code does (code 8 is both
# stock-out and quota, code 3 is both a bad request and an unsupported zone).
_CAUSES = (
    (Cause.POLICY, known_messages.POLICY_FORBIDS),
    (Cause.EXPIRED, known_messages.NOT_GRANTED_IN_TIME),
    (Cause.QUOTA, known_messages.OUT_OF_QUOTA),
    (Cause.STOCKOUT, known_messages.OUT_OF_CAPACITY),
    (Cause.BILLING, known_messages.ABOUT_BILLING),
    (Cause.PERMISSION, known_messages.NOT_PERMITTED),
    (Cause.UNSUPPORTED, known_messages.UNSUPPORTED),
)
_CODES = {
    3: Cause.UNSUPPORTED,
    4: Cause.EXPIRED,
    7: Cause.PERMISSION,
    8: Cause.STOCKOUT,
    12: Cause.UNSUPPORTED,
    16: Cause.PERMISSION,
}
_NO_QUOTA = (
    "The project has none of this quota there, and deleting leftovers will not change that:"
    " choose another zone, or ask for quota (flex-start uses the preemptible TPU quota)."
)
_HINTS = {
    Cause.STOCKOUT: "There is no capacity now: try again later, a smaller slice or another zone.",
    Cause.QUOTA: (
        "Flex-start uses the preemptible TPU quota, and ended or failed queued resources use it"
        " up too: delete leftovers, or ask for more quota."
    ),
    Cause.PERMISSION: "Ask an administrator for the permission or service named above.",
    Cause.POLICY: (
        "An organization policy forbids it: have the constraint above lifted for the project, or do"
        " what it demands (compute.requireShieldedVm demands Secure Boot: secureBoot, in a stack"
        " file tpuflex:slice.secure_boot)."
    ),
    Cause.UNSUPPORTED: "Choose another zone, accelerator type or runtime version.",
    Cause.EXPIRED: "It was not granted while it was valid: let it wait longer, or in more zones.",
    Cause.INTERNAL: "Google took the capacity back: try again, or try a smaller slice.",
}


#: What the command line is told of a failed request; of the other causes it makes no difference.
FAILURE_CODES: Mapping[Cause, Code] = {
    Cause.STOCKOUT: Code.CAPACITY,
    Cause.EXPIRED: Code.CAPACITY,
    Cause.QUOTA: Code.QUOTA,
    Cause.PERMISSION: Code.PERMISSION,
    Cause.POLICY: Code.PERMISSION,
    Cause.BILLING: Code.PERMISSION,
}


def classify(code: int, message: str) -> Cause:
    """The cause behind a google.rpc status of a failed request or operation."""
    for cause, sentence in _CAUSES:
        if sentence.search(message):
            return cause
    return _CODES.get(code, Cause.INTERNAL)


def unpaid(text: str) -> bool:
    """Whether ``text`` says that the project has no open billing account."""
    return known_messages.NO_BILLING_ACCOUNT.search(text) is not None


def explained(message: str, cause: Cause) -> str:
    """Google's words and the cause: ``no more capacity (cause: stock-out)``."""
    return f"{message} (cause: {cause})"


def short_reason(code: int, message: str, cause: Cause | None = None) -> str:
    """Why a zone has failed, in a few words: ``unsupported``, ``quota 0 of 64`` (none is left),
    ``no quota`` (there never was any), ``stock-out``.

    Args:
        code, message: Google's status.
        cause: the cause, where more than the status tells it.
    """
    cause = cause or classify(code, message)
    limit = known_messages.QUOTA_LIMIT.search(message)
    if cause is Cause.QUOTA and limit is not None:
        return "no quota" if int(limit["limit"]) == 0 else f"quota 0 of {limit['limit']}"
    return f"internal error (code {code})" if cause is Cause.INTERNAL and code else cause.value


def no_quota(message: str) -> bool:
    """Whether ``message`` is about a quota that is zero: waiting cannot help."""
    limit = known_messages.QUOTA_LIMIT.search(message)
    return limit is not None and int(limit["limit"]) == 0 and classify(0, message) is Cause.QUOTA


def remedy(cause: Cause, message: str = "", *, project: str = "PROJECT") -> str:
    """What to do about ``cause``.

    Args:
        cause: the cause.
        message: Google's text, if there is one.
        project: the project that it is about.
    """
    if cause is Cause.BILLING:
        return (
            f"Give the project a billing account: {link_billing(project, 'ACCOUNT_ID')}\n"
            f"Yours are listed by: {billing_accounts()}"
        )
    if cause is Cause.QUOTA and no_quota(message):
        return _NO_QUOTA
    return _HINTS[cause]


#: A permission as Google's texts name it; the name of an API (tpu.googleapis.com) is none.
_NAMED = re.compile(r"\b[a-z]{3,}\.(?!googleapis\.com\b)[a-zA-Z]+\.[a-zA-Z]+\b(?!\.)")

#: HTTP method and end of the address -> the permission, by the reference pages of the methods.
_CALLS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (method, re.compile(rf"/v\w+/projects/[^/:]+{end}$"), permission)
    for method, end, permission in (
        ("GET", "", "resourcemanager.projects.get"),
        ("GET", "/billingInfo", "resourcemanager.projects.get"),
        ("POST", ":getIamPolicy", "resourcemanager.projects.getIamPolicy"),
        ("POST", ":setIamPolicy", "resourcemanager.projects.setIamPolicy"),
        ("POST", ":getEffectiveOrgPolicy", "orgpolicy.policy.get"),
        ("GET", "/services", "serviceusage.services.list"),
        ("GET", "/services/[^/]+", "serviceusage.services.get"),
        ("POST", "/services:batchEnable", "serviceusage.services.enable"),
        ("POST", "/services/[^/]+:enable", "serviceusage.services.enable"),
        ("GET", "/services/[^/]+/consumerQuotaMetrics", "serviceusage.quotas.get"),
    )
)

#: What the gcp plugin says, which does not tell the call -> the permission.
_WORDS: tuple[tuple[Sentence, str], ...] = (
    (known_messages.SET_POLICY_DENIED, "resourcemanager.projects.setIamPolicy"),
    (known_messages.ENABLE_SERVICE_DENIED, "serviceusage.services.enable"),
    (known_messages.LIST_SERVICES_DENIED, "serviceusage.services.list"),
    (known_messages.GET_SERVICE_DENIED, "serviceusage.services.get"),
    (known_messages.GET_POLICY_DENIED, "resourcemanager.projects.getIamPolicy"),
)


def of_call(method: str, url: str, message: str) -> str:
    """The permission that a call lacks, where ``message`` does not name it; empty if unknown.

    Args:
        method: HTTP method.
        url: address without query.
        message: Google's text.
    """
    if _NAMED.search(message):
        return ""
    path = url.partition("?")[0]
    return next((name for verb, end, name in _CALLS if verb == method and end.search(path)), "")


def of_text(text: str) -> str:
    """The permission that ``text`` of the gcp plugin is about, where it does not name it."""
    return next((name for words, name in _WORDS if words.search(text) and name not in text), "")
