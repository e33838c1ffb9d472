"""Where the emulator of a state directory listens: the record that it keeps while it runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tpuflex.files.trusted import write_private

ADDRESS_FILE = "address.json"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a running emulator is.

    Attributes:
        pid: its process.
        create_time: when that process started, epoch seconds: tells it from another
            process that got the same number later.
        port: port on 127.0.0.1.
        gcp_plugin_port: port of the stand-in for the gcp provider; ``None`` until it listens.
        started_at: RFC 3339.
        version: tpuflex version.
    """

    pid: int
    create_time: float
    port: int
    gcp_plugin_port: int | None
    started_at: str
    version: str

    @property
    def url(self) -> str:
        """Base address without trailing slash."""
        return f"http://127.0.0.1:{self.port}"


def write_address(state_dir: Path, address: Address) -> None:
    """Record the running emulator, in one step."""
    write_private(state_dir / ADDRESS_FILE, json.dumps(asdict(address)) + "\n")


def read_address(state_dir: Path) -> Address | None:
    """What ``state_dir`` records, running or not; ``None`` if it has no legible record."""
    try:
        document = json.loads((state_dir / ADDRESS_FILE).read_text("utf-8"))
        return Address(**document)
    except (OSError, ValueError, TypeError):
        return None
