"""A gRPC server's door: only processes of the user who runs the server get in.

The engine speaks to its plugins over loopback without any credential, so otherwise every user of
the machine could drive them, with the credentials of the user who runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from urllib.parse import unquote

import grpc

from pulumi_plugin import peer

#: What servers of plugins listen on.
HOST = "127.0.0.1"

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class OwnersDoor(grpc.ServerInterceptor):
    """Refuses every call of another user before its message is read.

    Attributes:
        port: the port that the server listens on, on :data:`HOST`; until it is set, all calls
            are refused.
    """

    def __init__(self) -> None:
        self.port = 0

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Handler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """The method's handler behind the door."""
        handler = continuation(handler_call_details)
        return None if handler is None else self._guarded(handler)

    def _guarded(self, handler: Handler) -> Handler:
        """``handler`` as one that takes a stream: gRPC reads a single message before it calls
        the handler, but those of a stream when they are asked for."""
        answer: Any = (
            handler.unary_unary
            or handler.unary_stream
            or handler.stream_unary
            or handler.stream_stream
        )
        streamed = handler.request_streaming

        def single(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            self._check(context)
            return answer(requests if streamed else next(requests), context)

        def stream(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            self._check(context)
            yield from answer(requests if streamed else next(requests), context)

        form: Any = (
            (grpc.stream_stream_rpc_method_handler, stream)
            if handler.response_streaming
            else (grpc.stream_unary_rpc_method_handler, single)
        )
        make, behaviour = form
        guarded: Handler = make(
            behaviour, handler.request_deserializer, handler.response_serializer
        )
        return guarded

    def _check(self, context: grpc.ServicerContext) -> None:
        theirs = caller(context.peer())
        if theirs is None or not peer.is_own(theirs, (HOST, self.port)):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, peer.refusal())


def caller(name: str) -> peer.End | None:
    """``ipv4:127.0.0.1:50000``, as gRPC names a caller, as address and port; None if it is
    neither IPv4 nor IPv4-mapped IPv6 (nothing else reaches :data:`HOST`)."""
    family, _, rest = name.partition(":")
    address, _, port = unquote(rest).rpartition(":")
    address = address.strip("[]").lower().removeprefix("::ffff:")
    if family not in ("ipv4", "ipv6") or ":" in address or not port.isdecimal():
        return None
    return address, int(port)
