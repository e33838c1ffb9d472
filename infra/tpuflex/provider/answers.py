"""Answers in the engine's form: diffs, failures, and resources that exist but are not ready."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.protocol import provider_pb2
from tpuflex.errors import TpuflexError
from tpuflex.provider.scrub import scrub
from tpuflex.request.diff import Diff, Kind

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")
_Self = TypeVar("_Self")
_Method = Callable[[_Self, _Request, grpc.ServicerContext], _Answer]


class KeptError(Exception):
    """A call failed, and the engine must keep the resource in the state all the same."""

    def __init__(self, id_: str, properties: Struct, inputs: Struct, error: TpuflexError) -> None:
        super().__init__(str(error))
        self.detail = provider_pb2.ErrorResourceInitFailed(
            id=id_,
            properties=properties,
            inputs=inputs,
            reasons=[scrub(str(error))],
            refresh_before_update=True,
        )


def reported(method: _Method[_Self, _Request, _Answer]) -> _Method[_Self, _Request, _Answer]:
    """Turn what ``method`` raises into a gRPC status whose text is fit for the console."""

    @functools.wraps(method)
    def call(self: _Self, request: _Request, context: grpc.ServicerContext) -> _Answer:
        detail: Message | None = None
        try:
            return method(self, request, context)
        except KeptError as kept:
            message, detail = str(kept), kept.detail
        except TpuflexError as error:
            message = str(error)
        except Exception as error:
            message = _bug(error)
        # Outside of the handlers, because it raises: that is how gRPC ends a call.
        _abort(context, scrub(message), detail)
        raise AssertionError("abort returned")

    return call


def diff_response(found: Diff) -> provider_pb2.DiffResponse:
    """``found`` in the engine's form."""
    some = provider_pb2.DiffResponse.DIFF_SOME
    none = provider_pb2.DiffResponse.DIFF_NONE
    top = sorted({_top(path) for path in found.changes})
    return provider_pb2.DiffResponse(
        changes=some if found.changes else none,
        diffs=top,
        replaces=sorted({_top(p) for p, change in found.changes.items() if change.replaces}),
        deleteBeforeReplace=found.delete_before_replace,
        detailedDiff={
            path: provider_pb2.PropertyDiff(
                kind=_KINDS[change.kind, change.replaces], inputDiff=change.is_input
            )
            for path, change in found.changes.items()
        },
        hasDetailedDiff=True,
    )


def check_failures(found: Iterable[tuple[str, str]]) -> list[provider_pb2.CheckFailure]:
    """Findings of a check in the engine's form."""
    return [provider_pb2.CheckFailure(property=path, reason=scrub(text)) for path, text in found]


_KINDS = {
    (Kind.ADD, False): provider_pb2.PropertyDiff.ADD,
    (Kind.ADD, True): provider_pb2.PropertyDiff.ADD_REPLACE,
    (Kind.DELETE, False): provider_pb2.PropertyDiff.DELETE,
    (Kind.DELETE, True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    (Kind.UPDATE, False): provider_pb2.PropertyDiff.UPDATE,
    (Kind.UPDATE, True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


def _top(path: str) -> str:
    return path.split(".", 1)[0].split("[", 1)[0]


def _bug(error: Exception) -> str:
    """One line about a mistake of ours: enough to find it, no traceback on the console."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"internal error in the tpuflex provider: {type(error).__name__}{where}: {error}"


def _abort(context: grpc.ServicerContext, message: str, detail: Message | None) -> None:
    # Imported only when something failed.
    from google.rpc import status_pb2
    from grpc_status import rpc_status

    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=message)
    if detail is not None:
        status.details.add().Pack(detail)
    context.abort_with_status(rpc_status.to_status(status))
