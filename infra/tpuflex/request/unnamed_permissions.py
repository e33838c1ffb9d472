"""The permission behind a refusal whose text does not name it. Pure.

Resource Manager and Service Usage say only that something is missing
(https://github.com/kubeflow/kubeflow/issues/7140,
https://github.com/GoogleCloudPlatform/cloud-foundation-fabric/issues/2985).
"""

from __future__ import annotations

import re

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

#: Words of an error of the gcp plugin, which does not tell the call -> the permission.
_WORDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Policy update access denied"), "resourcemanager.projects.setIamPolicy"),
    (re.compile(r"Permission denied to enable service"), "serviceusage.services.enable"),
    (re.compile(r"Permission denied to list services"), "serviceusage.services.list"),
    (re.compile(r"Permission denied to get service"), "serviceusage.services.get"),
    # Of a project's policy, which the plugin reads before it changes it.
    (re.compile(r"The caller does not have permission"), "resourcemanager.projects.getIamPolicy"),
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
