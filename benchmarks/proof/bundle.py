"""The evidence of a run: files on this machine, and scrubbed copies that can be handed on."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpuflex.files.trusted import write_private


class Bundle:
    """The directory of a run.

    ``raw/`` is for the person who ran it: names, addresses, accounts. ``evidence/`` has the same
    without them. Neither holds a secret: keys and tokens are in headers and in Secret Manager's
    answers, which nobody records.

    Args:
        directory: the run's own; made for its owner alone.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.raw = directory / "raw"
        self.raw.mkdir(mode=0o700, parents=True)
        self._steps = 0

    @property
    def wire(self) -> Path:
        """Where requests and answers are recorded."""
        return self.raw / "wire.jsonl"

    def entries(self) -> list[dict[str, Any]]:
        """The recorded requests and answers."""
        if not self.wire.exists():
            return []
        return [json.loads(line) for line in self.wire.read_text("utf-8").splitlines()]

    def step(self, name: str, document: dict[str, Any]) -> None:
        """Add what a step did."""
        self._steps += 1
        self.write(f"{self._steps:02}-{name}.json", document)

    def write(self, name: str, document: object) -> None:
        """Add a JSON document."""
        text = json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n"
        write_private(self.raw / name, text)

    def scrubbed(self, scrub: Callable[[str], str]) -> Path:
        """Write the copies that can be handed on, and an archive of them; the archive."""
        evidence = self.directory / "evidence"
        shutil.rmtree(evidence, ignore_errors=True)
        evidence.mkdir(mode=0o700)
        for file in sorted(self.raw.iterdir()):
            (evidence / file.name).write_text(scrub(file.read_text("utf-8", errors="replace")))
        archive = self.directory / "evidence.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(evidence, arcname=f"evidence-{self.directory.name}")
        return archive
