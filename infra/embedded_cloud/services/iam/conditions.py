"""Conditions of bindings. Two forms are understood: a limit on the roles that may be granted, and
one on the resources, by their names and types: terms, each with at most one `!`, joined by `&&` and
`||` without parentheses.

https://cloud.google.com/iam/docs/setting-limits-on-granting-roles,
https://cloud.google.com/iam/docs/conditions-attribute-reference#resource-name. A condition in
another form would have to be taken for true or for false, so a policy that has one is refused.
"""

from __future__ import annotations

import re

from embedded_cloud.core.errors import CloudError, unimplemented
from embedded_cloud.core.json_types import JsonObject, children, text, texts

_LIMIT = re.compile(
    r"\s*api\.getAttribute\(\s*(['\"])iam\.googleapis\.com/modifiedGrantsByRole\1\s*,\s*\[\s*\]\s*\)"
    r"\s*\.hasOnly\(\s*\[(?P<roles>[^\]]*)\]\s*\)\s*"
)
_ROLE = re.compile(r"\s*(['\"])(?P<role>[\w./-]+)\1\s*")
_VALUE = r"(?:'(?P<one>[^'\"\\]*)'|\"(?P<two>[^'\"\\]*)\")"
_PART = re.compile(
    r"\s*(?P<not>!?)\s*resource\.name\.(?P<how>startsWith|endsWith)\(\s*" + _VALUE + r"\s*\)\s*"
)
_EQUAL = re.compile(r"\s*resource\.(?P<what>name|type)\s*(?P<how>==|!=)\s*" + _VALUE + r"\s*")
#: Types by the form of names
#: (https://cloud.google.com/iam/docs/conditions-resource-attributes#resource-type). An object that
#: a list would find is none: what is listed is its bucket.
_TYPES = (
    (r"projects/_/buckets/[^/]+/objects/.+", "storage.googleapis.com/Object"),
    (r"projects/_/buckets/[^/]+", "storage.googleapis.com/Bucket"),
    (r"projects/[^/]+/secrets/[^/]+/versions/[^/]+", "secretmanager.googleapis.com/SecretVersion"),
    (r"projects/[^/]+/secrets/[^/]+", "secretmanager.googleapis.com/Secret"),
    (r"projects/[^/]+/serviceAccounts/[^/]+", "iam.googleapis.com/ServiceAccount"),
    (r"projects/[^/]+", "cloudresourcemanager.googleapis.com/Project"),
)


def grantable(expression: str) -> frozenset[str] | None:
    """The roles to which ``expression`` limits grants; None if it does not limit them."""
    found = _LIMIT.fullmatch(expression)
    if found is None:
        return None
    listed = [part for part in found["roles"].split(",") if part.strip()]
    roles = [_ROLE.fullmatch(part) for part in listed]
    return frozenset(match["role"] for match in roles if match) if all(roles) else None


def applies_to(expression: str, name: str) -> bool | None:
    """Whether ``expression`` lets a role hold for the resource ``name``, by name and type; None if
    it does not limit it so."""
    # No value that is understood has these within: a part of one would have a quote too many.
    alternatives = [
        [_term(term, name) for term in alternative.split("&&")]
        for alternative in expression.split("||")
    ]
    if any(None in terms for terms in alternatives):
        return None
    return any(all(terms) for terms in alternatives)


def _term(term: str, name: str) -> bool | None:
    """Whether one term holds; None if it is not understood."""
    if found := _PART.fullmatch(term):
        value = found["one"] or found["two"] or ""
        holds_so = name.startswith if found["how"] == "startsWith" else name.endswith
        return holds_so(value) is not bool(found["not"])
    if found := _EQUAL.fullmatch(term):
        value = found["one"] or found["two"] or ""
        compared = name if found["what"] == "name" else resource_type(name)
        return (compared == value) is (found["how"] == "==")
    return None


def resource_type(name: str) -> str:
    """The type of the resource ``name``; empty where it is none of those that are known."""
    return next((kind for form, kind in _TYPES if re.fullmatch(form, name)), "")


def understood(expression: str) -> bool:
    """Whether ``expression`` is in a form that can be judged."""
    return grantable(expression) is not None or applies_to(expression, "") is not None


def holds(condition: JsonObject, modified: frozenset[str], name: str) -> bool:
    """Whether a call meets ``condition``.

    Args:
        condition: the condition of a binding.
        modified: the roles that the call grants or revokes.
        name: full name of the resource that it is about.
    """
    expression = text(condition, "expression")
    applies = applies_to(expression, name)
    if applies is not None:
        return applies
    roles = grantable(expression)
    return roles is not None and modified <= roles


def not_understood(condition: JsonObject) -> CloudError:
    """501: a condition that the embedded cloud cannot judge."""
    return unimplemented(
        f"the condition {text(condition, 'expression')!r}: only"
        " api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly([...]) and"
        " resource.name.startsWith('...') or .endsWith, its negation by !, and resource.name or"
        " resource.type with == or !=, joined by && and || without parentheses"
    )


def modified_roles(before: JsonObject, after: JsonObject) -> frozenset[str]:
    """The roles of which the policies ``before`` and ``after`` grant different things."""
    left, right = _grants(before), _grants(after)
    return frozenset(role for role, _, _ in left ^ right)


def _grants(policy: JsonObject) -> set[tuple[str, str, str]]:
    return {
        (text(binding, "role"), member, repr(binding.get("condition") or {}))
        for binding in children(policy, "bindings")
        for member in texts(binding, "members")
    }
