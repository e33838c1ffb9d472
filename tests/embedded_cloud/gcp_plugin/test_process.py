"""The gcp stand-in as a server and as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pulumi.runtime.proto import provider_pb2

from embedded_cloud.gcp_plugin.provider import serve
from pulumi_plugin import protocol
from pulumi_plugin.values import Properties
from tests.embedded_cloud.api import TOKEN, with_token
from tests.embedded_cloud.gcp_plugin.calls import connected
from tpuflex.errors import EmulatorError

CUSTOM: Properties = {"name": "net", "autoCreateSubnetworks": False}


@pytest.mark.parametrize(
    "url", ["https://storage.googleapis.com", "http://10.0.0.1:80", "https://127.0.0.1", "x"]
)
def test_only_plain_loopback_urls_are_served(url: str) -> None:
    """The stand-in talks only to a cloud on this machine."""
    with pytest.raises(EmulatorError, match="only talks to a loopback address"):
        serve(url, token=TOKEN, environ={})


def test_a_taken_port_is_refused() -> None:
    """Two plugins cannot share a port; the message names it."""
    first = serve("http://127.0.0.1:9", token=TOKEN, environ={})
    with pytest.raises(EmulatorError, match=f":{first.port}: the port is taken"):
        serve("http://127.0.0.1:9", first.port, token=TOKEN, environ={})
    first.stop()


def module(*arguments: str) -> list[str]:
    """The command line of the plugin as a process."""
    return [sys.executable, "-m", "embedded_cloud.gcp_plugin", *arguments]


def test_the_process_prints_its_port_and_ends_on_a_signal(tmp_path: Path) -> None:
    """The first line is the port; SIGTERM ends it."""
    command = module("--base-url", "http://127.0.0.1:9", "--state-dir", str(with_token(tmp_path)))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with connected(int(process.stdout.readline())) as calls:
            assert calls.check("Network", CUSTOM)[1] == {}
        process.terminate()
        assert process.wait(timeout=20) == 0


def test_the_process_refuses_other_hosts_with_a_message(tmp_path: Path) -> None:
    """A wrong URL ends it with a message on standard error and the emulator's exit code."""
    done = subprocess.run(
        module("--base-url", "http://8.8.8.8", "--state-dir", str(with_token(tmp_path))),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == EmulatorError.exit_code
    assert "loopback" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_plugin_does_not_load_the_pulumi_sdk() -> None:
    """It starts in a fraction of a second because the protocol is loaded alone."""
    code = "import sys, embedded_cloud.gcp_plugin.provider; sys.exit('pulumi' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0


def test_messages_of_the_sdk_are_the_same_classes() -> None:
    """In a process with the SDK, both names of a message are the same class."""
    assert protocol.provider_pb2.CheckRequest is provider_pb2.CheckRequest
