"""How fast a host gets its weights: the startup script's way beside plain copies of the bytes.

Run with ``.venv/bin/python benchmarks/boot.py [--size 4G] [--runs 3]``. The embedded cloud keeps a
set of weights of that size, once as one shard and once as 32; the startup script's phase
``weights`` brings it into a directory in memory, alternately with

    cp                   of the same bytes, from memory to the same memory: no network, no hash
    curl                 of the same objects, one after the other: what one stream gives, no hash
    curl, 4 at a time    of ranges of them: what the embedded cloud gives, no hash
    gcloud storage cp    where gcloud is there: checks CRC32C

The medians, Gbit/s, seconds of processors (without the embedded cloud's own) and the ratio to ours
are printed (above 1: ours is faster); nothing is asserted. On a busy machine the processors'
seconds say more. Where little memory is free, fewer bytes are used.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from embedded_cloud.server import EmbeddedCloud
from tpuflex.boot.metadata import startup_script
from tpuflex.catalog.weight_formats import allowed_patterns
from tpuflex.weights.bucket import weights_bucket
from tpuflex.weights.checkpoint_directory import LocalModel, directory_sizes
from tpuflex.weights.push import Push

BUCKET, PROJECT = "boot-benchmark", "tpuflex-embedded"
SHARDS = (1, 32)
#: Streams of the curl that shows what the embedded cloud gives.
STREAMS = 4
MEMORY = Path("/dev/shm")  # noqa: S108 - memory is what is measured
#: Ends the script, so that it can be given something else to do.
_MAIN = 'main "$@"'
_DRIVER = r"""
report() { :; }
publish() { :; }
fail() { printf '%s: %s\n' "$1" "$2" >&2; exit 1; }
authorize() { :; }
export -f authorize
mkdir -p "$STATE_DIR" "$MEMORY_DIR"
printf 'Authorization: Bearer %s\n' "$TOKEN" >"$AUTHORIZATION"
SETTINGS[weights.id]=set SETTINGS[weights.bucket]=$BUCKET SETTINGS[weights.prefix]=$PREFIX
SETTINGS[weights.manifest]=MANIFEST.json SETTINGS[weights.manifest_sha256]=$SHA256
SETTINGS[weights.manifest_url]="b/$BUCKET/o/$PREFIX%2FMANIFEST.json?alt=media"
SETTINGS[weights.parallelism]=$PROCESSES SETTINGS[weights.expected_gbps]=0
SETTINGS[timeouts.ready_s]=60 SETTINGS[commands.weights]=none
formats=($FORMATS)
SETTINGS[weights.formats.count]=${#formats[@]}
for index in "${!formats[@]}"; do SETTINGS[weights.formats.$index]=${formats[index]}; done
fetch_weights
"""


class Took(NamedTuple):
    """Seconds on the clock, and of processors."""

    seconds: float
    busy: float


def processor_seconds() -> float:
    """Of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Pushed:
    """A set of weights in the embedded cloud, and on the disk."""

    source: Path
    prefix: str
    sha256: str
    names: tuple[str, ...]


def make(directory: Path, size: int, shards: int) -> None:
    """A checkpoint of ``size`` bytes that nobody can load."""
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    block = os.urandom(1 << 20)
    for shard in range(shards):
        with (directory / f"model-{shard:02}.safetensors").open("wb") as file:
            for number in range(max(1, size // shards >> 20)):
                file.write(number.to_bytes(8, "big") + block[8:])


def push(cloud: EmbeddedCloud, source: Path, prefix: str) -> Pushed:
    """``source`` in the embedded cloud."""
    bucket = weights_bucket(BUCKET, project=PROJECT, environ=cloud.environ())
    model = LocalModel(source, tuple(directory_sizes(source)))
    report = bucket.push(Push(model=model, prefix=prefix, name="m", revision="1"))
    names = tuple(file.path for file in report.manifest.files)
    return Pushed(source, prefix, report.manifest.sha256, names)


class Ways:
    """The ways of a set of weights into memory, each as a function that says what it took.

    Args:
        cloud: the embedded cloud.
        pushed: the set.
        scratch: a directory in memory.
        processes: how many parts our own way fetches at a time.
    """

    def __init__(self, cloud: EmbeddedCloud, pushed: Pushed, scratch: Path, processes: int) -> None:
        self._cloud, self._pushed, self._scratch = cloud, pushed, scratch
        self._processes = processes

    def all(self) -> dict[str, Callable[[], Took]]:
        """Every way that is there, by name, ours first."""
        ways = {
            "ours": self.ours,
            "cp": self.cp,
            "curl": self.curl,
            "curl, 4 at a time": self.curls,
        }
        if shutil.which("gcloud"):
            ways["gcloud storage cp"] = self.gcloud
        return ways

    def ours(self) -> Took:
        """The phase `weights` of the startup script."""
        script = self._scratch.with_name("script")
        script.write_text(startup_script().rstrip().removesuffix(_MAIN) + _DRIVER)
        return self._timed(
            ["/bin/bash", str(script)],
            PATH=f"{Path(sys.executable).parent}:{os.defpath}",
            TPUFLEX_ROOT=str(self._scratch),
            STORAGE_EMULATOR_HOST=self._cloud.url,
            TOKEN=self._cloud.token,
            BUCKET=BUCKET,
            PREFIX=self._pushed.prefix,
            SHA256=self._pushed.sha256,
            FORMATS=" ".join(f"'{each}'" for each in allowed_patterns()).replace("'", ""),
            PROCESSES=str(self._processes),
        )

    def cp(self) -> Took:
        """`cp` from memory to the same memory."""
        return self._timed(["cp", "--recursive", str(self._pushed.source), str(self._scratch)])

    def curl(self) -> Took:
        """`curl` of the objects, one after the other."""
        return self._timed(["curl", *self._curl_options(), *self._objects()])

    def curls(self) -> Took:
        """`curl` of ranges of the objects, several at a time."""
        words = []
        for name in self._pushed.names:
            size = (self._pushed.source / name).stat().st_size
            step = max(1, -(-size // STREAMS))
            for start in range(0, size, step):
                end = min(start + step, size) - 1
                words.append(f"{start}-{end} {self._scratch}/{name}.{start} {self._url(name)}")
        options = " ".join(f"'{word}'" for word in self._curl_options())
        script = (
            f"xargs --max-procs={STREAMS} --max-args=3 bash -c"
            f""" "curl {options} --range \\$0 --output \\$1 \\$2" """
        )
        return self._timed(["bash", "-c", script], said="\n".join(words))

    def gcloud(self) -> Took:
        """`gcloud storage cp`, as it comes."""
        place = f"gs://{BUCKET}/{self._pushed.prefix}/*"
        return self._timed(
            ["gcloud", "storage", "cp", "--quiet", place, str(self._scratch)],
            **self._cloud.environ(),
        )

    def _curl_options(self) -> list[str]:
        header = self._scratch.with_name("header")
        header.write_text(f"Authorization: Bearer {self._cloud.token}\n")
        return ["--silent", "--show-error", "--fail", "--header", f"@{header}"]

    def _objects(self) -> list[str]:
        words = []
        for name in self._pushed.names:
            words += ["--output", str(self._scratch / name), self._url(name)]
        return words

    def _url(self, name: str) -> str:
        return f"{self._cloud.url}/storage/v1/b/{BUCKET}/o/{self._pushed.prefix}%2F{name}?alt=media"

    def _timed(self, command: list[str], said: str = "", **environment: str) -> Took:
        """What ``command`` took, which must succeed, into an empty directory."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        # No pipe: a progress report that is asleep would hold its end open.
        with tempfile.TemporaryFile("w+") as output:
            began, busy = time.perf_counter(), processor_seconds()
            done = subprocess.run(
                command,
                env={**os.environ, **environment},
                input=said,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=1800,
            )
            took = Took(time.perf_counter() - began, processor_seconds() - busy)
            shutil.rmtree(self._scratch)
            if done.returncode != 0:
                output.seek(0)
                sys.exit(f"{command[0]} ended with {done.returncode}:\n{output.read()[-3000:]}")
        return took


def measure(ways: dict[str, Callable[[], Took]], runs: int) -> dict[str, Took]:
    """The medians of each way, run alternately."""
    times = [{name: way() for name, way in ways.items()} for _ in range(runs)]
    return {
        name: Took(*(statistics.median(each[name][n] for each in times) for n in (0, 1)))
        for name in ways
    }


def affordable(size: int) -> int:
    """``size``, or what memory is free for: a source, a copy, and the embedded cloud's in the page
    cache."""
    with Path("/proc/meminfo").open(encoding="ascii") as file:
        fields = dict(line.split(":") for line in file)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    free = min(free, shutil.disk_usage(MEMORY).free)
    return min(size, max(1 << 25, free // 4))


def show(shards: int, size: int, medians: dict[str, Took]) -> None:
    """Print a table."""
    print(f"\n{size / 1e9:.2f} GB in {shards} shard{'s'[: shards > 1]}")
    ours = medians["ours"].seconds
    for name, (seconds, busy) in medians.items():
        ratio = "" if name == "ours" else f"{seconds / ours:8.2f}x"
        print(
            f"  {name:20}{seconds:8.2f} s{size * 8 / seconds / 1e9:8.2f} Gbps"
            f"{busy:8.2f} s of processors{ratio}"
        )


def byte_count(text: str) -> int:
    """Bytes in words such as 512M or 4G."""
    units = {"M": 10**6, "G": 10**9}
    return int(float(text[:-1]) * units[text[-1].upper()])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=byte_count, default=byte_count("4G"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--without", action="append", default=[], help="a way not to measure")
    options = parser.parse_args()
    size = affordable(options.size)
    with (
        tempfile.TemporaryDirectory(prefix="tpuflex-boot-", dir=MEMORY) as memory,
        tempfile.TemporaryDirectory(prefix="tpuflex-boot-") as state,
        EmbeddedCloud(Path(state)) as cloud,
    ):
        environ = cloud.environ()
        from google.cloud import storage

        os.environ["STORAGE_EMULATOR_HOST"] = environ["STORAGE_EMULATOR_HOST"]
        storage.Client(project=PROJECT).create_bucket(BUCKET)
        for shards in SHARDS:
            source = Path(memory) / "source"
            make(source, size, shards)
            pushed = push(cloud, source, f"set-{shards}")
            ways = Ways(cloud, pushed, Path(memory) / "scratch", options.processes).all()
            wanted = {name: way for name, way in ways.items() if name not in options.without}
            show(shards, size, measure(wanted, options.runs))
            shutil.rmtree(source)


if __name__ == "__main__":
    main()
