"""Real JAX on the CPU, on two hosts: how many programs the second one compiles with the first one's
archive, and how long each start takes.

    python benchmarks/compile_cache.py    # in an environment with jax and jaxlib
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

#: What a server of the model would be: some programs, each compiled at its first call.
SERVER = """
import jax, jax.numpy as jnp
for size in (16, 32, 64, 128):
    step = jax.jit(lambda x, n=size: jnp.tanh(x @ x.T).sum() * n)
    step(jnp.ones((size, size))).block_until_ready()
"""
PARTS = {"image": "sha256:0", "accelerator": "cpu"}
SECRET = b"a key of the endpoint"


def start(programs: Path) -> tuple[int, float]:
    """Start the server with its cache in ``programs``: how many it compiled, and its seconds."""
    before = set(programs.rglob("*-cache"))
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(programs),
        # On a CPU nothing takes the second that JAX otherwise asks for.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    began = time.monotonic()
    subprocess.run([sys.executable, "-P", "-c", SERVER], env=environment, check=True)
    return len(set(programs.rglob("*-cache")) - before), time.monotonic() - began


def main() -> int:
    """Run both hosts and print one JSON object; 1 if the second one compiled anything."""
    host = _host_code()
    with tempfile.TemporaryDirectory() as directory:
        # The directory's path is part of JAX's keys, so it is the same on every host.
        programs, archive = Path(directory, "programs"), Path(directory, "archive.tar")
        programs.mkdir()
        compiled, cold = start(programs)
        document = host.pack(programs, archive, PARTS, SECRET, time.time())
        host.require_code(host.check(document, host.key_of(PARTS)), SECRET)
        host.unpack(archive, document, programs)
        again, warm = start(programs)
    result = {
        "compiled": compiled,
        "cold_seconds": round(cold, 2),
        "archive_bytes": document["size"],
        "compiled_on_the_next_host": again,
        "warm_seconds": round(warm, 2),
    }
    print(json.dumps(result))
    return 0 if compiled and not again else 1


def _host_code() -> ModuleType:
    """What the startup script runs; the environment with JAX has no tpuflex."""
    path = Path(__file__).parents[1] / "startup" / "compile_cache.py"
    spec = importlib.util.spec_from_file_location("compile_cache", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
