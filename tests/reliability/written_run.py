"""A run of the rig, written down by hand: what the checker judges, as a test changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reliability.evidence import Command, Evidence

OWNER, PREFIX = "af9566e3887ac56d", "shop-dev-slice"
PLACE = "projects/p/locations/us-east5-a"
QUEUED, NODE = f"{PLACE}/queuedResources/{PREFIX}-g1", f"{PLACE}/nodes/{PREFIX}-g1"
PROVIDER = "urn:pulumi:dev::shop::pulumi:providers:tpuflex::cloud"
STACK = "urn:pulumi:dev::shop::pulumi:pulumi:Stack::shop-dev"
SLICE = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"
BUCKET = "urn:pulumi:dev::shop::gcp:storage/bucket:Bucket::weights"
LABELS = {"tpuflex-owner": OWNER}
CREATE = "tpu.projects.locations.queuedResources.create"

Json = dict[str, Any]


def cloud() -> dict[str, dict[str, list[Json]]]:
    """One active slice and its bucket, and a slice and a network of somebody else."""
    return {
        "tpu": {
            "queuedResources": [
                {"name": QUEUED, "labels": dict(LABELS), "state": "ACTIVE"},
                {"name": f"{PLACE}/queuedResources/theirs", "state": "ACTIVE"},
            ],
            "nodes": [
                {"name": NODE, "labels": dict(LABELS), "state": "READY"},
                {"name": f"{PLACE}/nodes/theirs", "state": "READY"},
            ],
        },
        "storage": {
            "buckets": [{"name": f"{PREFIX}-weights", "labels": dict(LABELS)}],
            "objects": [{"name": f"{PREFIX}-weights/model#1"}],
        },
        "compute": {"networks": [{"name": "projects/p/global/networks/default"}]},
    }


def foreign() -> dict[str, dict[str, list[Json]]]:
    """What was there before the run."""
    found = cloud()
    del found["tpu"]["queuedResources"][0]
    del found["tpu"]["nodes"][0]
    del found["storage"]
    return found


def state() -> Json:
    """The state that belongs to :func:`cloud`."""
    provider = {"type": "pulumi:providers:tpuflex", "urn": PROVIDER, "custom": True, "id": "x"}
    reference = f"{PROVIDER}::x"
    return {
        "version": 3,
        "deployment": {
            "resources": [
                {"type": "pulumi:pulumi:Stack", "urn": STACK},
                {**provider, "parent": STACK},
                {
                    "type": "gcp:storage/bucket:Bucket",
                    "urn": BUCKET,
                    "custom": True,
                    "id": f"{PREFIX}-weights",
                    "parent": STACK,
                },
                {
                    "type": "tpuflex:tpu:QueuedResource",
                    "urn": SLICE,
                    "custom": True,
                    "id": QUEUED,
                    "parent": STACK,
                    "provider": reference,
                    "dependencies": [BUCKET],
                    "inputs": {
                        "zones": ["us-east5-a"],
                        "project": "p",
                        "queuedResourceId": f"{PREFIX}-g1",
                    },
                    "outputs": {"lifecycle": "active", "name": QUEUED},
                },
            ]
        },
    }


def call(seq: int, method: str = "GET", path: str = f"/v2alpha1/{QUEUED}", **more: Any) -> Json:
    """One line of the history."""
    return {"seq": seq, "method": method, "path": path, "method_id": CREATE, "status": 200, **more}


@dataclass
class Run:
    """A run as a test changes it: by default a good one that ended in `up`, twice."""

    inventory: dict[str, dict[str, list[Json]]] = field(default_factory=cloud)
    export: Json | None = field(default_factory=state)
    history: list[Json] = field(
        default_factory=lambda: [
            call(1, "POST", f"/v2alpha1/{PLACE}/queuedResources"),
            call(2),
            call(3),
        ]
    )
    commands: list[Command] = field(
        default_factory=lambda: [Command("up", 0, 0, 2), Command("up", 0, 2, 3)]
    )
    strikes: list[Json] = field(default_factory=list)
    reported: frozenset[str] = frozenset()

    def evidence(self) -> Evidence:
        return Evidence(
            history=self.history,
            inventory=self.inventory,
            export=self.export,
            commands=self.commands,
            owners={OWNER: PREFIX},
            strikes=self.strikes,
            foreign=foreign(),
            reported=self.reported,
        )

    def resources(self) -> list[Json]:
        assert self.export is not None
        found: list[Json] = self.export["deployment"]["resources"]
        return found

    def queued(self) -> list[Json]:
        return self.inventory["tpu"]["queuedResources"]

    def ended_with(self, name: str, exit_code: int | None = 0) -> None:
        self.commands = [Command(name, exit_code, 0, 3)]
