"""A renewal under load with the real vLLM, from an installed wheel, on a strict cloud."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import yaml

from reliability.streams import CLIENTS, CUT, WHOLE, Clients
from tests.engine.installed_shell import Shell, reached
from tests.engine.test_end_to_end import (
    KEY_CANARY,
    QUESTION,
    installed,
    pulumi_engine,
    running,
    shell,
)

__all__ = ["installed", "pulumi_engine", "running", "shell"]


pytestmark = [pytest.mark.engine, pytest.mark.vllm, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Named:
    """What clients know of an endpoint, for good."""

    address: str
    key: str
    model: str

    def endpoint(self) -> str:
        return self.address


def test_a_renewal_cuts_no_stream(shell: Shell, running: dict[str, object]) -> None:
    """Another slice takes over under load: each stream that the old one has begun ends whole, and
    the next question is answered at another address."""
    file = shell.project / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:slice"]["rerun"] = "again"
    # The next server shall not bind itself to the same core, where it would starve.
    document["config"]["tpuflex:serving"]["env"]["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    file.write_text(yaml.safe_dump(document))
    with reached(shell, str(running["endpoint"])) as old:
        clients = Clients(Named(old, KEY_CANARY, str(running["model"])))
        with clients.running():
            renewed = shell.json("up", "--yes")

    assert not clients.of(CUT)
    assert len(clients.of(WHOLE)) > CLIENTS
    assert renewed["endpoint"] != running["endpoint"]
    assert "Paris" in shell.run("ask", QUESTION).stdout
