"""Conditions of bindings. Two forms are understood: a limit on the roles that may be granted, and
one on the resources, by how their names begin or do not.

https://cloud.google.com/iam/docs/setting-limits-on-granting-roles,
https://cloud.google.com/iam/docs/conditions-attribute-reference#resource-name. A condition in
another form would have to be taken for true or for false, so a policy that has one is refused.
"""

from __future__ import annotations

import re

from embedded_cloud.errors import CloudError, unimplemented
from embedded_cloud.json_types import JsonObject, children, text, texts

_LIMIT = re.compile(
    r"\s*api\.getAttribute\(\s*(['\"])iam\.googleapis\.com/modifiedGrantsByRole\1\s*,\s*\[\s*\]\s*\)"
    r"\s*\.hasOnly\(\s*\[(?P<roles>[^\]]*)\]\s*\)\s*"
)
_ROLE = re.compile(r"\s*(['\"])(?P<role>[\w./-]+)\1\s*")
_BEGINNING = re.compile(
    r"\s*(?P<not>!?)\s*resource\.name\.startsWith\(\s*(?:'(?P<one>[^'\"\\]*)'|\"(?P<two>[^'\"\\]*)\")\s*\)\s*"
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
    """Whether ``expression`` lets a role hold for the resource ``name`` by how that begins; None if
    it does not limit it so."""
    found = _BEGINNING.fullmatch(expression)
    if found is None:
        return None
    return name.startswith(found["one"] or found["two"] or "") is not bool(found["not"])


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
        " resource.name.startsWith('...'), or its negation by !"
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
