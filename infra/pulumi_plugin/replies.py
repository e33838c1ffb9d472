"""Replies in the engine's form: diffs, refused inputs, failures."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import TypeVar

import grpc
from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.changes import ChangeKind, Diff
from pulumi_plugin.credentials import scrub
from pulumi_plugin.protocol import provider_pb2

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")
_Self = TypeVar("_Self")
_Method = Callable[[_Self, _Request, grpc.ServicerContext], _Reply]
#: What a failure looks like to the engine: a status code and a message for the console.
Failure = tuple[grpc.StatusCode, str]

_KINDS = {
    (ChangeKind.ADD, False): provider_pb2.PropertyDiff.ADD,
    (ChangeKind.ADD, True): provider_pb2.PropertyDiff.ADD_REPLACE,
    (ChangeKind.DELETE, False): provider_pb2.PropertyDiff.DELETE,
    (ChangeKind.DELETE, True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    (ChangeKind.UPDATE, False): provider_pb2.PropertyDiff.UPDATE,
    (ChangeKind.UPDATE, True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


class InitFailedError(Exception):
    """A call failed, but the resource exists: the engine must keep it in the state."""

    def __init__(
        self,
        reason: str,
        *,
        id_: str,
        properties: Struct,
        inputs: Struct,
        refresh_before_update: bool = False,
    ) -> None:
        super().__init__(reason)
        self.detail = provider_pb2.ErrorResourceInitFailed(
            id=id_,
            properties=properties,
            inputs=inputs,
            reasons=[scrub(reason)],
            refresh_before_update=refresh_before_update,
        )


def reporting(
    describe: Callable[[Exception], Failure],
) -> Callable[[_Method[_Self, _Request, _Reply]], _Method[_Self, _Request, _Reply]]:
    """A decorator that ends a call whose method raises with a gRPC status, without a traceback.

    Args:
        describe: code and message of an exception. :class:`InitFailedError` needs none.
    """

    def decorator(
        method: _Method[_Self, _Request, _Reply],
    ) -> _Method[_Self, _Request, _Reply]:
        @functools.wraps(method)
        def call(self: _Self, request: _Request, context: grpc.ServicerContext) -> _Reply:
            detail: provider_pb2.ErrorResourceInitFailed | None = None
            try:
                return method(self, request, context)
            except InitFailedError as error:
                code, message, detail = grpc.StatusCode.UNKNOWN, str(error), error.detail
            except Exception as error:
                code, message = describe(error)
            # Outside of the handlers, because it raises: that is how gRPC ends a call.
            _abort(context, code, scrub(message), detail)
            raise AssertionError("abort returned")

        return call

    return decorator


def internal_error(plugin: str, error: Exception) -> str:
    """One line about a bug in ``plugin``: enough to find it, without a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"internal error in {plugin}: {type(error).__name__}{where}: {error}"


def diff_response(diff: Diff) -> provider_pb2.DiffResponse:
    """``diff`` in the engine's form."""
    some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=some if diff.changes else none,
        diffs=diff.changed,
        replaces=diff.replacing,
        deleteBeforeReplace=diff.delete_before_replace,
        detailedDiff={
            path: provider_pb2.PropertyDiff(
                kind=_KINDS[change.kind, change.replaces], inputDiff=change.is_input
            )
            for path, change in diff.changes.items()
        },
        hasDetailedDiff=True,
    )


def check_failures(refused: Iterable[tuple[str, str]]) -> list[provider_pb2.CheckFailure]:
    """Refused inputs, as property path and reason, in the engine's form."""
    return [provider_pb2.CheckFailure(property=path, reason=scrub(why)) for path, why in refused]


def _abort(
    context: grpc.ServicerContext,
    code: grpc.StatusCode,
    message: str,
    detail: provider_pb2.ErrorResourceInitFailed | None,
) -> None:
    # Imported only when a call fails: starting must stay fast.
    from google.rpc import status_pb2
    from grpc_status import rpc_status

    status = status_pb2.Status(code=code.value[0], message=message)
    if detail is not None:
        status.details.add().Pack(detail)
    context.abort_with_status(rpc_status.to_status(status))
