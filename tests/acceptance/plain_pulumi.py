"""The plain `pulumi` command with the project's program, without an installed language host.

`pulumi-language-python` cannot be had as a module, so the SDK's own language server is
attached by port. It lacks the handshake that attaching needs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc


class AttachedLanguageServer(LanguageServer):
    """The SDK's language server with the calls that it lacks: attaching needs the first, and
    the engine makes the second when it ends."""

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name is given
        del request, context
        return language_pb2.LanguageHandshakeResponse()

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name is given
        del request, context
        return empty_pb2.Empty()


@dataclass(frozen=True)
class PlainPulumi:
    """`pulumi`, typed in ``root``."""

    executable: Path
    root: Path
    environ: Mapping[str, str]

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.executable, "--non-interactive", "--color=never", *arguments],
            cwd=self.root,
            env=dict(self.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"pulumi {arguments}:\n{done.stdout}\n{done.stderr}")
        return done


@contextmanager
def plain_pulumi(
    executable: Path, root: Path, environ: Mapping[str, str], program: Callable[[], None]
) -> Iterator[PlainPulumi]:
    """The command in ``root``, running ``program`` in this process."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(AttachedLanguageServer(program), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        attached = {**environ, "PULUMI_DEBUG_LANGUAGES": f"python:{port}"}
        yield PlainPulumi(executable, root, attached)
    finally:
        server.stop(grace=None).wait()
