"""`tpuflex:tpu:StateId`: which state made what is in the cloud (docs/adr/0015).

Made at random by the first `up`, kept in the state, and nowhere else: nothing is asked of any
cloud. `pulumi import tpuflex:tpu:StateId NAME ID` puts a given one into a state.
"""

from __future__ import annotations

import hashlib
import secrets

from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.replies import check_failures
from pulumi_plugin.values import UNKNOWN
from pulumi_plugin.wire import decode, encode
from tpuflex.errors import TpuflexError
from tpuflex.naming import STATE_ID_BYTES, is_state_id


def new_state_id() -> str:
    """20 lower-case hex digits that nobody else has."""
    return secrets.token_hex(STATE_ID_BYTES)


def drawn_state_id(seed: bytes) -> str:
    """The id for what no :class:`StateIds` marks: the ``seed`` of a check is random, and the same
    in the update that follows a saved plan. A new id without one."""
    return hashlib.sha256(seed).hexdigest()[: 2 * STATE_ID_BYTES] if seed else new_state_id()


#: The input that says what the names in the cloud are made of.
NAMES = "names"
_PARTS = {"project", "stack", "name"}
_RENAMED = (
    "the state has {name} in stack {stack} of project {project}, which is called otherwise now: its"
    " slice, network, bucket with the weights and secrets would be replaced. Nothing was changed."
    ' Write names=tpuflex.Names("{project}", "{stack}", "{name}") into its VllmEndpointArgs (in'
    " another language, the same into its input `names`), and everything stays; a stack of the"
    " tpuflex command needs the name that it had"
)


class StateIds:
    """The type `tpuflex:tpu:StateId`. What it has never changes, so nothing about it does."""

    def check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:
        """Refuse unknown inputs, and other names than the state has."""
        given, before = decode(request.news), decode(request.olds).get(NAMES)
        refused = [(key, "there is no such input") for key in given if key != NAMES]
        names = given.get(NAMES, before)
        if names is not None and not (isinstance(names, dict) and names.keys() == _PARTS):
            refused.append((NAMES, "it has project, stack and name"))
        elif isinstance(before, dict) and names != before:
            refused.append((NAMES, _RENAMED.format(**before)))
        return provider_pb2.CheckResponse(failures=check_failures(refused), inputs=request.news)

    def diff(self, _request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:
        """No difference."""
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def create(self, request: provider_pb2.CreateRequest) -> provider_pb2.CreateResponse:
        """Draw an id. A preview draws none: it would promise one that is not made."""
        if request.preview:
            return provider_pb2.CreateResponse(properties=encode({"value": UNKNOWN}))
        id_ = new_state_id()
        return provider_pb2.CreateResponse(id=id_, properties=_properties(id_))

    def read(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:
        """What the state says, or an import: the id is all there is.

        Raises:
            TpuflexError: it is no state id.
        """
        if not is_state_id(request.id):
            raise TpuflexError(
                f"{request.id!r} is not the id of a state",
                hint="It is the value of the label tpuflex-state: 20 digits and letters a to f.",
            )
        return provider_pb2.ReadResponse(
            id=request.id, inputs=request.inputs, properties=_properties(request.id)
        )

    def update(self, request: provider_pb2.UpdateRequest) -> provider_pb2.UpdateResponse:
        """Keep it: there is nothing to change."""
        return provider_pb2.UpdateResponse(properties=request.olds)

    def delete(self, _request: provider_pb2.DeleteRequest) -> Empty:
        """Forget it: it is in the state alone."""
        return Empty()


def _properties(id_: str) -> Struct:
    return encode({"value": id_})
