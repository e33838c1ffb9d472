"""The download of the weights: ranges of a file side by side, checked as they arrive."""

from __future__ import annotations

import os
import random
import threading

import pytest

from tests.startup.cloud import FILES, PREFIX
from tests.startup.host import StartupHost
from tests.startup.test_failure import failed

PART = 4096
#: A model of one file, of 24 whole parts and one that is not.
SHARD = random.Random(9).randbytes(24 * PART + 1000)  # noqa: S311
ONE = {"config.json": FILES["config.json"], "model.safetensors": SHARD}
STARTS = list(range(0, len(SHARD), PART))


def one_shard(host: StartupHost) -> None:
    """Have the bucket hold a model of one shard, and nothing else."""
    host.cloud.objects.clear()
    host.cloud.put_weights(ONE, part_bytes=PART)


def asked(host: StartupHost) -> list[int]:
    """Where the ranges of the shard began that were asked for."""
    found = [asked for name, asked in host.cloud.ranges if name == "model.safetensors"]
    return [int(each.removeprefix("bytes=").partition("-")[0]) for each in found]


def hold_after(host: StartupHost, count: int) -> tuple[threading.Event, threading.Event]:
    """Hold ranges of the shard back from the one of this number on: set when one is held back, and
    to be set when they may go on."""
    reached, go_on = threading.Event(), threading.Event()

    def hold(path: str) -> None:
        if path == "model.safetensors" and len(asked(host)) >= count:
            reached.set()
            go_on.wait(30)

    host.cloud.ranges.clear()
    host.cloud.before_object = hold
    return reached, go_on


def test_one_shard_is_fetched_in_ranges_at_once(host: StartupHost) -> None:
    """A model of one file is asked for in several ranges side by side, each of them once, and
    no byte of it is read again once it has arrived."""
    one_shard(host)
    together = threading.Barrier(3)

    def three_at_once(path: str) -> None:
        if path == "model.safetensors" and len(asked(host)) <= 3:
            together.wait(timeout=30)

    host.cloud.before_object = three_at_once
    run = host.run()
    assert run.status == 0, run.output
    assert not together.broken
    assert sorted(asked(host)) == STARTS
    (directory,) = host.memory("weights").iterdir()
    if not os.statvfs(directory).f_flag & os.ST_NOATIME:
        found = (directory / "model.safetensors").stat()
        # A reader would have left its time (relatime of mount(8)).
        assert found.st_atime_ns <= found.st_mtime_ns
    assert host.weights() == ONE
    assert not list(host.memory("partial").rglob("*.safetensors"))
    assert not list(host.memory("ledgers").rglob("*.safetensors"))


def test_killed_at_random_parts_it_goes_on(host: StartupHost) -> None:
    """Killed at random parts, it fetches no part again that was checked, and trusts no other:
    whatever lies in their place is fetched."""
    one_shard(host)
    chance = random.Random(20261122)  # noqa: S311
    for _ in range(3):
        reached, gone = hold_after(host, chance.randint(2, 6))
        process = host.start()
        assert reached.wait(60)
        host.kill(process)
        gone.set()
        (ledger,) = host.memory("ledgers").rglob("model.safetensors")
        checked = [int(line.split()[0]) for line in ledger.read_text().splitlines()[1:]]
        (partial,) = host.memory("partial").rglob("model.safetensors")
        with partial.open("r+b") as file:
            for number in {*range(len(STARTS))} - {*checked}:
                file.seek(STARTS[number])
                file.write(b"?" * min(PART, len(SHARD) - STARTS[number]))
    host.cloud.before_object = lambda _path: None
    host.cloud.ranges.clear()
    run = host.run()
    assert run.status == 0, run.output
    assert checked
    # A set: the server may hear a request of the killed run only now, beside the new run's own.
    assert {*asked(host)} == {at for n, at in enumerate(STARTS) if n not in checked}
    assert host.weights() == ONE


def test_a_file_exchanged_between_two_runs_is_fetched_whole(host: StartupHost) -> None:
    """A ledger speaks of one file: another one in its place is not trusted."""
    one_shard(host)
    host.cloud.answers["config.json"] = [404]
    host.cloud.objects[f"{PREFIX}/model.safetensors"] = SHARD[:-1] + b"?"
    failed(host)
    (partial,) = host.memory("partial").rglob("model.safetensors")
    partial.rename(partial.with_name("old"))
    partial.write_bytes(bytes(len(SHARD)))
    partial.with_name("old").unlink()
    host.cloud.objects[f"{PREFIX}/model.safetensors"] = SHARD
    host.cloud.ranges.clear()
    run = host.run()
    assert run.status == 0, run.output
    assert sorted(asked(host)) == STARTS
    assert host.weights() == ONE


def test_only_the_part_that_was_wrong_is_fetched_again(host: StartupHost) -> None:
    """After a push that mends a part, the parts that were right are not fetched again."""
    one_shard(host)
    altered = SHARD[: 5 * PART] + b"?" + SHARD[5 * PART + 1 :]
    host.cloud.objects[f"{PREFIX}/model.safetensors"] = altered
    assert failed(host).startswith("weights-checksum: model.safetensors in the bucket is cut short")
    assert asked(host).count(5 * PART) == 2
    assert host.docker_calls("run") == []
    fetched = {*asked(host)}
    host.cloud.objects[f"{PREFIX}/model.safetensors"] = SHARD
    host.cloud.ranges.clear()
    run = host.run()
    assert run.status == 0, run.output
    assert {*asked(host)} == {*STARTS} - fetched | {5 * PART}
    assert host.weights() == ONE


@pytest.mark.parametrize(
    ("sent", "chunked"), [(2 * PART, False), (PART + 1, True), (PART - 1, False)]
)
def test_a_range_with_another_length_touches_no_other_part(
    host: StartupHost, sent: int, chunked: bool
) -> None:
    """An answer for a range that has more or fewer bytes than it says is fetched again, and
    what follows in the file, checked already, stays."""
    one_shard(host)
    wrong, next_is_checked = [b"E" * sent], threading.Event()

    def altered(asked: str, body: bytes) -> bytes:
        if asked == f"bytes={2 * PART}-{3 * PART - 1}":
            next_is_checked.set()
        if not wrong or asked != f"bytes=0-{PART - 1}":
            return body
        assert next_is_checked.wait(30)
        return wrong.pop()

    host.cloud.altered, host.cloud.chunked = altered, chunked
    host.cloud.config = host.config(weights=host.config()["weights"] | {"parallelism": 2})
    run = host.run()
    assert run.status == 0, run.output
    assert wrong == []
    assert host.weights() == ONE


@pytest.mark.parametrize(
    ("fetched", "milliseconds", "warns"),
    [
        (60_000_000_000, 60_000, True),
        (60_000_000_000, 19_000, False),
        (900_000_000, 60_000, False),
    ],
)
def test_a_slow_network_is_said(
    host: StartupHost, fetched: int, milliseconds: int, warns: bool
) -> None:
    """Below the 25 Gbps that a TPU host's network can do, the report says so; a few bytes say
    nothing of it."""
    said = host.functions(f"SETTINGS[weights.expected_gbps]=25\nslow {fetched} {milliseconds}")
    warning = "; warning: slower than the 25 Gbps that such a host can do"
    assert said == (warning if warns else "")
