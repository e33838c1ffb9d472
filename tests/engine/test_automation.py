"""A program's connections to engines that follow each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS

from tpuflex.engine.automation import own_channels


class _Answers(grpc.GenericRpcHandler):
    def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        return grpc.unary_unary_rpc_method_handler(lambda *_: b"here")


def _serve(port: int = 0) -> tuple[grpc.Server, int]:
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((_Answers(),))
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, port


def test_an_engine_on_the_port_of_an_earlier_one_is_reached() -> None:
    """A program reaches an engine at once, though a connection to one that had the same port has
    just failed."""
    own_channels()
    first, port = _serve()
    target = f"127.0.0.1:{port}"
    with grpc.insecure_channel(target, options=_GRPC_CHANNEL_OPTIONS) as earlier:
        ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = earlier.unary_unary("/engine/call")
        assert ask(b"") == b"here"
        first.stop(0).wait()
        for _ in range(3):
            with pytest.raises(grpc.RpcError):
                ask(b"")
        second, _ = _serve(port)
        with grpc.insecure_channel(target, options=_GRPC_CHANNEL_OPTIONS) as channel:
            again: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/engine/call")
            assert again(b"") == b"here"
        second.stop(0).wait()


def test_the_option_is_set_once() -> None:
    """However many runs a process makes, the options stay what they are."""
    own_channels()
    before = list(_GRPC_CHANNEL_OPTIONS)
    own_channels()

    assert before == _GRPC_CHANNEL_OPTIONS
