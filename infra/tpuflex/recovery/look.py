"""Whether a resource exists in the cloud, and whether it belongs to the stack."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from tpuflex.errors import (
    AccessError,
    ApiError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.bucket_owner import may_read_buckets
from tpuflex.google.project import project_number
from tpuflex.google.queued_resources import TpuClient
from tpuflex.inventory.cloud_resource import asked_fields, described, marker_asked
from tpuflex.inventory.kinds import (
    NODE,
    SLICE,
    Inputs,
    Kind,
    of_type,
)
from tpuflex.inventory.listing import list_kind, list_slices
from tpuflex.inventory.ownership import not_as_asked, reason
from tpuflex.inventory.resource_ids import ResourceId, ids_of
from tpuflex.naming import QUEUED_RESOURCE, generation_of
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import ranked
from tpuflex.roles.refusal import refusal_remedy

if TYPE_CHECKING:
    from tpuflex.google.apis import Apis
    from tpuflex.google.transport import JsonObject
    from tpuflex.inventory.cloud_resource import CloudResource


class Presence(StrEnum):
    """What the cloud says about something that may have been made."""

    OURS = "ours"
    ABSENT = "absent"
    FOREIGN = "foreign"
    ASK_PLUGIN = "ask the plugin"  #: only a read through the plugin tells
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LookResult:
    """What one look has found.

    Attributes:
        presence: whether it is there, and ours.
        id: the id under which it is (or would be) known to the plugin.
        detail: why, for people.
        being_deleted: whether it is being deleted.
        error: why its API has not said what it is, if it was asked and has not.
        created: of a generation, its `createTime`; empty if that is not known.
    """

    presence: Presence
    id: str = ""
    detail: str = ""
    being_deleted: bool = False
    error: TpuflexError | None = None
    created: str = ""


class Look(Protocol):
    """Looks for one resource in the cloud."""

    def __call__(self, type_: str, inputs: Inputs) -> LookResult:
        """What there is of a resource of ``type_`` that was asked for with ``inputs``."""

    def generations(self, inputs: Inputs) -> tuple[LookResult, ...]:
        """Everything of ours that was asked for as the queued resource of ``inputs``, in any
        generation and any zone, including orphaned nodes; the oldest generation first, and in
        it the zones of ``inputs`` first. None while its names are not known.

        Raises:
            AccessError, ApiError: the zones of ``inputs`` could not all be listed.
        """


class CloudLook:
    """Looks with our own clients, so that what is not ours never gets near the state."""

    def __init__(self, apis: Apis, states: Collection[str] = ()) -> None:
        """Args:
        apis: clients.
        states: ids of states whose resources are ours, beside the id that was asked for.
        """
        self._apis = apis
        self._states = frozenset(states)
        self._numbers: dict[str, str] = {}

    def __call__(self, type_: str, inputs: Inputs) -> LookResult:
        """What there is of a resource of ``type_`` that was asked for with ``inputs``."""
        kind = of_type(type_)
        if kind is None:
            return LookResult(Presence.UNKNOWN, detail=f"no rule says how a {type_} is found again")
        if kind.named_by_google:
            return self._listed(kind, inputs)
        where = ids_of(type_, inputs)
        if not where:
            return LookResult(Presence.UNKNOWN, detail="part of its name is not known")
        if kind.found_by != "api":
            return LookResult(Presence.ASK_PLUGIN, where[0].id)
        results = [self._at(kind, inputs, place) for place in where]
        ours = [result for result in results if result.presence is Presence.OURS]
        if kind == SLICE and len(ours) > 1:
            return self._furthest(ours)
        return best(results)

    def generations(self, inputs: Inputs) -> tuple[LookResult, ...]:
        """As :meth:`Look.generations`."""
        asked = marker_asked(SLICE, inputs)
        if not (asked.owner and ids_of(QUEUED_RESOURCE, inputs)):
            return ()
        listing = list_slices(self._apis, inputs["project"], tuple(inputs["zones"]))
        if listing.unlisted:
            refusal = AccessError if listing.refused else ApiError
            text = "; ".join(map(str, listing.unlisted))
            raise refusal(text, hint=refusal_remedy(text, str(inputs["project"])))
        results = dict[tuple[int, str], LookResult]()
        for resource in listing.resources:
            id_ = _request_of(resource, inputs)
            generation = _generation(id_, inputs)
            # Its name is right if it is a generation.
            foreign = not_as_asked(resource, asked, resource.name, "", self._states)
            if generation is not None and not foreign:
                here = {**inputs, "zones": [resource.location], "queuedResourceId": id_}
                (place,) = ids_of(QUEUED_RESOURCE, here)
                created = resource.birth.get("createTime", "")
                result = LookResult(Presence.OURS, place.id, created=created)
                results.setdefault((generation, place.id), result)
        return tuple(results[key] for key in sorted(results, key=lambda key: key[0]))

    def _furthest(self, results: Sequence[LookResult]) -> LookResult:
        """Of requests of ours in several zones, the one that is the slice."""
        client = TpuClient(self._apis.tpu)
        names = [RequestName.parse(result.id) for result in results]
        first, *_ = ranked(client.snapshot(name, time.time) for name in names)
        return next(result for result in results if result.id == str(first.name))

    def _listed(self, kind: Kind, inputs: Inputs) -> LookResult:
        """What there is of something that Google names: of several with the display name that was
        asked for, the one that is ours."""
        asked, name = marker_asked(kind, inputs), asked_fields(kind, inputs).get("displayName")
        if not (asked.owner and name):
            return LookResult(Presence.UNKNOWN, detail="part of what it says is not known")
        listing = list_kind(self._apis, kind, str(inputs.get("project") or ""))
        # Another's of the same display name is in nobody's way.
        found = [
            LookResult(Presence.OURS, each.id)
            for each in listing.resources
            if each.name == name and not not_as_asked(each, asked, str(name), "", self._states)
        ]
        if listing.unlisted:
            text = "; ".join(map(str, listing.unlisted))
            error = (AccessError if listing.refused else ApiError)(text)
            found.append(LookResult(Presence.UNKNOWN, detail=text, error=error))
        return best([*found, LookResult(Presence.ABSENT)])

    def _at(self, kind: Kind, inputs: Inputs, place: ResourceId) -> LookResult:
        try:
            answer = kind.client(self._apis).call("GET", place.path)
        except NotFoundError:
            return LookResult(Presence.ABSENT, place.id)
        except (AccessError, ApiError) as error:
            if self._anothers(kind, inputs, error):
                detail = "the name is taken in another project"
                return LookResult(Presence.FOREIGN, place.id, detail, error=error)
            return LookResult(Presence.UNKNOWN, place.id, error.message, error=error)
        try:
            number = self._number(kind, inputs)
        except TpuflexError as error:
            return LookResult(Presence.UNKNOWN, place.id, error.message, error=error)
        return judged(kind, inputs, answer, place, number, self._states)

    def _anothers(self, kind: Kind, inputs: Inputs, error: TpuflexError) -> bool:
        """Whether ``error`` says that a name that all projects share is taken in another one."""
        refused = isinstance(error, AccessError) and not isinstance(error, ServiceDisabledError)
        if not (kind.shared_names and refused):
            return False
        return may_read_buckets(self._apis.resourcemanager, str(inputs.get("project") or ""))

    def _number(self, kind: Kind, inputs: Inputs) -> str:
        """Number of the project of ``inputs``; empty where it does not matter."""
        project = str(inputs.get("project") or "")
        if not kind.shared_names:
            return ""
        if project not in self._numbers:
            self._numbers[project] = project_number(self._apis.resourcemanager, project)
        return self._numbers[project]


def judged(
    kind: Kind,
    inputs: Inputs,
    answer: JsonObject,
    place: ResourceId,
    number: str,
    states: Collection[str],
) -> LookResult:
    """Whether ``answer`` is what was asked for with ``inputs``: all of its marks agree.

    Args:
        kind: its kind.
        inputs: the program's inputs.
        answer: what its API says of it.
        place: where it was asked for.
        number: number of the project of ``inputs``.
        states: ids of states that count beside the one in ``inputs``.
    """
    asked = marker_asked(kind, inputs)
    if not asked.owner:
        return LookResult(
            Presence.UNKNOWN, place.id, "it exists, but nothing was asked for that marks it as ours"
        )
    there = described(kind, answer, place="", id_=place.id)
    name = place.id.rpartition("/")[2]
    if foreign := not_as_asked(there, asked, name, number, states):
        return LookResult(Presence.FOREIGN, place.id, reason(foreign))
    return LookResult(Presence.OURS, place.id, being_deleted=there.state == "DELETING")


def _request_of(resource: CloudResource, inputs: Inputs) -> str:
    """Id of the queued resource that ``resource`` is, or is a node of."""
    several = isinstance(inputs.get("multiNode"), Mapping)
    if several and resource.kind == NODE and not resource.holder:
        return resource.name.rpartition("-")[0]  # of several nodes, PREFIX-0, PREFIX-1, …
    return (resource.holder or resource.name).rpartition("/")[2]


def _generation(id_: str, inputs: Inputs) -> int | None:
    """Which generation of the queued resource of ``inputs`` the id names; None if it is none. An
    id that was given and not made has no other generations."""
    prefix = inputs.get("queuedResourceIdPrefix")
    if prefix:
        return generation_of(str(prefix), id_)
    return 0 if id_ == inputs["queuedResourceId"] else None


#: Of the results in several zones, the one that counts.
_RANK = (Presence.OURS, Presence.UNKNOWN, Presence.FOREIGN, Presence.ABSENT)


def best(results: Iterable[LookResult]) -> LookResult:
    """The result that counts: what is ours in any of the zones."""
    return min(results, key=lambda result: _RANK.index(result.presence))
