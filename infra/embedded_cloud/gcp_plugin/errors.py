"""The border to the engine: failures leave as gRPC statuses with one message, never a traceback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import grpc

from embedded_cloud.gcp_plugin.protocol import provider_pb2, struct_pb2
from embedded_cloud.gcp_plugin.resource_type import IncompleteCreateError
from embedded_cloud.gcp_plugin.waiting import WaitCancelledError
from tpuflex.errors import TpuflexError

_LOG = logging.getLogger(__name__)

_Self = TypeVar("_Self")
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_Method = Callable[[_Self, _Request, grpc.ServicerContext], _Response]


class NotFullyMadeError(TpuflexError):
    """A create went wrong after the resource was asked for; the engine must keep it in state.

    Attributes:
        detail: what the engine is told of the resource.
    """

    def __init__(
        self,
        cause: IncompleteCreateError,
        state: struct_pb2.Struct,
        inputs: struct_pb2.Struct,
    ) -> None:
        super().__init__(cause.message, hint=cause.hint)
        self.detail = provider_pb2.ErrorResourceInitFailed(
            id=cause.made.id, properties=state, inputs=inputs, reasons=[str(cause)]
        )


def guarded(method: _Method[_Self, _Request, _Response]) -> _Method[_Self, _Request, _Response]:
    """``method`` with its failures turned into statuses."""

    @wraps(method)
    def guard(self: _Self, request: _Request, context: grpc.ServicerContext) -> _Response:
        try:
            return method(self, request, context)
        except NotFullyMadeError as error:
            return context.abort_with_status(_status(error))
        except WaitCancelledError as error:
            return context.abort(grpc.StatusCode.CANCELLED, str(error))
        except TpuflexError as error:
            return context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except Exception as error:
            # A bug of ours: the log has the traceback, the user gets a sentence.
            _LOG.exception("the gcp stand-in plugin failed in %s", method.__name__)
            said = f"{method.__name__}: {type(error).__name__}: {error}"
        return context.abort(grpc.StatusCode.INTERNAL, f"bug in the gcp stand-in plugin: {said}")

    return guard


def _status(error: NotFullyMadeError) -> grpc.Status:
    # Only a create that goes wrong needs these.
    from google.protobuf import any_pb2
    from google.rpc import code_pb2, status_pb2
    from grpc_status import rpc_status

    detail = any_pb2.Any()
    detail.Pack(error.detail)
    status = status_pb2.Status(code=code_pb2.UNKNOWN, message=str(error), details=[detail])
    converted: grpc.Status = rpc_status.to_status(status)
    return converted
