"""Between the protocol's messages and the rules: what requests say, what answers carry. Pure."""

from __future__ import annotations

from embedded_cloud.gcp_plugin.changes import known_after
from embedded_cloud.gcp_plugin.diff import Differences, Kind
from embedded_cloud.gcp_plugin.fields import Use
from embedded_cloud.gcp_plugin.protocol import provider_pb2, struct_pb2
from embedded_cloud.gcp_plugin.resource_type import ResourceType, Work
from embedded_cloud.gcp_plugin.shapes import Misfit
from embedded_cloud.gcp_plugin.values import UNKNOWN, Properties, encode
from embedded_cloud.json_types import JsonObject

#: Outputs that the published plugin marks secret, because other tools write into them.
_SECRET_OUTPUTS = frozenset({"effectiveLabels", "pulumiLabels"})

_KINDS = {
    (Kind.ADD, False): provider_pb2.PropertyDiff.ADD,
    (Kind.ADD, True): provider_pb2.PropertyDiff.ADD_REPLACE,
    (Kind.UPDATE, False): provider_pb2.PropertyDiff.UPDATE,
    (Kind.UPDATE, True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
    (Kind.DELETE, False): provider_pb2.PropertyDiff.DELETE,
    (Kind.DELETE, True): provider_pb2.PropertyDiff.DELETE_REPLACE,
}


def type_of(request: object) -> str:
    """The type of a request's resource; older engines only say it within the URN."""
    given = str(getattr(request, "type", ""))
    return given or str(getattr(request, "urn", "")).split("::")[2].rsplit("$", 1)[-1]


def failures(misfits: list[Misfit]) -> list[provider_pb2.CheckFailure]:
    return [provider_pb2.CheckFailure(property=one.path, reason=one.reason) for one in misfits]


def outputs(state: JsonObject, source: Properties) -> struct_pb2.Struct:
    return encode(state, source.secrets | _SECRET_OUTPUTS)


def foreseen(row: ResourceType, inputs: JsonObject, work: Work) -> JsonObject:
    """The state that a create would lead to; what only the API knows is unknown."""
    open_ends: JsonObject = {
        item.name: UNKNOWN
        for item in row.properties
        if item.use is Use.OUTPUT or (item.use is Use.CHOSEN and item.default is None)
    }
    values = row.scoped(inputs, work.settings)
    return open_ends | values | known_after(row, {}, values, work.settings)


def inputs_seen(row: ResourceType, state: JsonObject) -> JsonObject:
    """The inputs that would have made ``state``: for an import, which has no program yet."""
    return {
        item.name: state[item.name]
        for item in row.inputs
        if state.get(item.name) not in (None, {}, [], "")
    }


def inputs_now(row: ResourceType, state: JsonObject, inputs: JsonObject) -> JsonObject:
    """``inputs`` after a refresh: what the cloud says otherwise is taken over, spelling is not."""
    now: JsonObject = {}
    for name, value in inputs.items():
        item = row.property(name)
        actual = state.get(name)
        if item is None or item.shape.same(actual, value):
            now[name] = value
        elif actual is not None:
            now[name] = actual
    return now


def diff_response(found: Differences) -> provider_pb2.DiffResponse:
    detailed = {
        entry.path: provider_pb2.PropertyDiff(
            kind=_KINDS[entry.kind, entry.replaces], inputDiff=True
        )
        for entry in found.entries
    }
    some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=some if found.entries else none,
        diffs=found.changed,
        replaces=found.replaces,
        deleteBeforeReplace=found.delete_first,
        detailedDiff=detailed,
        hasDetailedDiff=True,
    )
