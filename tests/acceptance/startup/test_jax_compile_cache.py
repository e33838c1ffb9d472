"""M6 with real programs: JAX on the CPU is what the server runs. It has an
environment of its own."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.environments import environment
from tests.startup.cached import cache_objects, run, told
from tests.startup.cloud import FILES, PROGRAMS_KEY
from tests.startup.host import StartupHost
from tpuflex.startup.compile_cache import pack, secret_of, text_of, unpack

#: A server whose model has some programs, each compiled at its first call, unless JAX finds it;
#: what JAX says of that goes into a file.
_SERVER = """
import collections, json, sys
import jax, jax.numpy as jnp

seen = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: seen.update([event.rpartition("/")[2]]))
for size in (16, 32, 64):
    step = jax.jit(lambda x, n=size: jnp.tanh(x @ x.T).sum() * n)
    step(jnp.ones((size, size))).block_until_ready()
counted = {"compiled": seen["cache_misses"], "loaded": seen["cache_hits"]}
open(sys.argv[1], "w").write(json.dumps(counted))
"""
# On a CPU nothing takes the second that JAX otherwise asks for.
_START = """#!/bin/bash
export JAX_PLATFORMS=cpu JAX_COMPILATION_CACHE_DIR=$1
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
exec {python} -P {directory}/server.py {directory}/counted
"""


@dataclass(frozen=True)
class Boot:
    """A boot of a fresh host to READY.

    Attributes:
        compiled: programs that JAX compiled.
        loaded: programs that it found in its cache.
        told: what the host reports of the compile cache.
        objects: what the bucket then holds of compiled programs.
        warnings: what JAX said on standard error.
    """

    compiled: int
    loaded: int
    told: dict[str, object]
    objects: dict[str, bytes]
    warnings: str


def boot(directory: Path, objects: dict[str, bytes]) -> Boot:
    """Boot a fresh host in ``directory`` with these compiled programs in its bucket. The path of a
    cache is part of JAX's keys, so that all hosts of a test are in the same place."""
    shutil.rmtree(directory, ignore_errors=True)
    host = StartupHost(directory)
    host.cloud.put_weights(FILES)
    host.cloud.objects |= objects
    (directory / "server.py").write_text(_SERVER)
    python = environment("jax") / "python"
    server = directory / "server"
    server.write_text(_START.format(python=python, directory=directory))
    server.chmod(0o755)
    run(host, timeout=150)
    host.close()
    counted = json.loads((directory / "counted").read_text())
    warnings = (directory / "server.log").read_text()
    return Boot(**counted, told=told(host), objects=cache_objects(host), warnings=warnings)


def exchanged(objects: dict[str, bytes], directory: Path) -> dict[str, bytes]:
    """``objects`` with the code of the endpoint's own key, but other programs: one cut in half, as
    of a server that was writing it, one of other bytes, and all others under the keys of another
    JAX."""
    (name,) = [each.removesuffix(".json") for each in objects if each.endswith(".json")]
    document = json.loads(objects[f"{name}.json"])
    programs = directory / "programs"
    (directory / "before.tar").write_bytes(objects[f"{name}.tar"])
    unpack(directory / "before.tar", document, programs)
    cut, noise, *others = sorted(programs.rglob("*-cache"))
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    noise.write_bytes(b"\x9c" * noise.stat().st_size)
    for path in others:
        function, _, _ = path.name.rpartition("-cache")[0].rpartition("-")
        path.rename(path.with_name(f"{function}-{'0' * 64}-cache"))
    secret = secret_of(PROGRAMS_KEY.encode(), document["key"])
    made = pack(programs, directory / "after.tar", document["parts"], secret, 0.0)
    after = {"json": text_of(made), "tar": (directory / "after.tar").read_bytes()}
    return {f"{name}.{extension}": content for extension, content in after.items()}


@pytest.mark.timeout(500)
def test_real_programs(tmp_path: Path) -> None:
    """The second host of an endpoint is fresh, restores what the first one has compiled, and JAX
    compiles 0 programs. Programs that JAX cannot read, or that another JAX wrote, under a key that
    should not have them: it compiles its own, and the host is READY all the same."""
    first = boot(tmp_path / "host", {})
    second = boot(tmp_path / "host", first.objects)
    third = boot(tmp_path / "host", exchanged(first.objects, tmp_path))

    assert first.compiled > 2
    assert (first.loaded, first.told["compiled"]) == (0, first.compiled)
    assert (second.compiled, second.loaded) == (0, first.compiled), second.warnings
    assert (second.told["from"], second.told["compiled"]) == ("bucket", 0)
    assert second.objects == first.objects
    assert (third.compiled, third.loaded) == (first.compiled, 0), third.warnings
    assert third.told["from"] == "bucket"
    assert "Error reading persistent compilation cache entry" in third.warnings
