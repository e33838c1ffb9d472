"""A slice that serves, and steps of the engine, for tests of what is shown of them."""

from __future__ import annotations

from datetime import timedelta

from tests.cli.typing import NOON
from tpuflex.engine.events import Step
from tpuflex.host.report import HostReport
from tpuflex.operate.slice import SliceStatus
from tpuflex.queued_resource.states import Lifecycle

NODE = "projects/p/locations/us-east5-a/nodes/n"


def step(operation: str, kind: str = "gcp:storage/bucket:Bucket", name: str = "weights") -> Step:
    return Step(operation, kind, name, f"urn:{kind}::{name}")


def status(**changes: object) -> SliceStatus:
    facts: dict[str, object] = {
        "queued_resource": "tpuflex-dev-vllm-g1",
        "zone": "us-east5-a",
        "state": "ACTIVE",
        "lifecycle": Lifecycle.ACTIVE,
        "sentence": "the hosts run",
        "node": NODE,
        "node_state": "READY",
        "health": "HEALTHY",
        "address": "127.0.0.9",
        "active_since": NOON - timedelta(minutes=30),
        "expires": NOON + timedelta(hours=3, minutes=5),
        "host": HostReport("READY"),
        **changes,
    }
    return SliceStatus(**facts)  # type: ignore[arg-type]
