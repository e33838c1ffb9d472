"""Whose a resource says it is, by the marker that it carries. Pure.

Labels where the API has them (``tpuflex-owner``, ``-project``, ``-stack``, ``-state``), the
description elsewhere: the table of kinds says which. A marker is a claim, which everybody who may
label can make: what is ours is decided by :mod:`tpuflex.inventory.ownership`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpuflex.inventory.kinds import Inputs, Kind
from tpuflex.naming import (
    LABEL_OWNER,
    LABEL_PROJECT,
    LABEL_STACK,
    LABEL_STATE,
    owner_in,
    state_in,
)


@dataclass(frozen=True, slots=True)
class Marker:
    """Whose a resource is, by what it carries; empty where it carries nothing.

    Attributes:
        owner: owner marker.
        project: Pulumi project by its label.
        stack: stack by its label.
        state_id: id of the state that made it.
    """

    owner: str = ""
    project: str = ""
    stack: str = ""
    state_id: str = ""


def marker_of(kind: Kind, answer: Mapping[str, Any]) -> Marker:
    """The marker in an API's ``answer`` about a resource of ``kind``: in its labels, else in its
    description. A node that lost its labels is still billed, and its description may tell."""
    return _marker(_labels(kind, answer), answer.get("description"))


def marker_asked(kind: Kind, inputs: Inputs) -> Marker:
    """The marker that a program asked for with ``inputs`` of a resource of ``kind``."""
    described = kind.marker == "description"
    labels = {} if described else inputs.get("labels")
    return _marker(labels, inputs.get("description") if described else None)


def _marker(labels: object, description: object) -> Marker:
    if not isinstance(labels, Mapping) or LABEL_OWNER not in labels:
        text = description if isinstance(description, str) else ""
        return Marker(owner_in(text), state_id=state_in(text))
    keys = (LABEL_OWNER, LABEL_PROJECT, LABEL_STACK, LABEL_STATE)
    return Marker(*(str(labels.get(key) or "") for key in keys))


def _labels(kind: Kind, answer: Mapping[str, Any]) -> object:
    """The labels that count: a queued resource has none of its own, but its node spec has."""
    if kind.marker != "node labels":
        return answer.get("labels")
    specs = (answer.get("tpu") or {}).get("nodeSpec") or [{}]
    return (specs[0].get("node") or {}).get("labels")
