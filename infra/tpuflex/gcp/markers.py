"""Whose a resource is, by the marker that it carries. Pure.

Labels where the API has them (``tpuflex-owner``, ``-project``, ``-stack``), the description
elsewhere: the table of kinds says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpuflex.gcp.kinds import Inputs, Kind
from tpuflex.naming import LABEL_OWNER, LABEL_PROJECT, LABEL_STACK, owner_in


@dataclass(frozen=True, slots=True)
class Marker:
    """Whose a resource is, by what it carries; empty where it carries nothing.

    Attributes:
        owner: owner marker.
        project: Pulumi project by its label.
        stack: stack by its label.
    """

    owner: str = ""
    project: str = ""
    stack: str = ""


def marker_of(kind: Kind, answer: Mapping[str, Any]) -> Marker:
    """The marker in an API's ``answer`` about a resource of ``kind``: in its labels, else in its
    description. A node that lost its labels is still ours, and billed."""
    labels = _labels(kind, answer)
    if LABEL_OWNER not in labels:
        return Marker(owner_in(str(answer.get("description") or "")))
    keys = (LABEL_OWNER, LABEL_PROJECT, LABEL_STACK)
    return Marker(*(str(labels.get(key) or "") for key in keys))


def mark_asked(kind: Kind, inputs: Inputs) -> str:
    """What marks a resource of ``kind`` as the program's that gave ``inputs``; empty if nothing."""
    key = "description" if kind.marker == "description" else "labels"
    return _mark(kind, inputs, inputs.get(key))


def mark_found(kind: Kind, answer: Mapping[str, Any]) -> str:
    """What marks the resource that its API answered with, to be compared with what was asked."""
    return _mark(kind, answer, _labels(kind, answer))


def _mark(kind: Kind, values: Mapping[str, Any], labels: object) -> str:
    if kind.marker == "description":
        return str(values.get("description") or "")
    return str(labels.get(LABEL_OWNER) or "") if isinstance(labels, Mapping) else ""


def _labels(kind: Kind, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The labels that count: a queued resource has none of its own, but its node spec has."""
    labels = answer.get("labels")
    if kind.marker == "node labels":
        specs = (answer.get("tpu") or {}).get("nodeSpec") or [{}]
        labels = (specs[0].get("node") or {}).get("labels")
    return labels if isinstance(labels, Mapping) else {}
