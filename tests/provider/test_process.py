"""The provider's process, its launcher, and what leaves it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import grpc
import psutil
import pytest
from google.protobuf.empty_pb2 import Empty

from pulumi_plugin.protocol import provider_pb2_grpc
from tpuflex import __version__
from tpuflex.naming import QUEUED_RESOURCE

PLUGIN = Path(__file__).parents[2] / "infra" / "plugin" / "pulumi-resource-tpuflex"
URN = f"urn:pulumi:dev::shop::{QUEUED_RESOURCE}::slice"
TOKEN = "ya29.a0Canary_token-123"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_process_prints_its_port_and_ends_on_a_signal(number: signal.Signals) -> None:
    """The launcher's first line is the port; the process ends promptly when told to."""
    with subprocess.Popen(
        [str(PLUGIN), "127.0.0.1:1"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            assert stub.GetPluginInfo(Empty(), wait_for_ready=True).version == __version__
        process.send_signal(number)
        assert process.wait(timeout=60) == 0


def test_process_ends_with_its_engine() -> None:
    """When the engine is killed, its provider does not keep polling for ever."""
    starter = (
        "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE);"
        "p.stdout.readline(); print(p.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starter, str(PLUGIN), "127.0.0.1:1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        child.wait(timeout=60)


_MUCH_LATER = (
    "pulumi requests google.auth pulumi_gcp tpuflex.settings.model tpuflex.remote "
    "tpuflex.components"
)


@pytest.mark.parametrize(
    ("module", "later"),
    [
        ("tpuflex.provider.resources", _MUCH_LATER),
        ("tpuflex.plugin", f"{_MUCH_LATER} pydantic tpuflex.provider.resources"),
    ],
)
def test_provider_starts_without_what_comes_later(module: str, later: str) -> None:
    """Queued resources take neither the Pulumi SDK nor the HTTP stack, nor what only components and
    the schema take; making contact does not even take queued resources."""
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, {module}; print([m for m in '{later}'.split() if m in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == "[]"
