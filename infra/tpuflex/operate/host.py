"""What a host reports about itself in guest attributes, and the wait until it is READY."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from pulumi_plugin.printable import printable
from tpuflex.errors import BootError
from tpuflex.operate.kv_cache import KvCacheReport, kv_cache_report

#: Namespace of the guest attributes that the startup script writes.
NAMESPACE = "tpuflex"

#: The phases of a boot, in order. READY: a real completion was served on the host.
PHASES = (
    "config",
    "capacity",
    "secrets",
    "image",
    "weights",
    "container",
    "health",
    "completion",
    "READY",
)

READY = "READY"

#: Advice for a host that is only slow.
LATER = "`tpuflex up` keeps waiting, `tpuflex status` looks, `tpuflex down` ends it."

#: Advice for a host that gave up: it stays as it is, and is billed, until the next one is made.
AGAIN = (
    "When the cause is mended, get a new host: write another word at tpuflex:slice.rerun in the"
    " stack file\nand run `tpuflex up`, which keeps the weights; or `tpuflex down`, then `tpuflex"
    " up`.\nUntil then this one goes on being billed: `tpuflex down` ends it."
)

_POLL_SECONDS = 2.0

#: Seconds since the epoch at the end of the year 9999; no comparison with NaN is true.
_LAST_SECOND = 253_402_300_800.0


@dataclass(frozen=True, slots=True)
class HostReport:
    """A host's own account of its boot.

    Attributes:
        phase: the phase it is in, or empty before the first.
        detail: free text for people, such as how far a download has come.
        error: empty, or ``<code>: text`` when the boot failed.
        timeline: when each phase began, in seconds since the epoch.
        isolation: ``isolated``, or ``privileged: why``; empty before the container starts.
        weights: SHA-256 of the manifest of the weights that it has fetched and checked; empty
            before that.
        vllm_version: version that the server gives for itself; empty before it serves.
        kv_cache: the KV cache that the server has allocated; None before it serves.
    """

    phase: str = ""
    detail: str = ""
    error: str = ""
    timeline: Mapping[str, float] = field(default_factory=dict)
    isolation: str = ""
    weights: str = ""
    vllm_version: str = ""
    kv_cache: KvCacheReport | None = None

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
        """How long each phase took that has ended; READY has no length."""
        times = sorted(self.timeline.items(), key=lambda item: item[1])
        return {phase: round(end - begin, 1) for (phase, begin), (_, end) in pairwise(times)}

    def to_json(self) -> dict[str, object]:
        """The document under ``host`` that ``tpuflex status --json`` prints."""
        return {
            "phase": self.phase,
            "detail": self.detail,
            "error": self.error,
            "timeline": dict(self.timeline),
            "isolation": self.isolation,
            "weights": self.weights,
            "vllm_version": self.vllm_version,
            "kv_cache": None if self.kv_cache is None else self.kv_cache.to_json(),
        }


def host_report(attributes: Mapping[str, str]) -> HostReport | None:
    """Read the guest attributes of our namespace; None when the host has written none yet.

    Whoever is root on the host writes them, and they are shown while people answer questions:
    they are made printable here, and only an error may have several lines.
    """
    if not attributes:
        return None
    return HostReport(
        phase=printable(attributes.get("phase", "")),
        detail=printable(attributes.get("detail", "")),
        error=printable(attributes.get("error", ""), lines=True),
        timeline=_timeline(attributes.get("timeline", "")),
        isolation=printable(attributes.get("isolation", "")),
        weights=printable(attributes.get("weights", "")),
        vllm_version=printable(attributes.get("vllm_version", "")),
        kv_cache=kv_cache_report(attributes.get("kv_cache", "")),
    )


def await_ready(
    observe: Callable[[], HostReport | None],
    *,
    timeout: float,
    now: Callable[[], float],
    sleep: Callable[[float], None],
    changed: Callable[[HostReport], None],
    log: str,
) -> HostReport:
    """Wait until the host is READY, calling ``changed`` with each new phase or detail.

    Args:
        observe: asks for the host's present report.
        timeout: seconds to wait at most.
        now: a monotonic clock in seconds.
        sleep: waits that many seconds.
        changed: called with each report that differs from the last.
        log: where the host's log is, for the error.

    Raises:
        BootError: the host says that its boot failed, or the time is over.
    """
    deadline = now() + timeout
    last: HostReport | None = None
    while True:
        report = observe()
        if report is not None and report != last:
            last = report
            changed(report)
        if report is not None and report.error:
            raise BootError(
                f"The host failed in phase {report.phase or 'start'}: {report.reason}",
                hint=f"The host's log: {log}\n{AGAIN}",
            )
        if report is not None and report.ready:
            return report
        if now() >= deadline:
            raise BootError(_overdue(last, timeout), hint=f"The host's log: {log}\n{LATER}")
        sleep(_POLL_SECONDS)


def _overdue(last: HostReport | None, timeout: float) -> str:
    if last is None:
        return f"The host has reported nothing for {timeout:.0f} s since it was asked."
    detail = f" ({last.detail})" if last.detail else ""
    return f"The host is still in phase {last.phase}{detail} after {timeout:.0f} s."


def _timeline(text: str) -> dict[str, float]:
    """The timeline as written by the host; what cannot be read is left out, not guessed."""
    try:
        document = json.loads(text or "{}")
    except (ValueError, RecursionError):  # numbers of thousands of digits, lists in lists
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        printable(name): float(began)
        for name, began in document.items()
        if type(began) in (int, float) and abs(began) < _LAST_SECOND
    }
