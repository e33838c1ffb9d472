"""Weights that do not fit into memory: they go to the host's disk, or nowhere."""

from __future__ import annotations

import json
import os
import random
import re
import threading
from pathlib import Path

from tests.startup.cloud import API_KEY, FILES, PREFIX, manifest_of
from tests.startup.host import StartupHost
from tests.startup.test_failure import failed

PART = 4096
PARTS = 12
SHARD = random.Random(41).randbytes(PARTS * PART)  # noqa: S311
#: A file of one part, and one of several.
MODEL = {"config.json": FILES["config.json"], "model.safetensors": SHARD}
#: Where the parts of the shard begin.
STARTS = [*range(0, len(SHARD), PART)]
ROOMY = 100_000_000_000


def space(host: StartupHost, *, memory: int = 50_000_000, disk: int = ROOMY) -> None:
    """Let so many bytes be free in memory, which has none by itself, and on the disk."""
    host.command(
        "df",
        "#!/bin/bash\n"
        f"case ${{!#}} in */memory) free={memory} ;; */weights) free={disk} ;; *) exit 1 ;; esac\n"
        "printf '   Avail\\n  %d\\n' $free\n",
    )


def big(host: StartupHost, model: dict[str, bytes] = MODEL) -> None:
    """A model in parts, and a memory that has no room for it."""
    host.cloud.objects.clear()
    host.cloud.put_weights(model, part_bytes=PART)
    space(host)


def on_disk(host: StartupHost) -> Path:
    """Where this host keeps weights on its disk."""
    return host.root / "var" / "lib" / "tpuflex" / "weights"


def weights_on_disk(host: StartupHost) -> dict[str, bytes]:
    """The files on the disk that a server would find."""
    (directory,) = on_disk(host).glob("*/weights/*")
    found = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def asked(host: StartupHost) -> list[int]:
    """Where the parts of the shard began that were asked for."""
    found = [asked for name, asked in host.cloud.ranges if name == "model.safetensors"]
    return sorted(int(each.removeprefix("bytes=").partition("-")[0]) for each in found)


def served(host: StartupHost, model: dict[str, bytes] = MODEL) -> None:
    """Run the script, which ends READY with a server whose model is the whole one on the disk."""
    run = host.run()
    assert run.status == 0, run.output
    assert host.cloud.phases()[-1] == "READY"
    assert weights_on_disk(host) == model
    (place,) = on_disk(host).glob("*/weights/*")
    words = host.docker_calls("run")[-1]
    assert f"type=bind\\,source={place}\\,target={place}\\,readonly" in words
    assert f"--model {place} " in words


def killed_half_way(host: StartupHost, parts: int) -> None:
    """Cut the power when so many parts of the shard have been asked for and the next one is."""
    host.cloud.config = host.config(weights=host.config()["weights"] | {"parallelism": 1})
    reached, go_on = threading.Event(), threading.Event()

    def hold(path: str) -> None:
        if path == "model.safetensors" and len(asked(host)) > parts:
            reached.set()
            go_on.wait(30)

    host.cloud.before_object = hold
    process = host.start()
    assert reached.wait(60)
    host.kill(process)
    go_on.set()
    host.cloud.before_object = lambda _path: None
    host.cloud.ranges.clear()


def test_what_memory_cannot_hold_goes_to_the_disk(host: StartupHost) -> None:
    """A model that is larger than memory is served from the disk, which the phases `capacity` and
    `weights` both say; directories there are root's alone, and no secret is there."""
    big(host)
    served(host)
    size = f"{sum(map(len, MODEL.values())) / 1e6:.0f} MB"
    details = [text for key, text in host.cloud.reports if key == "detail"]
    assert (
        f"{size} of weights do not fit into 50 MB of memory: they go to the disk, which is slower"
        in details
    )
    assert any(f"weights: 0 MB of {size} on the disk" in text for text in details)
    assert on_disk(host).stat().st_mode & 0o777 == 0o700
    assert host.files_with(API_KEY) == ["root/run/tpuflex/memory/secrets/api-key"]
    assert host.files_with("ya29.host") == ["root/run/tpuflex/memory/authorization"]
    assert not host.memory("weights").exists()


def test_the_kernel_has_no_memory_to_give(host: StartupHost) -> None:
    """What decides is also what the kernel could give, whatever the file system in memory says."""
    big(host)
    space(host, memory=ROOMY)
    meminfo = host.root / "proc" / "meminfo"
    meminfo.parent.mkdir(parents=True)
    meminfo.write_text("MemAvailable:    60000 kB\n")
    served(host)


def test_neither_has_room(host: StartupHost) -> None:
    """Where the disk has no room either, beside what the image takes, the boot ends in phase
    `capacity` with both figures and what to do, and nothing is fetched."""
    document = manifest_of(FILES)
    document["files"][0] |= {"size": 61_400_000_000, "parts": ["0" * 64] * 58}
    host.cloud.objects[f"{PREFIX}/MANIFEST.json"] = json.dumps(document).encode()
    space(host, disk=81_300_000_000)
    assert failed(host) == (
        f"capacity: {host.memory()} has 50 MB free, the weights need 61.4 GB and 67 MB to spare,"
        " and the disk has 81.3 GB free for 61.4 GB of weights and"
        " 20.0 GB to spare; take an accelerator type with larger hosts or a smaller model"
    )
    assert host.cloud.asked("safetensors") == 0
    assert list(on_disk(host).iterdir()) == []


def test_somebody_elses_directory_on_the_disk_is_not_used(
    host: StartupHost, tmp_path: Path
) -> None:
    """A link in place of the directory is refused, and nothing is written behind it."""
    big(host)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    on_disk(host).parent.mkdir(parents=True)
    on_disk(host).symlink_to(theirs)
    assert host.run().status == 1
    assert host.cloud.last("error").startswith(f"directory: {on_disk(host)} is a symbolic link")
    assert host.cloud.last("phase") == "capacity"
    assert list(theirs.iterdir()) == []


def test_a_disk_that_fills_up_is_named(host: StartupHost) -> None:
    """A disk that was free and is full before all is there: the error names it, not memory."""
    big(host)

    def fill(path: str) -> None:
        if path == "model.safetensors":
            for partial in on_disk(host).rglob("model.safetensors"):
                partial.unlink()
                partial.symlink_to("/dev/full")

    host.cloud.before_object = fill
    assert host.run().status == 1
    assert host.cloud.last("phase") == "weights"
    assert host.cloud.last("error") == (
        "capacity: no room left on the disk while fetching model.safetensors:"
        f" {on_disk(host)} has 100.0 GB free; something else on the host fills it"
    )
    assert host.docker_calls("run") == []


def test_a_killed_download_goes_on(host: StartupHost) -> None:
    """Killed in the middle, the next boot fetches only the parts that are not on the disk, though
    the image has taken the room that was kept for it."""
    big(host)
    killed_half_way(host, 5)
    host.root.joinpath("run").rename(host.directory / "gone")
    space(host, disk=100_000_000)
    served(host)
    assert asked(host) == STARTS[5:]


def test_weights_stay_on_the_disk_from_boot_to_boot(host: StartupHost) -> None:
    """In the same boot the place stays what it was, though memory has room by now. After a reboot
    whole weights are served without a byte from the bucket, however little room is left beside
    them. Bytes that changed between two boots, under the same size and time, are fetched again
    before anything is served, and no others. With room in memory, none are left on the disk."""
    big(host)
    served(host)
    space(host, memory=ROOMY)
    host.cloud.ranges.clear()
    served(host)
    assert host.cloud.ranges == []
    assert len(host.docker_calls("run")) == 1

    host.reboot()
    space(host, disk=1000)
    served(host)
    assert host.cloud.ranges == []
    assert "on the disk were there and checked" in host.cloud.details()

    (file,) = on_disk(host).glob("*/weights/*/model.safetensors")
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    changed = bytearray(file.read_bytes())
    changed[20] ^= 1
    file.write_bytes(changed)
    os.utime(file, ns=times)
    host.reboot()
    space(host)
    served(host)
    assert host.cloud.ranges == [("model.safetensors", f"bytes=0-{PART - 1}")]
    assert re.search(r" on the disk checked, \d+ MB fetched in [0-9.]+ s, ", host.cloud.details())

    host.reboot()
    space(host, memory=ROOMY)
    run = host.run()
    assert run.status == 0, run.output
    assert host.weights() == MODEL
    assert not on_disk(host).exists()
    assert f"--model {host.memory('weights')}/" in host.docker_calls("run")[-1]


def test_what_another_model_left_is_removed(host: StartupHost) -> None:
    """Another model's weights are removed from the disk before room is looked for, and from memory
    when this one's go to the disk."""
    host.cloud.put_weights(FILES)
    assert host.run().status == 0
    assert host.weights() == FILES
    left = on_disk(host) / ("ab" * 32) / "weights" / "0123456789abcdef"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"another model")
    big(host)
    space(host, memory=0)
    served(host)
    assert not left.exists()
    assert not host.memory("weights").exists()


def test_what_was_planted_between_two_boots_is_not_taken(host: StartupHost, tmp_path: Path) -> None:
    """Whoever had the disk may have left files that he can change by another name or that others
    may write to, a link to somewhere else, or a directory in a file's place: what the next boot
    serves is its own, and nothing outside is written or removed."""
    ways = ("another name", "open to others", "link", "directory")
    model = {**MODEL, **{f"{way[:4]}.safetensors": SHARD[: 2 * PART] for way in ways}}
    big(host, model)
    served(host, model)
    (directory,) = on_disk(host).glob("*/weights/*")
    shards = [directory / f"{way[:4]}.safetensors" for way in ways]
    named, opened, linked, replaced = shards
    outside = somebody_elses(tmp_path)
    (outside / "name").hardlink_to(named)
    opened.chmod(0o666)
    linked.unlink()
    linked.symlink_to(outside / "kept")
    replaced.unlink()
    (replaced / "within").mkdir(parents=True)
    host.reboot()
    served(host, model)
    host.close()

    for shard in shards:
        assert is_its_own(shard), shard
    assert (outside / "kept").read_bytes() == b"of somebody else"


def test_a_planted_link_to_all_weights_is_not_followed(host: StartupHost, tmp_path: Path) -> None:
    """The same of the directory above them: the link goes, and what it leads to stays."""
    big(host)
    served(host)
    (directory,) = on_disk(host).glob("*/weights/*")
    outside = somebody_elses(tmp_path)
    directory.parent.rename(outside / "weights")
    directory.parent.symlink_to(outside / "weights")
    host.reboot()
    served(host)
    host.close()

    assert is_its_own(directory / "model.safetensors")
    assert not directory.parent.is_symlink()
    assert (outside / "kept").read_bytes() == b"of somebody else"


def somebody_elses(tmp_path: Path) -> Path:
    """A directory beside the host's, with a file in it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"of somebody else")
    return outside


def is_its_own(shard: Path) -> bool:
    """Whether it is a file with one name that only its owner may write to."""
    found = shard.lstat()
    alone = (shard.is_file(), shard.is_symlink(), found.st_nlink) == (True, False, 1)
    return alone and not found.st_mode & 0o022


def test_a_server_keeps_its_weights_in_memory(host: StartupHost) -> None:
    """A second run in the same boot, when memory has become tight, finds nothing missing: it asks
    for no room, and leaves weights and server where they are."""
    host.cloud.objects.clear()
    host.cloud.put_weights(MODEL, part_bytes=PART)
    host.run()
    before = len(host.docker_calls("run")), host.cloud.asked("model.safetensors")
    space(host, memory=1000)
    run = host.run()
    host.close()

    assert run.status == 0, run.output
    assert (len(host.docker_calls("run")), host.cloud.asked("model.safetensors")) == before
    assert not on_disk(host).exists()
