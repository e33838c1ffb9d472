"""The fault rules as the control API shows and takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedded_cloud.errors import invalid_argument
from embedded_cloud.json_types import JsonObject, JsonValue

if TYPE_CHECKING:
    from embedded_cloud.cloud import Cloud
    from embedded_cloud.faults.rule import Rule

_KEYS = frozenset({"rules", "roles", "random"})
#: Rules that one call may draw.
_MOST_RULES = 1000


def show(cloud: Cloud) -> JsonObject:
    """Rules with counters, roles, and how often a fault has struck in all."""
    return cloud.faults.book.to_json()


def put(cloud: Cloud, document: JsonObject) -> JsonObject:
    """Add ``{"rules": [...], "roles": {...}, "random": {...}}``; returns what :func:`show` does.

    Raises:
        CloudError: 400 naming what is not understood; then nothing was added.
    """
    from embedded_cloud.faults.processes import Roles
    from embedded_cloud.faults.rule import parse_rule

    unknown = sorted(document.keys() - _KEYS)
    rules = document.get("rules", [])
    if unknown or not isinstance(rules, list):
        raise invalid_argument('expected {"rules": [...], "roles": {...}, "random": {...}}')
    parsed = [parse_rule(rule) for rule in rules]
    if "random" in document:
        parsed += _random(document["random"])
    book = cloud.faults.book
    if "roles" in document:
        book.set_roles(Roles.from_json(document["roles"]))
    for rule in parsed:
        book.add(rule)
    return book.to_json()


def remove(cloud: Cloud, rule_id: str | None) -> JsonObject:
    """Forget one rule, or everything but the roles; returns what there was before."""
    before = show(cloud)
    if rule_id is None:
        cloud.faults.forget()
    else:
        cloud.faults.book.remove(rule_id)
    return before


def _random(document: JsonValue) -> list[Rule]:
    """Read ``{"seed": 7, "method_ids": [...], "count": 2, "names": [...]}``."""
    from embedded_cloud.faults.catalogue import FAULTS, random_rules

    if not isinstance(document, dict):
        raise invalid_argument("random must be an object")
    seed, count = document.get("seed"), document.get("count", 1)
    calls, names = document.get("method_ids"), document.get("names", [])
    if not (isinstance(seed, int) and isinstance(count, int) and count <= _MOST_RULES):
        raise invalid_argument(
            f"random: seed and count must be whole numbers, count at most {_MOST_RULES}"
        )
    if not (isinstance(calls, list) and calls and isinstance(names, list)):
        raise invalid_argument("random: method_ids must be a list that is not empty")
    chosen = [str(name) for name in names]
    strange = sorted(set(chosen) - FAULTS.keys())
    if strange:
        raise invalid_argument(f"random: no such fault: {', '.join(strange)}")
    return random_rules(seed, [str(call) for call in calls], count=count, names=chosen)
