"""How long `status --all` takes among many queued resources, beside gcloud's list of them.

Run with ``.venv/bin/python benchmarks/status.py [--runs 5] [--requests 1000] [--stacks 20]``. A
cloud of its own is filled through its store; the requests wait, so that no host is asked. Both
commands are run in turn, so that a busy machine slows both; the medians and their ratio are
printed.

    tpuflex status --all   beside   gcloud alpha compute tpus queued-resources list   aim: below 1

The one reads the stack files, and lists queued resources and nodes in the stacks' zone and once
over all zones; the other lists the queued resources of that zone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from embedded_cloud.core.clock import SystemClock
from embedded_cloud.core.store import Store
from embedded_cloud.services.tpu.capacity import Capacity, CapacityBook
from embedded_cloud.services.tpu.records import QueuedResource, QueuedState
from tpuflex.errors import CapacityError
from tpuflex.naming import ENDPOINT_NAME, LABEL_OWNER, Names

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
PROJECT, ZONE = "tpuflex-dev", "us-east5-a"


def fill(store: Store, stacks: list[str], requests: int) -> None:
    """Queue that many requests, of which the first belong to ``stacks``; none is granted."""
    clock = SystemClock()
    CapacityBook(store, clock).set(Capacity.from_json({"never": True}))
    for number in range(requests):
        names = Names("tpuflex", stacks[number], ENDPOINT_NAME) if number < len(stacks) else None
        name = f"tpuflex-request-{number:04}"
        node: dict[str, Any] = {
            "acceleratorType": "v6e-1",
            "runtimeVersion": "v2-alpha-tpuv6e",
            "labels": {LABEL_OWNER: names.owner if names is not None else f"other-{number}"},
            "networkConfig": {"network": "n", "subnetwork": "s"},
            "serviceAccount": {"email": f"hosts@{PROJECT}.iam.gserviceaccount.com"},
        }
        parent = f"projects/{PROJECT}/locations/{ZONE}"
        queued = QueuedResource(
            PROJECT,
            ZONE,
            name,
            spec={
                "provisioningModel": "FLEX_START",
                "runDuration": {"maxRunDuration": "14400s"},
                "tpu": {"nodeSpec": [{"parent": parent, "nodeId": name, "node": node}]},
            },
            created_at=clock.now(),
            since=clock.now(),
            state=QueuedState.WAITING,
        )
        store.put(QueuedResource.collection, queued.name, queued.to_json())


@contextmanager
def project(stacks: int, requests: int) -> Iterator[tuple[Path, dict[str, str]]]:
    """A project with that many stacks, and the environment in which its cloud is reached."""
    with tempfile.TemporaryDirectory(prefix="tpuflex-bench-") as directory:
        root = Path(directory)
        (root / "stacks").mkdir()
        (root / "Pulumi.yaml").write_text(
            "name: tpuflex\nruntime: python\nstackConfigDir: stacks\n"
        )
        names = [f"stack-{number:03}" for number in range(stacks)]
        for name in names:
            shutil.copy(ROOT / "stacks" / "Pulumi.dev.yaml", root / f"stacks/Pulumi.{name}.yaml")
        env = {**os.environ, "TPUFLEX_HOME": str(root / "home")}
        (root / "home").mkdir(mode=0o700)
        store = Store(root / "home" / "emulator" / "store.sqlite")
        fill(store, names, requests)
        store.close()
        tpuflex = [str(BIN / "tpuflex"), "-C", str(root)]
        try:
            run([*tpuflex, "emulator", "start", "--port", "0"], env)
            shown = run([*tpuflex, "--json", "emulator", "env"], env)
            variables = json.loads(shown).items()
            yield root, {**env, **{key: value for key, value in variables if value is not None}}
        finally:
            run([*tpuflex, "emulator", "stop"], env)


def run(command: list[str], env: dict[str, str], *codes: int) -> str:
    """What ``command`` prints, which has to end with 0 or one of ``codes``."""
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode not in (0, *codes):
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def seconds(
    command: list[str], env: dict[str, str], rows: str, expected: int, *codes: int
) -> float:
    """Wall time of ``command``, which has to print ``expected`` lines that begin with ``rows``."""
    began = time.perf_counter()
    shown = run(command, env, *codes)
    took = time.perf_counter() - began
    found = sum(line.startswith(rows) for line in shown.splitlines())
    if found != expected:
        sys.exit(f"{' '.join(command)} shows {found} of {expected}:\n{shown[:2000]}")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--stacks", type=int, default=20)
    asked = parser.parse_args()
    if shutil.which("gcloud") is None:
        sys.exit("gcloud is not on PATH")
    with project(asked.stacks, asked.requests) as (root, env):
        status_all = [str(BIN / "tpuflex"), "-C", str(root), "status", "--all"]
        gcloud_list = ["gcloud", "alpha", "compute", "tpus", "queued-resources", "list"]
        gcloud_list += [f"--zone={ZONE}", f"--project={PROJECT}"]
        times = list[tuple[float, float]]()
        for _ in range(asked.runs + 1):  # the first one warms up
            took = seconds(status_all, env, "stack-", asked.stacks, CapacityError.exit_code)
            times.append((took, seconds(gcloud_list, env, "tpuflex-request-", asked.requests)))
        took, reference = (statistics.median(column) for column in zip(*times[1:], strict=True))
    print(f"{asked.requests} queued resources, {asked.stacks} stacks; medians of {asked.runs} runs")
    print(f"tpuflex status --all          {took:6.2f} s")
    print(f"gcloud … queued-resources list{reference:6.2f} s")
    print(f"ratio                         {took / reference:6.2f}   aim: below 1")


if __name__ == "__main__":
    main()
