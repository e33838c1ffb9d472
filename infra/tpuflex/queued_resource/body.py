"""The JSON that asks for a slice, made from the rows, and the inputs that would have asked for
what exists, by the same rows; and the fingerprint by which a request is recognised. Pure.

Nothing is sent for what the program leaves to Google.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, JsonValue
from pydantic.alias_generators import to_camel

from pulumi_plugin.values import Properties, Value
from tpuflex.host.report import CONFIG_KEY, DRAIN_KEY, RESTART_KEY
from tpuflex.naming import LABEL_SPEC, digest
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.model import QueuedResource
from tpuflex.queued_resource.name import Nodes, RequestName, ids_of
from tpuflex.queued_resource.rows import NODE, Form, Input, OnChange, object_type, rows

JsonObject = dict[str, JsonValue]

#: Metadata that only takes effect at a boot: changing it in place would change nothing that runs.
BOOT_METADATA = frozenset({"startup-script", CONFIG_KEY})
#: Metadata that others write into nodes that are not theirs. `gcloud compute tpus tpu-vm ssh` adds
#: the user's key to `ssh-keys` of the node before it connects: gcloud's own source (528),
#: `command_lib/compute/tpus/tpu_vm/ssh.py`, `AddSSHKeyIfNeeded`.
#: By the other keys a deletion asks hosts to drain, and `tpuflex restart` to start their servers
#: again.
OTHERS_METADATA = frozenset({"ssh-keys", DRAIN_KEY, RESTART_KEY})
_SPEC = "tpu.nodeSpec."
_NODE = f"{NODE}."
_PATCHED = frozenset(
    row.at for row in rows(RequestArgs).values() if row.on_change is OnChange.PATCHES
)


def request_name(args: RequestArgs) -> RequestName:
    """The full name of the queued resource that ``args`` ask for, in the first of their zones."""
    return RequestName(args.project, args.zones[0], args.queued_resource_id, node_ids(args))


def node_ids(args: RequestArgs) -> tuple[str, ...]:
    """The ids that the nodes will have: one, or PREFIX-0, PREFIX-1, … of several."""
    several = args.multi_node
    return ids_of(
        args.queued_resource_id, None if several is None else several.model_dump(by_alias=True)
    )


def request_body(args: RequestArgs) -> JsonObject:
    """The `QueuedResource` that is posted in the first zone, with the spec hash among the node's
    labels."""
    body = _nested(
        _places(args)
        | {
            f"{_SPEC}parent": request_name(args).parent,
            f"{_NODE}labels": {**args.labels, LABEL_SPEC: spec_hash(args)},
        }
    )
    return body | {"tpu": {"nodeSpec": [_at(body, "tpu.nodeSpec")]}}


def spec_hash(args: RequestArgs) -> str:
    """Fingerprint of all that cannot be changed in place: two requests of one name with the same
    one are the same request. What can be patched is left out, so a patched request is still
    recognised as ours."""
    fixed = {place: value for place, value in _places(args).items() if place not in _PATCHED}
    if args.on_boot_change == "replace":
        boot: JsonObject = {key: args.metadata.get(key) for key in sorted(BOOT_METADATA)}
        fixed[f"{_NODE}metadata"] = boot
    asked = _nested({place.removeprefix(_SPEC): value for place, value in fixed.items()})
    if not args.network_configs:
        # The fingerprints of running slices have it, also where nothing is in it.
        asked["node"] = {"networkConfig": {}, **_object(asked["node"])}
    return digest(json.dumps(asked, sort_keys=True, separators=(",", ":")))


def _places(args: RequestArgs) -> JsonObject:
    """All that is sent, by its place."""
    places = _values(args)
    if args.provisioning_model == "SPOT":
        # gcloud 528 sends both for --provisioning-model=spot; with the model alone, the tier
        # would be left open.
        places["spot"] = {}
    if args.multi_node is None:
        places[f"{_SPEC}nodeId"] = args.queued_resource_id
    one_network = f"{_NODE}networkConfig."
    return {
        place: value
        for place, value in places.items()
        if not (args.network_configs and place.startswith(one_network))
    }


def _values(group: BaseModel) -> JsonObject:
    """What ``group`` says, by the places of its rows."""
    values = {
        row.at: _wire(getattr(group, name), row.form)
        for name, row in rows(type(group)).items()
        if row.at
    }
    return {place: value for place, value in values.items() if value is not None}


def _nested(places: Mapping[str, JsonValue]) -> JsonObject:
    """The object that has each value at its place."""
    inside: dict[str, dict[str, JsonValue]] = {}
    body: JsonObject = {}
    for place, value in places.items():
        head, _, rest = place.partition(".")
        if rest:
            inside.setdefault(head, {})[rest] = value
        else:
            body[head] = value
    return body | {head: _nested(inner) for head, inner in inside.items()}


def _wire(value: object, form: Form) -> JsonValue:
    """``value`` in Google's JSON; None if it is left out."""
    if value is None or form is Form.IN_NAME:
        return None
    match value:
        case BaseModel():
            return _nested(_values(value))
        case tuple():
            return [_wire(item, form) for item in value] or None
        case dict():
            return {**value}
        case False if form is not Form.ALWAYS:
            return None
        case bool() if form is Form.FLAG:
            return {}
        case int() if form is Form.INT64:
            return str(value)
        case str() | bool() | int():
            return value
    raise TypeError(f"no row holds a {type(value).__name__}")


def imported_inputs(name: RequestName, request: QueuedResource | None, nodes: Nodes) -> Properties:
    """The inputs of what exists under ``name``.

    What can be patched is read from the node as it is (of several, from the first that there
    is); the rest as it was asked for, because the node spells some of it differently.
    """
    of = request or QueuedResource()
    # With its first node spec, the only one in what this version creates, in place of the list.
    asked = _json(of) | {"tpu": {"nodeSpec": _json(of.spec)}}
    node = _json(nodes.first or of.spec.node)
    # The service adds a type to a shape; either was asked for, not both.
    by_shape = of.spec.node.accelerator_config is not None and not of.spec.node.accelerator_type
    implied = "accelerator_type" if by_shape else "accelerator_config"
    read = {
        to_camel(field): _input(RequestArgs, field, row, _found(row, asked, node))
        for field, row in rows(RequestArgs).items()
        if row.form is not Form.IN_NAME and field != implied
    }
    named: Properties = {
        "queuedResourceId": name.id,
        "project": name.project,
        "zones": [name.zone],
    }
    given: Properties = {key: value for key, value in read.items() if value is not None}
    return named | given | _corrected(given, request)


def _found(row: Input, asked: JsonValue, node: JsonValue) -> JsonValue:
    """The JSON that holds the input of ``row``: in the request, or in the node as it is."""
    in_request = _at(asked, row.at)
    if row.on_change is OnChange.PATCHES or (row.or_node and not in_request):
        return _at(node, row.at.removeprefix(_NODE))
    return in_request


def _corrected(given: Properties, request: QueuedResource | None) -> Properties:
    """Of ``given``, what the service adds, or says in a second way, put right."""
    labels = given.get("labels")
    entries = labels.items() if isinstance(labels, dict) else ()
    corrected: Properties = {"labels": {key: text for key, text in entries if key != LABEL_SPEC}}
    metadata = given.get("metadata")
    if isinstance(metadata, dict):
        asked = request.spec.node.metadata if request is not None else {}
        others = OTHERS_METADATA - asked.keys()
        corrected["metadata"] = {key: text for key, text in metadata.items() if key not in others}
    if request is None:
        return corrected
    # A request that was made without a model, by whatever program, says it with a tier, or not.
    model = request.provisioning_model or ("STANDARD" if request.spot is None else "SPOT")
    corrected["provisioningModel"] = model
    if request.spec.node.network_configs:
        corrected["externalIps"] = False
    return corrected


def _input(group: type[BaseModel], field: str, row: Input, found: JsonValue) -> Value:
    """The input that makes the JSON ``found``; None if it says nothing."""
    inside = object_type(group.model_fields[field].annotation)
    if row.form is Form.FLAG:
        return None if found is None else True
    if row.form is Form.ALWAYS and found is None:
        return False
    if found in ("", None, []) or (found is False and row.form is Form.PLAIN):
        return None
    if inside is not None:
        many = [_inner(inside, item) for item in (found if isinstance(found, list) else [found])]
        return list(many) if isinstance(found, list) else many[0]
    if row.form is Form.INT64 and str(found).isdecimal():
        return int(str(found))
    return _plain(found)


def _inner(group: type[BaseModel], found: JsonValue) -> Properties:
    values = {
        to_camel(name): _input(group, name, row, _at(found, row.at))
        for name, row in rows(group).items()
    }
    return {key: value for key, value in values.items() if value is not None}


def _plain(found: JsonValue) -> Value:
    if isinstance(found, list):
        return [_plain(item) for item in found]
    return {k: _plain(v) for k, v in found.items()} if isinstance(found, dict) else found


def _json(answer: BaseModel) -> JsonObject:
    return answer.model_dump(mode="json", by_alias=True)


def _at(body: JsonValue, place: str) -> JsonValue:
    for part in place.split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def _object(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)  # noqa: S101 - rows only put objects there
    return value
