"""Boot logs in the Logging of an embedded cloud, written as a host's script writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.cli.typing import NOON
from tpuflex.stack.connection import Connection


@dataclass
class WrittenBoot:
    """One boot of a host, which writes entries.

    Attributes:
        cloud: where to.
        began: when the boot began.
        generation: the run of the slice.
        worker: the host's number in it.
        labels: instead of those of the stack's endpoint.
        node: id of the node; by default ``n-g`` and the run.
    """

    cloud: Connection
    began: datetime = NOON
    generation: int = 1
    worker: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    node: str = ""
    timeline: dict[str, float] = field(default_factory=dict, init=False)
    ended: dict[str, float] = field(default_factory=dict, init=False)

    def write(
        self, phase: str, after: float, *lines: str, error: str = "", container: str = ""
    ) -> None:
        """An entry with the lines of a phase, ``after`` seconds from the boot's begin."""
        now = self.began + timedelta(seconds=after)
        self.timeline.setdefault(phase, now.timestamp())
        project = self.cloud.stack.settings.project
        severity = "ERROR" if error else "NOTICE" if phase == "READY" else "INFO"
        payload: dict[str, Any] = {
            "phase": phase,
            "error": error,
            "message": "".join(f"{line}\n" for line in lines),
            "container": container,
            "timeline": dict(self.timeline),
            "ended": dict(self.ended),
        }
        place = {"node_id": self.node or f"n-g{self.generation}", "location": "us-east5-a"}
        boot = str(round(self.began.timestamp() * 1000))
        self.cloud.logging.call(
            "POST",
            "/v2/entries:write",
            body={
                "logName": f"projects/{project}/logs/tpuflex-boot",
                "resource": {"type": "generic_node", "labels": {**place}},
                "labels": {
                    "tpuflex-project": self.cloud.stack.names.project,
                    "tpuflex-stack": self.cloud.stack.names.stack,
                    "tpuflex-name": self.cloud.stack.names.name,
                    "tpuflex-generation": str(self.generation),
                    "tpuflex-worker": str(self.worker),
                    "tpuflex-phase": phase,
                    "tpuflex-boot": boot,
                    **self.labels,
                },
                "entries": [
                    {
                        "timestamp": now.isoformat(),
                        "insertId": f"{boot}-{self.worker}-{phase}",
                        "severity": severity,
                        "jsonPayload": payload,
                    }
                ],
            },
        )
