"""What became of the compile cache of a host's server, as the host reports it."""

from __future__ import annotations

from dataclasses import dataclass

from pulumi_plugin.printable import printable
from tpuflex.host.reported import reported_count, reported_object


@dataclass(frozen=True, slots=True)
class CompileCacheReport:
    """The cache with which the server started, and what was kept of it.

    Attributes:
        source: ``host``, its own disk, or ``bucket``; empty where there was no cache.
        files: programs that were restored.
        bytes: their size.
        seconds: how long that took, beside the download of the weights.
        compiled: programs that the server compiled until READY; None before that.
        saved_bytes: size of what was saved in the bucket after READY; 0 where nothing was.
        saved_seconds: how long that took.
        problem: why a cache was ignored, or not kept; or empty.
    """

    source: str = ""
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    compiled: int | None = None
    saved_bytes: int = 0
    saved_seconds: float = 0.0
    problem: str = ""

    def to_json(self) -> dict[str, object]:
        """The document under ``compile_cache`` that ``tpuflex status --json`` prints."""
        return {
            "from": self.source,
            "files": self.files,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "compiled": self.compiled,
            "saved_bytes": self.saved_bytes,
            "saved_seconds": self.saved_seconds,
            "problem": self.problem,
        }

    def __str__(self) -> str:
        """For people, such as ``412 programs (1.2 GB) from the bucket in 3.4 s; 0 compiled``."""
        parts = []
        if self.source:
            where = "the bucket" if self.source == "bucket" else "the host's disk"
            size = _size(self.bytes)
            parts.append(f"{self.files} programs ({size}) from {where} in {self.seconds:.1f} s")
        if self.compiled is not None:
            parts.append(f"{self.compiled} compiled")
        if self.saved_bytes:
            parts.append(f"{_size(self.saved_bytes)} saved in {self.saved_seconds:.1f} s")
        text = "; ".join(parts) or "none yet"
        return f"{text}\n{self.problem}" if self.problem else text


def compile_cache_report(text: str) -> CompileCacheReport | None:
    """The report in the guest attribute ``compile_cache``; None where it is absent or cannot be
    read."""
    document = reported_object(text)
    if document is None:
        return None
    source, problem = document.get("from"), document.get("problem")
    return CompileCacheReport(
        source=source if source in ("host", "bucket") else "",
        files=reported_count(document.get("files")),
        bytes=reported_count(document.get("bytes")),
        seconds=reported_count(document.get("milliseconds")) / 1000,
        compiled=reported_count(document["compiled"]) if "compiled" in document else None,
        saved_bytes=reported_count(document.get("saved_bytes")),
        saved_seconds=reported_count(document.get("saved_milliseconds")) / 1000,
        problem=printable(problem) if isinstance(problem, str) else "",
    )


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{count / 1e6:.1f} MB"
