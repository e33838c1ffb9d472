"""Things with the marker of a stack, and an API that lists them: what a sweep is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.google.apis import Apis
from tpuflex.google.transport import JsonObject
from tpuflex.inventory.cloud_resource import CloudResource, Marker
from tpuflex.inventory.kinds import NODE, Kind, of_type
from tpuflex.inventory.ownership import Maker
from tpuflex.naming import ENDPOINT_NAME, QUEUED_RESOURCE, Names
from tpuflex.operate.sweep import Here

NAMES = Names("shop", "dev", ENDPOINT_NAME)
STRANGER = Names("shop", "alice", ENDPOINT_NAME)
OTHER = Names("elsewhere", "dev", ENDPOINT_NAME)
ZONE = "projects/p/locations/z"
STATE = "0123456789abcdef0123"
NUMBER = "123456789012"
#: The name of the endpoint's first slice.
FIRST = NAMES.queued_resource_id()


def here(*known: str) -> Here:
    return Here("shop", "p", NUMBER, ("dev",), frozenset(known), {"dev": frozenset({STATE})})


def maker(names: Names = NAMES) -> Maker:
    return Maker(names, "p", NUMBER, frozenset({STATE}))


def kind_of(type_: str) -> Kind:
    kind = of_type(type_)
    assert kind is not None
    return kind


def request(
    id_: str = "",
    state: str = "WAITING_FOR_RESOURCES",
    names: Names = NAMES,
    state_id: str = STATE,
) -> CloudResource:
    path = f"queuedResources/{id_ or names.queued_resource_id()}"
    return _resource(kind_of(QUEUED_RESOURCE), path, state, names, state_id)


def node(id_: str = FIRST, holder: str = "", state: str = "STOPPED") -> CloudResource:
    return _resource(NODE, f"nodes/{id_}", state, NAMES, STATE, holder)


def _resource(
    kind: Kind, path: str, state: str, names: Names, state_id: str, holder: str = ""
) -> CloudResource:
    labels = names.labels()
    return CloudResource(
        kind=kind,
        name=path.rpartition("/")[2],
        location="z",
        id=f"{ZONE}/{path}",
        path=f"/v2alpha1/{ZONE}/{path}",
        marker=Marker(names.owner, labels["tpuflex-project"], labels["tpuflex-stack"], state_id),
        state=state,
        holder=holder,
    )


class Api:
    """An API whose answers are given; it remembers what was asked."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers = dict(answers or {})
        self.calls: list[str] = []

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        budget: float = 0.0,
    ) -> JsonObject:
        del body, budget
        token = (query or {}).get("pageToken", "")
        self.calls.append(f"{method} {path}")
        key = f"{method} {path}{f'#{token}' if token else ''}"
        answer = self.answers.get(key, {} if method != "GET" else None)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, TpuflexError):
            raise answer
        if answer is None:
            raise NotFoundError(f"{path} is not there")
        found: JsonObject = answer
        return found


def clients(**given: Api) -> Apis:
    return Apis(**{each.name: given.get(each.name, Api()) for each in fields(Apis)})


def labelled(id_: str, names: Names = NAMES, state_id: str = STATE) -> JsonObject:
    """A queued resource as the API lists it."""
    spec: JsonObject = {"node": {"labels": {**names.labels(state_id)}}}
    return {
        "name": f"projects/123/locations/z/queuedResources/{id_}",
        "state": {"state": "WAITING_FOR_RESOURCES"},
        "tpu": {"nodeSpec": [spec]},
    }
