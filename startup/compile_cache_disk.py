"""The compile cache on the disk of a host, as the startup script's commands. What goes wrong ends a
command with one line, and never a boot."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from compile_cache import (
    RefusedError,
    check,
    files_in,
    key_of,
    key_parts,
    newest,
    pack,
    require_code,
    secret_of,
    text_of,
    unpack,
)

#: Kept free on the disk beside an archive and what is in it.
SPARE_BYTES = 2 * 2**30
#: Of what a command ends with: others may have had a say in it.
MAX_REASON = 300
#: Of a document; the arguments and variables of a server are in it.
MAX_DOCUMENT = 256 * 2**10


class Home:
    """What a host keeps for one key, on its disk."""

    def __init__(self, directory: Path, secret: Path) -> None:
        self.directory = directory
        self.programs = directory / "programs"
        self.incoming = directory / "incoming"
        self.archive = directory / "archive.tar"
        self.document = directory / "archive.json"
        self.parts = directory / "parts.json"
        self.known = directory / "known.json"
        self._secret = secret

    @property
    def secret(self) -> bytes:
        """What signs documents here."""
        return secret_of(self._secret.read_bytes(), self.directory.name)

    def read(self, path: Path) -> dict[str, Any]:
        """The document at ``path``, of whose content nothing is told before its code is right.

        Raises:
            RefusedError: what it says must not be used.
        """
        if path.stat().st_size > MAX_DOCUMENT:
            raise RefusedError("its document is too long")
        try:
            document = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise RefusedError("its document is not JSON") from error
        require_code(document, self.secret)
        found = check(document, self.directory.name)
        free = shutil.disk_usage(self.directory).free
        if found["size"] + found["bytes"] + SPARE_BYTES > free:
            raise RefusedError(f"it needs {found['bytes']} bytes, and the disk has {free} free")
        return found

    def compiled(self) -> list[str]:
        """Paths of programs that the server has compiled itself."""
        # Without an archive, what is there was left by a start that was cut short.
        kept = self.document.exists()
        known = set(json.loads(self.known.read_bytes())) if kept else set()
        found = []
        for path, file in files_in(self.programs):
            file.close()
            if path not in known:
                found.append(path)
        return found


def _key(home: str, config: str, tpu_env: str) -> None:
    """Print the key, and make its directory below ``home``."""
    text = Path(tpu_env).read_text(encoding="utf-8", errors="replace")
    parts = key_parts(json.loads(Path(config).read_bytes()), text, "0/1")
    directory = Path(home, key_of(parts))
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / "parts.json").write_bytes(text_of(parts))
    print(directory.name)


def _secret(answer: str, target: str) -> None:
    """Write the value in an answer of Secret Manager to ``target``, for root alone."""
    value = base64.b64decode(json.loads(Path(answer).read_bytes())["payload"]["data"])
    if not value.strip():
        raise RefusedError("it is empty")
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
        file.write(value)


def _check(home: Home, path: str) -> None:
    """Print the size of the archive of a document from the bucket."""
    print(home.read(Path(path))["size"])


def _unpack(home: Home) -> None:
    """Unpack the archive, and print how much is in it. The host's own, too, needs the code of the
    present key: it may have come from the bucket, made with a key that was exchanged because others
    had it."""
    document = home.read(home.document)
    home.known.write_bytes(json.dumps(unpack(home.archive, document, home.incoming)).encode())
    print(f"files {document['files']}\nbytes {document['bytes']}")


def _pack(home: Home) -> None:
    """Pack what the server has compiled, unless that is nothing; print how much of it is new."""
    new = home.compiled()
    if new:
        partial = home.archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        room = shutil.disk_usage(home.directory).free - SPARE_BYTES
        try:
            parts = json.loads(home.parts.read_bytes())
            document = pack(home.programs, partial, parts, home.secret, time.time(), room)
            home.document.unlink(missing_ok=True)
            partial.rename(home.archive)
        finally:
            partial.unlink(missing_ok=True)
        home.document.write_bytes(text_of(document))
    print(len(new))


def main(command: str, *arguments: str) -> None:
    """Run one command of the startup script; what it ends with is told, and no more."""
    try:
        if command == "key":
            _key(*arguments)
        elif command == "secret":
            _secret(*arguments)
        elif command == "newest":
            listing = json.loads(Path(arguments[0]).read_bytes())
            for name in newest(listing, arguments[1]):
                print(name)
            if "nextPageToken" in listing:
                raise RefusedError("there are more objects than are listed at a time")
        else:
            home = Home(Path(arguments[0]), Path(arguments[1]))
            if command == "check":
                _check(home, arguments[2])
            elif command == "unpack":
                _unpack(home)
            elif command == "pack":
                _pack(home)
            elif command == "name":
                document = home.read(home.document)
                print(f"{document['created']}-{document['sha256'][:16]}")
    except (
        *(RefusedError, OSError, RecursionError),
        *(ValueError, IndexError, KeyError, TypeError),
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        sys.exit(reason.encode("ascii", "backslashreplace").decode()[:MAX_REASON])
