"""Conversion between the engine's structs and the values of a queued resource."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.replies import InitFailedError
from pulumi_plugin.values import Properties, has_unknown
from pulumi_plugin.wire import decode, encode, secret_keys
from tpuflex.codes import with_code
from tpuflex.provider.call import UnreadyError
from tpuflex.request.check import input_properties, parse
from tpuflex.request.fields import INPUTS
from tpuflex.request.name import RequestName, ids_of
from tpuflex.request.outputs import outputs, recorded_lifecycle, with_run_times
from tpuflex.request.snapshot import Snapshot
from tpuflex.request.states import ON_ITS_WAY

#: Outputs that stay as they are from the request to the slice, where there is one zone.
_SINCE_THE_REQUEST = frozenset({"createTime", "requests"})


def inputs_of(values: Properties) -> Properties:
    """The inputs among ``values``, which may be outputs."""
    return {key: value for key, value in values.items() if key in INPUTS}


def properties(given: Struct, seen: Snapshot, recorded: Properties | None = None) -> Struct:
    """Output properties: the inputs ``given``, secret where they were, and those of ``seen``, after
    those ``recorded`` in the state."""
    inputs = input_properties(parse(decode(given)))
    found = with_run_times(outputs(inputs, seen), recorded or {})
    return encode(found, secrets=secret_keys(given))


def previewed_creation(given: Struct) -> Struct:
    """Outputs known before the creation: the inputs and the names derived from them."""
    previewed = Struct()
    previewed.CopyFrom(given)
    values = decode(given)
    project, zones, id_ = (values.get(key) for key in ("project", "zones", "queuedResourceId"))
    zone = zones[0] if isinstance(zones, list) and len(zones) == 1 else None
    if isinstance(project, str) and isinstance(zone, str) and isinstance(id_, str):
        previewed.update({"name": str(RequestName(project, zone, id_)), "zone": zone})
        if not has_unknown(several := values.get("multiNode")):
            previewed.update({"nodeId": ids_of(id_, several)[0]})
    return previewed


def previewed_update(olds: Struct, news: Struct) -> Struct:
    """Outputs after an update in place: the old ones with the new inputs.

    Of what still waits no more is known than before its creation, but when it was asked for: a
    program that takes the first of its addresses must not meet the empty list of the state.
    """
    if recorded_lifecycle(decode(olds)) in ON_ITS_WAY:
        previewed = previewed_creation(news)
        for key in _SINCE_THE_REQUEST & olds.fields.keys() if "name" in previewed.fields else ():
            previewed.fields[key].CopyFrom(olds.fields[key])
        return previewed
    merged = Struct()
    for key, value in olds.fields.items():
        if key not in INPUTS:
            merged.fields[key].CopyFrom(value)
    for key, value in news.fields.items():
        merged.fields[key].CopyFrom(value)
    return merged


@contextmanager
def kept(given: Struct, recorded: Properties | None = None) -> Iterator[None]:
    """Have the engine keep a request in the state that the block leaves behind when it fails.

    Args:
        given: its inputs.
        recorded: its outputs in the state, if it has any.

    Raises:
        InitFailedError: instead of :class:`UnreadyError`, with all that the state needs.
    """
    try:
        yield
    except UnreadyError as error:
        seen = error.snapshot
        raise InitFailedError(
            with_code(str(error), error.code),
            id_=str(seen.name),
            properties=properties(given, seen, recorded),
            inputs=given,
            refresh_before_update=True,
        ) from error
