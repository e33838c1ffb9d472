"""What a host reports about itself in guest attributes, and the keys of its node's metadata that it
reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from pulumi_plugin.printable import marked, printable
from tpuflex.host.serving import (
    LAST_SECOND,
    SERVING,
    Serving,
    ServingPhase,
    reported_count,
    reported_object,
    serving_report,
)

#: Under this key every host finds what to serve (:mod:`tpuflex.boot.document`).
CONFIG_KEY = "tpuflex-config"

#: This key asks it to drain; its value says until when it is waited for (RFC 3339).
DRAIN_KEY = "tpuflex-drain"

#: This key asks it to start its server again: an id, and behind a blank the seconds that requests
#: in flight may take. It stays: the same one asks for nothing more.
RESTART_KEY = "tpuflex-restart"


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


_LONGEST_DTYPE = 32


@dataclass(frozen=True, slots=True)
class KvCacheReport:
    """What the server says of its KV cache once it serves: vLLM's metric
    ``vllm:cache_config_info`` (https://docs.vllm.ai/en/stable/design/metrics/).

    Attributes:
        block_size: tokens in a block.
        num_blocks: blocks that were allocated, vLLM's null block included.
        cache_dtype: vLLM's name of the type, such as ``auto`` (the model's own) or ``fp8``.
        tokens: tokens that the blocks hold.
    """

    block_size: int
    num_blocks: int
    cache_dtype: str
    tokens: int

    def to_json(self) -> dict[str, object]:
        """The document under ``kv_cache`` that ``tpuflex status --json`` prints."""
        return {
            "block_size": self.block_size,
            "num_blocks": self.num_blocks,
            "cache_dtype": self.cache_dtype,
            "tokens": self.tokens,
        }


def kv_cache_report(text: str) -> KvCacheReport | None:
    """The report in the guest attribute ``kv_cache``; None where it is absent or cannot be read."""
    document = reported_object(text)
    if document is None:
        return None
    block_size = reported_count(document.get("block_size"))
    num_blocks = reported_count(document.get("num_blocks"))
    if not block_size or not num_blocks:
        return None
    dtype = document.get("cache_dtype")
    return KvCacheReport(
        block_size,
        num_blocks,
        printable(dtype)[:_LONGEST_DTYPE] if isinstance(dtype, str) else "",
        reported_count(document.get("tokens")) or block_size * num_blocks,
    )


#: Namespace of the guest attributes that the startup script writes.
NAMESPACE = "tpuflex"

#: The guest attribute that the startup script writes: a JSON object of texts.
REPORT = "report"

#: The phases of a boot, in order, and the parts of `fetch`, which are in timelines instead of it.
#: READY: a real completion was served on the host.
PHASES = (
    "config",
    "capacity",
    "secrets",
    "fetch",
    "image",
    "weights",
    "container",
    "health",
    "completion",
    "warmup",
    "READY",
)

READY = "READY"

#: Those that go on at once, in the phase `fetch`.
AT_ONCE = ("image", "weights")


def wall_seconds(seconds: Mapping[str, float]) -> float:
    """Seconds of all phases: of image and weights, which go on at once, the longer."""
    both = [seconds[name] for name in AT_ONCE if name in seconds]
    return sum(seconds.values()) - sum(both) + max(both, default=0.0)


@dataclass(frozen=True, slots=True)
class HostReport:
    """A host's own account of its boot.

    Attributes:
        phase: the phase it is in, or empty before the first.
        detail: free text for people, such as how far a download has come.
        error: empty, or ``<code>: text`` when the boot failed.
        timeline: when each phase began, in seconds since the epoch.
        ended: when each of those ended that go on at once; empty before the first has.
        isolation: ``isolated``, or ``privileged: why``; empty before the container starts.
        weights: SHA-256 of the manifest of the weights that it has fetched and checked; empty
            before that.
        vllm_version: version that the server gives for itself; empty before it serves.
        kv_cache: the KV cache that the server has allocated; None before it serves.
        compile_cache: what became of the programs that were compiled before; None before the
            container starts, and where none are kept.
        serving: what it says from READY on; None before that.
    """

    phase: str = ""
    detail: str = ""
    error: str = ""
    timeline: Mapping[str, float] = field(default_factory=dict)
    isolation: str = ""
    weights: str = ""
    vllm_version: str = ""
    kv_cache: KvCacheReport | None = None
    compile_cache: CompileCacheReport | None = None
    ended: Mapping[str, float] = field(default_factory=dict)
    serving: Serving | None = None

    @property
    def serves(self) -> bool:
        """Whether it answers new requests now, as far as it says."""
        return self.ready and (self.serving is None or self.serving.phase is ServingPhase.SERVING)

    def serves_at(self, now: float) -> bool:
        """Whether it :attr:`serves`, and has said so not long before ``now``, in seconds since the
        epoch."""
        return self.serves and (self.serving is None or not self.serving.is_old(now))

    @property
    def ready(self) -> bool:
        """Whether the host has served a completion in its present boot."""
        return self.phase == READY and not self.error

    @property
    def reason(self) -> str:
        """The error for people: without the frames of a traceback that the server printed, and
        with a mark before each further line."""
        kept: list[str] = []
        in_frame = False
        for line in self.error.splitlines():
            frame = line.lstrip().startswith('File "')
            if not frame and not in_frame and line.strip(" ^~"):
                kept.append(line.rstrip(" ^~"))
            in_frame = frame  # the line after a frame is its source text
        return marked("\n".join(kept))

    def seconds_by_phase(self) -> dict[str, float]:
        """How long each phase took that has ended, of which image and weights may overlap; READY
        has no length."""
        times = sorted(self.timeline.items(), key=lambda item: item[1])
        ends = {phase: end for (phase, _), (_, end) in pairwise(times)}
        ends = {phase: end for phase, end in ends.items() if phase not in AT_ONCE} | {
            phase: self.ended[phase] for phase in AT_ONCE if phase in self.ended
        }
        return {
            phase: round(max(0.0, ends[phase] - begin), 1)
            for phase, begin in times
            if phase in ends
        }

    @property
    def began(self) -> float:
        """When its boot began, by which one is told from the next; 0 where it does not say."""
        return min(self.timeline.values(), default=0.0)

    @property
    def seconds(self) -> float:
        """From the first phase of the timeline to the last."""
        times = self.timeline.values()
        return max(times) - min(times) if times else 0.0

    def to_json(self) -> dict[str, object]:
        """The document under ``host`` that ``tpuflex status --json`` prints."""
        return {
            "phase": self.phase,
            "detail": self.detail,
            "error": self.error,
            "timeline": dict(self.timeline),
            "ended": dict(self.ended),
            "isolation": self.isolation,
            "weights": self.weights,
            "vllm_version": self.vllm_version,
            "kv_cache": None if self.kv_cache is None else self.kv_cache.to_json(),
            "compile_cache": self.compile_cache and self.compile_cache.to_json(),
            "serving": self.serving and self.serving.to_json(),
        }


def host_report(attributes: Mapping[str, str]) -> HostReport | None:
    """Read the guest attributes of our namespace; None when the host has written none yet.

    Anyone with root on the host can write them, and they are shown while people answer questions:
    they are made printable here, and only an error may have several lines.
    """
    if not attributes:
        return None
    serving = serving_report(attributes.get(SERVING, ""))
    attributes = _fields(attributes)
    return HostReport(
        phase=printable(attributes.get("phase", "")),
        detail=printable(attributes.get("detail", "")),
        error=printable(attributes.get("error", ""), lines=True),
        timeline=_timeline(attributes.get("timeline", "")),
        isolation=printable(attributes.get("isolation", "")),
        weights=printable(attributes.get("weights", "")),
        vllm_version=printable(attributes.get("vllm_version", "")),
        kv_cache=kv_cache_report(attributes.get("kv_cache", "")),
        compile_cache=compile_cache_report(attributes.get("compile_cache", "")),
        ended=_timeline(attributes.get("ended", "")),
        serving=serving,
    )


def _fields(attributes: Mapping[str, str]) -> Mapping[str, str]:
    """The fields of the report, all of which are in one attribute."""
    document = reported_object(attributes.get(REPORT, "")) or {}
    return {name: text for name, text in document.items() if isinstance(text, str)}


def _timeline(text: str) -> dict[str, float]:
    """The timeline as written by the host; what cannot be read is left out, not guessed."""
    document = reported_object(text) or {}
    return {
        printable(name): float(began)
        for name, began in document.items()
        if type(began) in (int, float) and 0 <= began < LAST_SECOND
    }
