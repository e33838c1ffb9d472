"""Real JAX on the CPU, on two hosts: how many programs the second one compiles with the first one's
archive, and how much longer its start takes than one that has its programs on its disk already.

    .tpuflex/checks/jax/bin/python benchmarks/compile_cache.py [--more-mb 1000]

`make acceptance AREA=startup` sets that environment up.
"""

from __future__ import annotations

import argparse
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
#: Seconds that a fresh host with the archive may take longer than one with the programs.
MOST_LONGER_S = 10.0
#: Size of one of the files that make the archive as large as that of a large model.
_MORE_BYTES = 4 * 2**20


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
    """Run both hosts and print one JSON object; 1 if the second one compiled anything, or took too
    long."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--more-mb", type=int, default=0, help="to put beside the programs")
    more = parser.parse_args().more_mb
    host = _host_code()
    with tempfile.TemporaryDirectory() as directory:
        # The directory's path is part of JAX's keys, so it is the same on every host.
        programs, archive = Path(directory, "programs"), Path(directory, "archive.tar")
        programs.mkdir()
        compiled, cold = start(programs)
        reloaded, loaded = start(programs)
        for number in range(more * 10**6 // _MORE_BYTES):
            (programs / f"more-{number}").write_bytes(os.urandom(_MORE_BYTES))
        began = time.monotonic()
        document = host.pack(programs, archive, PARTS, SECRET, time.time())
        packed = time.monotonic() - began
        began = time.monotonic()
        host.require_code(host.check(document, host.key_of(PARTS)), SECRET)
        host.unpack(archive, document, programs)
        restored = time.monotonic() - began
        again, warm = start(programs)
    longer = restored + warm - loaded
    result = {
        "compiled": compiled,
        "cold_seconds": round(cold, 2),
        "archive_bytes": document["size"],
        "packed_seconds": round(packed, 2),
        "loaded_seconds": round(loaded, 2),
        "compiled_on_the_next_host": again,
        "restored_seconds": round(restored, 2),
        "warm_seconds": round(warm, 2),
        "longer_than_load_alone_seconds": round(longer, 2),
    }
    print(json.dumps(result))
    return 0 if compiled and not reloaded + again and longer <= MOST_LONGER_S else 1


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
