"""Hosts whose server needs compiled programs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.startup.cloud import FILES
from tests.startup.host import StartupHost

PROGRAMS = {
    "jit_prefill-" + "ab" * 32 + "-cache": b"compiled prefill" * 100,
    "tp4_rank0/jit_decode-" + "cd" * 32 + "-cache": b"compiled decode" * 100,
}


def new_host(directory: Path, objects: dict[str, bytes] | None = None) -> StartupHost:
    """A fresh host whose bucket holds ``objects``, or weights only."""
    host = StartupHost(directory)
    host.cloud.put_weights(FILES)
    host.cloud.objects |= objects or {}
    host.needs(PROGRAMS)
    return host


def run(host: StartupHost, *, timeout: float = 60) -> str:
    """Run the script, which ends READY after ``timeout`` seconds at most; its output."""
    done = host.run(timeout=timeout)
    assert done.status == 0, done.output
    assert host.cloud.phases()[-1] == "READY"
    return done.output


def told(host: StartupHost) -> dict[str, object]:
    """What the host last said of its compile cache, without times."""
    text = host.cloud.last("compile_cache")
    report: dict[str, object] = json.loads(text) if text else {}
    return {key: value for key, value in report.items() if "milliseconds" not in key}


def cache_objects(host: StartupHost) -> dict[str, bytes]:
    """What the bucket holds of compiled programs."""
    return {k: v for k, v in host.cloud.objects.items() if k.startswith("compile-cache/")}
