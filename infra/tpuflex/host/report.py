"""What a host reports about itself in guest attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from pulumi_plugin.printable import printable
from tpuflex.host.compile_cache import CompileCacheReport, compile_cache_report
from tpuflex.host.kv_cache import KvCacheReport, kv_cache_report
from tpuflex.host.reported import reported_object
from tpuflex.host.serving import LAST_SECOND, SERVING, Serving, ServingPhase, serving_report

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

#: Those that go on at once, in the phase `fetch`; on hosts of older scripts they are phases of
#: their own, one after the other.
AT_ONCE = ("image", "weights")


def together(seconds: Mapping[str, float], *, at_once: bool) -> float:
    """Seconds of all phases: of image and weights, where they began ``at_once``, the longer."""
    both = [seconds[name] for name in AT_ONCE if at_once and name in seconds]
    return sum(seconds.values()) - sum(both) + max(both, default=0.0)


@dataclass(frozen=True, slots=True)
class HostReport:
    """A host's own account of its boot.

    Attributes:
        phase: the phase it is in, or empty before the first.
        detail: free text for people, such as how far a download has come.
        error: empty, or ``<code>: text`` when the boot failed.
        timeline: when each phase began, in seconds since the epoch.
        ended: when each of those ended that go on at once; None on a host whose phases all follow
            one another.
        isolation: ``isolated``, or ``privileged: why``; empty before the container starts.
        weights: SHA-256 of the manifest of the weights that it has fetched and checked; empty
            before that.
        vllm_version: version that the server gives for itself; empty before it serves.
        kv_cache: the KV cache that the server has allocated; None before it serves.
        compile_cache: what became of the programs that were compiled before; None before the
            container starts, and where none are kept.
        serving: what it says from READY on; None before that, and on a host of an older script.
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
    ended: Mapping[str, float] | None = None
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
        """The error for people: without the frames of a traceback that the server printed."""
        kept: list[str] = []
        in_frame = False
        for line in self.error.splitlines():
            frame = line.lstrip().startswith('File "')
            if not frame and not in_frame and line.strip(" ^~"):
                kept.append(line.rstrip(" ^~"))
            in_frame = frame  # the line after a frame is its source text
        return "\n".join(kept)

    def seconds_by_phase(self) -> dict[str, float]:
        """How long each phase took that has ended, of which image and weights may overlap; READY
        has no length."""
        times = sorted(self.timeline.items(), key=lambda item: item[1])
        ends = {phase: end for (phase, _), (_, end) in pairwise(times)}
        if self.ended is not None:
            ends = {phase: end for phase, end in ends.items() if phase not in AT_ONCE} | {
                phase: self.ended[phase] for phase in AT_ONCE if phase in self.ended
            }
        return {
            phase: round(max(0.0, ends[phase] - begin), 1)
            for phase, begin in times
            if phase in ends
        }

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
            "ended": None if self.ended is None else dict(self.ended),
            "isolation": self.isolation,
            "weights": self.weights,
            "vllm_version": self.vllm_version,
            "kv_cache": None if self.kv_cache is None else self.kv_cache.to_json(),
            "compile_cache": self.compile_cache and self.compile_cache.to_json(),
            "serving": self.serving and self.serving.to_json(),
        }


def host_report(attributes: Mapping[str, str]) -> HostReport | None:
    """Read the guest attributes of our namespace; None when the host has written none yet.

    Whoever is root on the host writes them, and they are shown while people answer questions:
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
        ended=_timeline(attributes["ended"]) if "ended" in attributes else None,
        serving=serving,
    )


def _fields(attributes: Mapping[str, str]) -> Mapping[str, str]:
    """The fields of the report, all of which are in one attribute. Older scripts wrote an attribute
    per field; what they left beside it is out of date."""
    if REPORT not in attributes:
        return attributes
    document = reported_object(attributes[REPORT]) or {}
    return {name: text for name, text in document.items() if isinstance(text, str)}


def _timeline(text: str) -> dict[str, float]:
    """The timeline as written by the host; what cannot be read is left out, not guessed."""
    document = reported_object(text) or {}
    return {
        printable(name): float(began)
        for name, began in document.items()
        if type(began) in (int, float) and 0 <= began < LAST_SECOND
    }
