"""The compile cache of a host: programs that XLA has compiled, in one archive per key.

What a server has compiled is packed before it is said to be READY. A later server gets it only if
the archive is the one that its document says, and the document carries a code that takes a secret
to make which is for nothing else: whoever writes the cache runs code on the chip
(https://docs.jax.dev/en/latest/persistent_compilation_cache.html).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import shutil
import stat
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

FORMAT = 1
#: Bounds on an archive; the cache of a 31B model on TPU is some hundred files.
MAX_BYTES = 4 * 2**30
MAX_FILES = 20_000
MAX_PATH = 1024
#: Documents that are tried, the newest first.
TRIED = 3
#: So that a weak key of a user's own cannot be guessed from a document.
ROUNDS = 200_000

_NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{16}\.json")
_BLOCK = 2**20
#: Of a file in an archive, what is not its content: headers, and what fills blocks up.
_FRAME = 4 * 2**10
#: What an archive that is none, or that names one path twice, leads to.
_UNREADABLE = (
    *(tarfile.TarError, ValueError, EOFError, RecursionError),
    *(FileExistsError, NotADirectoryError),
)


class RefusedError(Exception):
    """A cache that is not used, or not kept; says why."""


def key_parts(config: dict[str, Any], tpu_env: str, worker: str) -> dict[str, Any]:
    """What a compiled program depends on: JAX's own keys see to the rest.

    Args:
        config: the document under ``tpuflex-config``.
        tpu_env: the host's metadata attribute of that name; may be empty.
        worker: which of how many hosts it is, such as ``0/1``.
    """
    described = dict(re.findall(r"^([A-Z_]+): '([\w.,-]*)'$", tpu_env, re.MULTILINE))
    kept = config.get("compile_cache", {})
    return {
        # One key signs for all endpoints of a library: what one has made is not another one's.
        "place": kept.get("prefix", ""),
        "image": config["container"]["image"].rpartition("@")[2],
        "accelerator": described.get("ACCELERATOR_TYPE", ""),
        "topology": described.get("TOPOLOGY", ""),
        "worker": worker,
        "weights": config["weights"]["manifest_sha256"],
        "args": config["serving"]["args"],
        "env": config["container"]["env"],
    }


def key_of(parts: dict[str, Any]) -> str:
    """The key of a cache: a SHA-256 in hex."""
    return hashlib.sha256(text_of({"format": FORMAT, **parts})).hexdigest()


def pack(
    programs: Path,
    archive: Path,
    parts: dict[str, Any],
    secret: bytes,
    now: float,
    room: int = 2 * MAX_BYTES,
) -> dict[str, Any]:
    """Write all of ``programs`` to ``archive``; the document that goes with it.

    The server goes on while it is read, and is not trusted: links are not followed, and what is no
    file is left out.

    Raises:
        RefusedError: it is more than a cache may be, or needs more bytes than ``room``.
        OSError: it cannot be read or written.
    """
    count = total = 0
    for path, source in files_in(programs):
        with source:
            count, total = count + 1, total + os.fstat(source.fileno()).st_size
        _require_bounds(path, count, total, room)
    count = total = 0
    with (
        archive.open("xb") as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, source in files_in(programs):
            with source:
                size = os.fstat(source.fileno()).st_size
                count, total = count + 1, total + size
                _require_bounds(path, count, total, room)
                member = tarfile.TarInfo(path)
                member.size = size
                tar.addfile(member, source)
    document = {
        "format": FORMAT,
        "key": key_of(parts),
        "parts": parts,
        "sha256": sha256_of(archive),
        "size": archive.stat().st_size,
        "files": count,
        "bytes": total,
        "created": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now)),
    }
    return signed(document, secret)


def _require_bounds(path: str, count: int, total: int, room: int) -> None:
    if count > MAX_FILES or total > MAX_BYTES or len(path) > MAX_PATH:
        raise RefusedError(
            f"it has more than {MAX_FILES} files or {MAX_BYTES} bytes, or a path of more than"
            f" {MAX_PATH} characters"
        )
    if total + count * _FRAME > room:
        raise RefusedError(f"the disk has room for {max(0, room)} bytes of it")


def files_in(directory: Path) -> Iterator[tuple[str, BinaryIO]]:
    """The files below ``directory``, in order: path and content."""
    for folder, folders, names, handle in os.fwalk(directory):
        folders.sort()
        for name in sorted(names):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            try:
                opened = os.open(name, flags, dir_fd=handle)
            except OSError:
                continue  # a link, or gone again
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                os.close(opened)
                continue
            yield str(Path(folder, name).relative_to(directory)), os.fdopen(opened, "rb")


def check(document: object, key: str) -> dict[str, Any]:
    """``document`` if what it says may be used by a host with ``key``.

    Raises:
        RefusedError: it may not; repeats nothing of it.
    """
    if not isinstance(document, dict):
        raise RefusedError("its document is no JSON object")
    if document.get("format") != FORMAT:
        raise RefusedError(f"its format is not {FORMAT}")
    if document.get("key") != key:
        raise RefusedError("it is of another image, accelerator, model or configuration")
    for name, most in (("size", 2 * MAX_BYTES), ("files", MAX_FILES), ("bytes", MAX_BYTES)):
        value = document.get(name)
        if type(value) is not int or not 0 <= value <= most:
            raise RefusedError(f"its {name} is not within 0 and {most}")
    if not re.fullmatch(r"[0-9a-f]{64}", str(document.get("sha256"))):
        raise RefusedError("its sha256 is not valid")
    if not re.fullmatch(r"[0-9]{8}T[0-9]{6}Z", str(document.get("created"))):
        raise RefusedError("its time is not valid")
    return document


def signed(document: dict[str, Any], secret: bytes) -> dict[str, Any]:
    """``document`` with the code that only who has ``secret`` can make."""
    unsigned = {name: value for name, value in document.items() if name != "code"}
    code = hmac.new(secret, text_of(unsigned), hashlib.sha256).hexdigest()
    return {**unsigned, "code": code}


def require_code(document: object, secret: bytes) -> None:
    """Raises:
    RefusedError: somebody without ``secret`` has made or changed ``document``.
    """
    if not isinstance(document, dict):
        raise RefusedError("its document is no JSON object")
    expected, found = str(signed(document, secret)["code"]), document.get("code")
    if not (isinstance(found, str) and found.isascii() and hmac.compare_digest(found, expected)):
        raise RefusedError("it was not made with the present key")


def unpack(archive: Path, document: dict[str, Any], target: Path) -> list[str]:
    """Make ``target`` a directory of what is in ``archive``; the paths of its files.

    Raises:
        RefusedError: the archive is not the one of ``document``, or holds what no cache holds.
        OSError: it cannot be read or written.
    """
    if archive.stat().st_size != document["size"] or sha256_of(archive) != document["sha256"]:
        raise RefusedError("its archive is cut short or altered")
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    partial.mkdir(mode=0o700)
    try:
        paths = _extract(archive, partial, document["files"], document["bytes"])
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, _UNREADABLE):
            raise RefusedError(f"its archive cannot be read: {error}") from error
        raise
    partial.rename(target)
    return paths


def _extract(archive: Path, directory: Path, files: int, size: int) -> list[str]:
    """Extract plain files below ``directory``, and refuse all else. That is less than what Python's
    filter ``data`` lets pass, which not every Python 3.10 has
    (https://docs.python.org/3/library/tarfile.html#tarfile.data_filter)."""
    paths: list[str] = []
    total = 0
    with tarfile.open(archive, mode="r:") as tar:
        for member in tar:
            parts = member.name.split("/")
            if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                raise RefusedError(f"its archive holds {member.name[:100]!r}, which is no file")
            if any(part in ("", ".", "..") for part in parts) or len(member.name) > MAX_PATH:
                raise RefusedError(f"its archive holds the path {member.name[:100]!r}")
            total += member.size
            if member.size < 0 or len(paths) == files or total > size:
                raise RefusedError("its archive holds more than its document says")
            source = tar.extractfile(member)
            path = directory.joinpath(*parts)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("xb") as file:
                path.chmod(0o600)
                shutil.copyfileobj(source, file, _BLOCK)  # type: ignore[arg-type]
            paths.append(member.name)
    if len(paths) != files or total != size:
        raise RefusedError("its archive holds less than its document says")
    return paths


def newest(listing: object, prefix: str) -> list[str]:
    """The documents to try, the newest first, in an answer of Cloud Storage's objects.list."""
    items = listing.get("items", []) if isinstance(listing, dict) else []
    names = [str(item.get("name")) for item in items if isinstance(item, dict)]
    return sorted(
        (name for name in names if _NAME.fullmatch(name.removeprefix(prefix))), reverse=True
    )[:TRIED]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def secret_of(value: bytes, key: str) -> bytes:
    """What signs the documents of ``key``, from the value of a secret that the hosts alone read:
    neither the server nor who can write to the bucket has it."""
    salt = f"tpuflex compile cache {key}".encode()
    return hashlib.pbkdf2_hmac("sha256", value.strip(), salt, ROUNDS)


def text_of(document: dict[str, Any]) -> bytes:
    """``document`` as it is kept, and signed."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
