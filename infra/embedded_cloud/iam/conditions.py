"""Conditions of bindings. One form is understood: a limit on the roles that may be granted.

https://cloud.google.com/iam/docs/setting-limits-on-granting-roles. A condition in another form
would have to be taken for true or for false, so a policy that has one is refused.
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


def grantable(expression: str) -> frozenset[str] | None:
    """The roles to which ``expression`` limits grants; None if it is in no form that is known."""
    found = _LIMIT.fullmatch(expression)
    if found is None:
        return None
    listed = [part for part in found["roles"].split(",") if part.strip()]
    roles = [_ROLE.fullmatch(part) for part in listed]
    return frozenset(match["role"] for match in roles if match) if all(roles) else None


def holds(condition: JsonObject, modified: frozenset[str]) -> bool:
    """Whether a call that grants or revokes the roles ``modified`` meets ``condition``."""
    roles = grantable(text(condition, "expression"))
    return roles is not None and modified <= roles


def not_understood(condition: JsonObject) -> CloudError:
    """501: a condition that the embedded cloud cannot judge."""
    return unimplemented(
        f"the condition {text(condition, 'expression')!r}: only"
        " api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly([...])"
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
