"""Whoever writes the compile cache runs code on the chip. What is not whole, not ours or no
plain file is refused, by name."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpuflex.startup import compile_cache
from tpuflex.startup.compile_cache import (
    RefusedError,
    check,
    key_of,
    key_parts,
    newest,
    pack,
    require_code,
    signed,
    unpack,
)

CONFIG: dict[str, Any] = {
    "container": {"image": "r/vllm@sha256:" + "ab" * 32, "name": "vllm", "env": {"A": "1"}},
    "serving": {"args": ["--dtype", "bfloat16"], "model_name": "m", "port": 8000},
    "weights": {"manifest_sha256": "5a" * 32, "bucket": "b"},
}
TPU_ENV = "ACCELERATOR_TYPE: 'v6e-4'\nTOPOLOGY: '2x2'\nNODE_ID: 'n-1'\n"
PARTS = key_parts(CONFIG, TPU_ENV, "0/1")
SECRET = b"derived from what signs the endpoint's programs"


@pytest.fixture
def packed(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """An archive of two programs, and its document."""
    programs = tmp_path / "programs"
    (programs / "rank0").mkdir(parents=True)
    (programs / "a-cache").write_bytes(b"one")
    (programs / "rank0" / ("b" * 200)).write_bytes(b"two!")
    return tmp_path / "a.tar", pack(programs, tmp_path / "a.tar", PARTS, SECRET, 0.0)


def test_what_was_packed_comes_back(packed: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """The same files, their names of any length, for root alone."""
    archive, document = packed
    require_code(check(json.loads(json.dumps(document)), key_of(PARTS)), SECRET)
    paths = unpack(archive, document, tmp_path / "out")
    assert paths == ["a-cache", "rank0/" + "b" * 200]
    assert (tmp_path / "out" / "a-cache").read_bytes() == b"one"
    assert (tmp_path / "out" / "a-cache").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("container.image", "r/vllm@sha256:" + "cd" * 32),
        ("container.env", {"A": "2"}),
        ("serving.args", ["--dtype", "float32"]),
        ("weights.manifest_sha256", "6b" * 32),
    ],
)
def test_what_shapes_programs_is_in_the_key(path: str, value: object) -> None:
    """Another image, variable, argument or model is another cache."""
    part, name = path.split(".")
    assert key_of(key_parts({**CONFIG, part: CONFIG[part] | {name: value}}, TPU_ENV, "0/1")) != (
        key_of(PARTS)
    )
    assert key_of(key_parts(CONFIG, TPU_ENV.replace("v6e-4", "v6e-8"), "0/1")) != key_of(PARTS)
    assert key_of(key_parts(CONFIG, TPU_ENV.replace("2x2", "1x4"), "0/1")) != key_of(PARTS)
    assert key_of(key_parts(CONFIG, TPU_ENV, "1/2")) != key_of(PARTS)


@pytest.mark.parametrize(
    ("part", "name"), [("container", "name"), ("serving", "model_name"), ("serving", "port")]
)
def test_names_and_ports_are_not_in_the_key(part: str, name: str) -> None:
    """Nor is the registry that the image came from, or the node."""
    changed = {**CONFIG, part: CONFIG[part] | {name: "other"}}
    moved = changed["container"]["image"].replace("r/", "mirror.example/r/")
    changed["container"] = changed["container"] | {"image": moved}
    other = TPU_ENV.replace("n-1", "n-2")
    assert key_of(key_parts(changed, other, "0/1")) == key_of(PARTS)


DOCUMENTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no JSON object": lambda _: ["a"],
    "its format is not 1": lambda document: {**document, "format": 2},
    "of another image": lambda document: {**document, "key": "0" * 64},
    "its size is not within": lambda document: {**document, "size": 2**33 + 1},
    "its files is not within": lambda document: {**document, "files": -1},
    "its bytes is not within": lambda document: {**document, "bytes": True},
    "its sha256": lambda document: {**document, "sha256": "../../etc/shadow"},
    "its time": lambda document: {**document, "created": "$(reboot)"},
}


@pytest.mark.parametrize("problem", DOCUMENTS)
def test_a_document_that_is_not_ours(packed: tuple[Path, dict[str, Any]], problem: str) -> None:
    """Of another key, another format, out of bounds: refused, with the reason."""
    with pytest.raises(RefusedError, match=problem):
        check(DOCUMENTS[problem](packed[1]), key_of(PARTS))


@pytest.mark.parametrize("name", ["key", "sha256", "size", "files", "bytes", "parts", "code"])
def test_a_document_that_somebody_changed(packed: tuple[Path, dict[str, Any]], name: str) -> None:
    """The code covers every field; without one there is none."""
    document = packed[1]
    require_code(document, SECRET)
    for changed in ({**document, name: "x"}, signed(document, b"another key")):
        with pytest.raises(RefusedError, match="present key"):
            require_code(changed, SECRET)
    with pytest.raises(RefusedError, match="present key"):
        require_code({k: v for k, v in document.items() if k != "code"}, SECRET)


def _member(name: str, content: bytes = b"x", **changes: Any) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for attribute, value in changes.items():
        setattr(member, attribute, value)
    return member, content


LINK = {"linkname": "/etc/shadow"}
ARCHIVES = {
    "above": ([_member("../../up")], "the path '../../up'"),
    "absolute": ([_member("/etc/cron.d/x")], "the path '/etc/cron.d/x'"),
    "dots inside": ([_member("a/../../x")], "the path"),
    "empty part": ([_member("a//b")], "the path"),
    "too long": ([_member("a/" * 600 + "a")], "the path"),
    "symbolic link": ([_member("l", b"", type=tarfile.SYMTYPE, **LINK)], "is no file"),
    "hard link": ([_member("l", b"", type=tarfile.LNKTYPE, **LINK)], "is no file"),
    "device": ([_member("d", b"", type=tarfile.BLKTYPE)], "is no file"),
    "pipe": ([_member("p", b"", type=tarfile.FIFOTYPE)], "is no file"),
    "directory": ([_member("d", b"", type=tarfile.DIRTYPE)], "is no file"),
    "sparse": ([_member("s", b"", type=tarfile.GNUTYPE_SPARSE)], "is no file|cannot be read"),
    "twice": ([_member("a"), _member("a")], "cannot be read"),
    "file as a directory": ([_member("a"), _member("a/b")], "cannot be read"),
    "nothing": ([], "holds less"),
    "more than it says": ([_member("a"), _member("b"), _member("c")], "holds more"),
    "larger than it says": ([_member("a", b"x" * 99), _member("b")], "holds more"),
}


@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_with_what_no_cache_holds(tmp_path: Path, case: str) -> None:
    """Paths that leave the directory, links, devices, more than announced: refused also where the
    document fits, and nothing is left."""
    members, problem = ARCHIVES[case]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    _refused(tmp_path, buffer.getvalue(), problem)


@pytest.mark.parametrize("content", [b"", b"\0" * 512, b"no tar" * 1000, b"\x1f\x8b" + b"z" * 2000])
def test_an_archive_that_is_none(tmp_path: Path, content: bytes) -> None:
    """Random bytes, or a compressed archive, are refused."""
    _refused(tmp_path, content, "cannot be read|holds less")


def _refused(directory: Path, content: bytes, problem: str) -> None:
    archive = directory / "x.tar"
    archive.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    document = {"sha256": digest, "size": len(content), "files": 2, "bytes": 2}
    with pytest.raises(RefusedError, match=problem):
        unpack(archive, document, directory / "out")
    assert {path.name for path in directory.iterdir()} == {"x.tar"}


@pytest.mark.parametrize("damage", ["cut", "flipped", "longer"])
def test_an_archive_that_is_not_the_one(
    packed: tuple[Path, dict[str, Any]], tmp_path: Path, damage: str
) -> None:
    """Cut short, with one bit flipped or something added: never opened."""
    archive, document = packed
    content = bytearray(archive.read_bytes())
    if damage == "flipped":
        content[600] ^= 1
    archive.write_bytes({"cut": content[:-1], "longer": content + b"x"}.get(damage, content))
    with pytest.raises(RefusedError, match="cut short or altered"):
        unpack(archive, document, tmp_path / "out")


def test_a_server_cannot_have_other_files_packed(tmp_path: Path) -> None:
    """Links of a server that was broken into are not followed, and a pipe does not hang."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(b"canary")
    (programs / "good").write_bytes(b"good")
    (programs / "link").symlink_to(tmp_path / "secret" / "key")
    (programs / "folder").symlink_to(tmp_path / "secret")
    os.mkfifo(programs / "pipe")
    document = pack(programs, tmp_path / "a.tar", PARTS, SECRET, 0.0)
    assert document["files"] == 1
    assert b"canary" not in (tmp_path / "a.tar").read_bytes()


@pytest.mark.parametrize(("name", "most"), [("MAX_FILES", 1), ("MAX_BYTES", 6), ("MAX_PATH", 7)])
def test_a_cache_has_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    """Too many files, bytes, or too long a path: it is not kept."""
    monkeypatch.setattr(compile_cache, name, most)
    (tmp_path / "p").mkdir()
    for program in ("one-cache", "two-cache"):
        (tmp_path / "p" / program).write_bytes(b"1234")
    with pytest.raises(RefusedError, match="it has more than"):
        pack(tmp_path / "p", tmp_path / "a.tar", PARTS, SECRET, 0.0)


def test_the_newest_documents_are_tried() -> None:
    """At most three, of names that we give; what else lies there is not asked for."""
    names = [f"c/k/2026112{day}T000000Z-{'a' * 16}.json" for day in range(5)]
    odd = ["c/k/x.json", f"c/k/20261129T000000Z-{'a' * 16}.tar", f"c/k/../{names[0]}", 7, None]
    listing = {"items": [{"name": name} for name in [*names, *odd]] + ["text"]}
    assert newest(listing, "c/k/") == names[:1:-1]
    assert newest([], "c/k/") == newest({}, "c/k/") == []


class Disk:
    """A host's disk with one cache, and the startup script's commands for it."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / key_of(PARTS)
        (self.home / "programs").mkdir(parents=True)
        (self.home / "parts.json").write_bytes(json.dumps(PARTS).encode())
        self.keys = directory / "api-key"
        self.keys.write_bytes(b"key-1")

    def run(self, command: str, *more: str) -> str:
        """Run a command; what it ends with, empty if nothing is wrong."""
        code = "import sys; sys.path.insert(0, sys.argv.pop(1)); import compile_cache_disk as d;"
        code += "d.SPARE_BYTES = int(sys.argv.pop(1)); d.main(*sys.argv[1:])"
        where = str(Path(compile_cache.__file__).parent)
        arguments = [where, str(self.spare), command, str(self.home), str(self.keys), *more]
        done = subprocess.run(
            [sys.executable, "-IBc", code, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stderr.strip() if done.returncode else ""

    spare = 0


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """A host's disk whose server has compiled one program."""
    made = Disk(tmp_path)
    (made.home / "programs" / "jit_a").write_bytes(b"a program")
    return made


@pytest.mark.parametrize(
    "document",
    [
        {"format": chr(0x10FFFF) * 60_000},
        {"format": 1, "key": key_of(PARTS), "code": chr(0xD800)},
        {"format": 1, "key": key_of(PARTS), "size": 10**4000},
        ["\x1b[31m"],
    ],
)
def test_nothing_of_an_unsigned_document_is_repeated(disk: Disk, document: dict[str, Any]) -> None:
    """A writer of the bucket without a key has no say in what the host reports."""
    fetched = disk.home / "archive.fetched"
    fetched.write_text(json.dumps(document, ensure_ascii="code" in document))
    assert disk.run("check", str(fetched)) in (
        "it was not made with the present key",
        "its document is no JSON object",
    )


def test_an_exchanged_key_launders_nothing(disk: Disk) -> None:
    """An archive made with the key of before is not taken from the host's disk either, not signed
    again and not uploaded."""
    assert disk.run("pack") == ""
    before = (disk.home / "archive.json").read_bytes()
    assert disk.run("unpack") == ""
    disk.keys.write_bytes(b"key-2 key-1")
    for command in ("unpack", "name"):
        assert disk.run(command) == "it was not made with the present key"
    assert (disk.home / "archive.json").read_bytes() == before


def test_packing_leaves_the_disk_its_spare(disk: Disk) -> None:
    """Nothing is written where the disk would have less free than it must keep, and the archive of
    before stays."""
    assert disk.run("pack") == ""
    assert disk.run("unpack") == ""
    (disk.home / "programs" / "jit_b").write_bytes(b"another program")
    disk.spare = 2**62
    assert disk.run("pack") == "the disk has room for 0 bytes of it"
    assert not (disk.home / "archive.partial").exists()
    disk.spare = 0
    assert disk.run("unpack") == ""
