"""One resource as its API describes it, and the same read once more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tpuflex.inventory.kinds import ACCOUNT, Inputs, Kind
from tpuflex.naming import LABEL_OWNER, LABEL_PROJECT, LABEL_STACK, LABEL_STATE, owner_in, state_in

if TYPE_CHECKING:
    from tpuflex.google.transport import JsonObject

#: Fields of answers that differ in a new resource of the same name.
_BIRTH = ("uniqueId", "timeCreated", "createTime", "creationTimestamp", "id")


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


def asked_fields(kind: Kind, inputs: Inputs) -> Inputs:
    """The fields of a resource of ``kind`` that a program asked for with ``inputs``; none while the
    document that has them is not known."""
    if not kind.document:
        return inputs
    try:
        parsed = json.loads(str(inputs.get(kind.document)))
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def marker_asked(kind: Kind, inputs: Inputs) -> Marker:
    """The marker that a program asked for with ``inputs`` of a resource of ``kind``."""
    inputs = asked_fields(kind, inputs)
    described = kind.marker == "description"
    labels = {} if described else inputs.get(kind.labels)
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
        return answer.get(kind.labels)
    specs = (answer.get("tpu") or {}).get("nodeSpec") or [{}]
    return (specs[0].get("node") or {}).get("labels")


@dataclass(frozen=True, slots=True)
class CloudResource:
    """One resource in the cloud.

    Attributes:
        kind: its row in the table.
        name: its short name or email; of a project role, the role; of what Google names, its
            display name.
        location: zone, region or ``global``.
        id: its id as a state spells it.
        path: its path in its API.
        marker: what it says whose it is; of a project role, what its account says.
        project_number: number of the project that it is in, where its API says so: of a bucket.
            What is listed and read under the project's own path is in that project.
        state: its state, if it has one.
        holder: of a node, the queued resource that made it.
        member: of a project role, who has it.
        birth: fields that tell it from a new one of its name.
        conditions: query of its deletion that holds it back if it has changed since it was read.
        unique_id: the id by which its API deletes this one and no other of the name, if it can.
    """

    kind: Kind
    name: str
    location: str
    id: str
    path: str
    marker: Marker = field(default_factory=Marker)
    project_number: str = ""
    state: str = ""
    holder: str = ""
    member: str = ""
    birth: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    unique_id: str = ""

    @property
    def title(self) -> str:
        """Kind and name, for people."""
        return f"{self.kind.name} {self.name}"

    def recreated_as(self, later: CloudResource) -> bool:
        """Whether ``later``, read under the same name, is another resource."""
        common = self.birth.keys() & later.birth.keys()
        return any(self.birth[key] != later.birth[key] for key in common)


def described(kind: Kind, answer: JsonObject, *, place: str, id_: str) -> CloudResource:
    """The resource of ``kind`` that its API's ``answer`` is about.

    Args:
        kind: its kind.
        answer: the answer, or its entry in a list.
        place: where it was looked for: zone, region or ``global``.
        id_: its id.
    """
    unique = str(answer.get(kind.unique_id) or "") if kind.unique_id else ""
    return CloudResource(
        kind=kind,
        name=str(answer.get("displayName") or "") if kind.named_by_google else short_name(answer),
        location=str(answer.get("location") or place).lower(),
        id=id_,
        path=kind.root + id_,
        marker=marker_of(kind, answer),
        project_number=str(answer.get("projectNumber") or "") if kind.shared_names else "",
        state=state_of(answer),
        holder=str(answer.get("queuedResource") or ""),
        birth={key: str(answer[key]) for key in _BIRTH if key in answer},
        conditions={
            query: str(answer[key]) for query, key in kind.conditions.items() if key in answer
        },
        unique_id=unique,
    )


def account_resource(email: str, project: str) -> CloudResource:
    """The service account ``email`` of a Google Cloud project, of which nothing is known yet."""
    id_ = ACCOUNT.id.format(project=project, name=email)
    return CloudResource(ACCOUNT, email, "global", id_, ACCOUNT.root + id_)


def short_name(answer: Mapping[str, Any]) -> str:
    """The short name or the email in an API's ``answer``."""
    return str(answer.get("email") or str(answer.get("name", "")).rpartition("/")[2])


def state_of(answer: Mapping[str, Any]) -> str:
    """The state that an API's answer about a resource names; empty if it names none."""
    state = answer.get("state", "")
    return str(state.get("state", "") if isinstance(state, dict) else state)
