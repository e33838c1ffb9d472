"""Fetch the files of a manifest: in parts, many at once, each part hashed as it arrives.

Run by the startup script: ``download.py RECORDS PROBLEMS RECEIVED PROCESSES``, with the files that
``manifest.py`` wrote down, and the rest in the script's own variables. Ends with 0 when every file
is under its name in ``WEIGHTS_DIR`` with every byte checked, and nothing else is there. What
could not be fetched goes to PROBLEMS, a line each: code, path and detail, with tabs between. The
number of bytes that this run has received goes to RECEIVED.

A part is one range of a file with a SHA-256 of its own. It is hashed between the network and the
file, by one process per stream, so all cores hash and no byte is read again.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import http.client
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from weights_files import BLOCK, Part, Places, WeightsFile, read_files

#: Seconds before each further try of a part.
PAUSES = (1, 2, 4, 8)
CONNECT_S, SILENCE_S = 10, 60


class FetchError(Exception):
    """A part cannot be had. ``code`` is that of the boot's error."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class OtherObjectError(Exception):
    """What the bucket has is not what the manifest says, by its size."""


class Stream:
    """One process's connection to Cloud Storage.

    Args:
        base: address of the API.
        authorization: file with the header that authorizes a request.

    Attributes:
        received: bytes of files that came through it.
    """

    def __init__(self, base: str, authorization: Path) -> None:
        url = urlsplit(base)
        secure = url.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = kind(url.netloc, timeout=CONNECT_S)
        self._path = url.path
        self._authorization = authorization
        self.received = 0

    def fetch(self, places: Places, file: WeightsFile, number: int) -> None:
        """Fetch and check a part, unless it lies there.

        Raises:
            FetchError: it is not there, cannot be fetched, or is another one, twice.
        """
        part = file.parts[number]
        if places.holds(file, number):
            places.mark(file, number)
            return
        with closing(_Sink(places.partial / file.flat, part, whole=len(file.parts) == 1)) as sink:
            for attempt in (1, 2):
                try:
                    self._fill(file, part, sink)
                    if sink.digest.hexdigest() == part.sha256:
                        places.mark(file, number)
                        return
                except OtherObjectError:
                    pass
                _log(f"{file.path} does not match the manifest (try {attempt} of 2)")
                sink.restart()
        raise FetchError("weights-checksum")

    def _fill(self, file: WeightsFile, part: Part, sink: _Sink) -> None:
        """Fetch what is missing of a part."""
        pauses = iter(PAUSES)
        # A file without content is not worth a request, and has no ranges.
        while sink.length < part.length:
            try:
                problem = f"HTTP {self._receive(file, part, sink)}"
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                problem = f"{type(error).__name__}: {error}"
            if sink.length == part.length:
                return
            _log(f"{file.path}: {problem}")
            try:
                _shell(f"pause {next(pauses)}")
            except StopIteration:
                raise FetchError("weights-download", problem) from None

    def _receive(self, file: WeightsFile, part: Part, sink: _Sink) -> int:
        """Ask for the rest of a part; the HTTP status."""
        first, last = part.start + sink.length, part.start + part.length - 1
        header = self._header()
        if self._connection.sock is None:
            self._connect()
        # Gzip is asked for so that Cloud Storage sends objects as they are stored: otherwise it
        # unpacks those that say so (https://cloud.google.com/storage/docs/transcoding).
        headers = {"Range": f"bytes={first}-{last}", "Accept-Encoding": "gzip", **header}
        self._connection.request("GET", f"{self._path}/{file.url}", headers=headers)
        answer = self._connection.getresponse()
        try:
            if answer.status in (200, 206, 416):
                # An object that is longer or shorter than it should be is seen by its size.
                length = last + 1 - first
                whole = answer.status == 200 and answer.length == length == file.size
                ranged = answer.status == 206 and answer.length in (length, None)
                asked = f"bytes {first}-{last}/{file.size}"
                if not (whole or (ranged and answer.headers["Content-Range"] == asked)):
                    raise OtherObjectError
                for count in sink.take(answer):
                    self.received += count
        finally:
            if not answer.isclosed():
                self._connection.close()
        if answer.status == 404:
            raise FetchError("weights-missing")
        if answer.status in (401, 403) and header == self._header():
            _shell("authorize")
        return answer.status

    def _connect(self) -> None:
        self._connection.connect()
        self._connection.sock.settimeout(SILENCE_S)

    def _header(self) -> dict[str, str]:
        name, _, value = self._authorization.read_text(encoding="ascii").strip().partition(": ")
        return {name: value} if value else {}


class _Sink:
    """Where a part goes: its place in a file, and its hash.

    Args:
        path: the file.
        part: the part.
        whole: whether the file has no other; what there is of it is then continued.
    """

    def __init__(self, path: Path, part: Part, *, whole: bool) -> None:
        self._part = part
        self._whole = whole
        self._block = memoryview(bytearray(BLOCK))
        self.length = 0
        self.digest = hashlib.sha256()
        # To be read only where a run before this one has left the beginning of a file.
        left = whole and path.exists()
        self._file = os.open(path, os.O_CREAT | (os.O_RDWR if left else os.O_WRONLY), 0o600)
        while left and (count := os.readv(self._file, [self._block])):
            self.digest.update(self._block[:count])
            self.length += count

    def take(self, answer: http.client.HTTPResponse) -> Iterator[int]:
        """Take bytes until there are no more, and none beyond the part: what follows it in the file
        may be there, and checked. Yields how many were taken at a time.

        Raises:
            OSError: the connection is lost.
            OtherObjectError: there are more than the part lacks.
            FetchError: they cannot be written.
        """
        while count := answer.readinto(self._block):
            if count > self._part.length - self.length:
                raise OtherObjectError
            self.digest.update(self._block[:count])
            self._write(self._block[:count])
            self.length += count
            yield count

    def restart(self) -> None:
        """Forget what was taken."""
        self.length = 0
        self.digest = hashlib.sha256()
        if self._whole:
            os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, data: memoryview) -> None:
        place = self._part.start + self.length
        try:
            while data:
                written = os.pwrite(self._file, data, place)
                data, place = data[written:], place + written
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            raise FetchError("capacity" if full else "weights-download", str(error)) from error


def _shell(command: str) -> None:
    """Run one of the startup script's functions."""
    subprocess.run(["/bin/bash", "-c", command], stdin=subprocess.DEVNULL, check=False)


def _log(text: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{now} {os.environ.get('SET', 'weights')}: {text}\n")
    sys.stderr.flush()


class _Worker:
    """What a process of the pool has: its stream, and what it may be asked to fetch."""

    stream: Stream
    places: Places
    files: list[WeightsFile]


def _begin(parent: int, places: Places, files: list[WeightsFile]) -> None:
    """Make this process a worker, which ends with its parent: another run must not find it
    writing."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    _Worker.stream = Stream(os.environ["STORAGE"], Path(os.environ["AUTHORIZATION"]))
    _Worker.places, _Worker.files = places, files


class Outcome(NamedTuple):
    """How the fetch of a part ended: code and detail of what is wrong, both empty if nothing is,
    and the bytes received."""

    code: str
    detail: str
    received: int = 0


def _fetch(file: int, number: int) -> Outcome:
    """Fetch a part."""
    stream = _Worker.stream
    before, code, detail = stream.received, "", ""
    try:
        stream.fetch(_Worker.places, _Worker.files[file], number)
    except FetchError as error:
        code, detail = error.code, error.detail
    return Outcome(code, detail, stream.received - before)


def fetch_all(
    places: Places, files: list[WeightsFile], processes: int
) -> tuple[dict[str, str], int]:
    """Fetch the parts of ``files`` that are not checked; what is wrong, by path, and the bytes
    received."""
    missing = {number: places.unchecked(file) for number, file in enumerate(files)}
    for number in [number for number, parts in missing.items() if not parts]:
        places.finish(files[number])
        del missing[number]
    tasks = [(file, number) for file, parts in missing.items() for number in parts]
    # The longest first, so that none of them is the last one alone.
    tasks.sort(key=lambda task: -files[task[0]].parts[task[1]].length)
    problems: dict[str, str] = {}
    received = 0
    if not tasks:
        return problems, received
    with ProcessPoolExecutor(
        min(processes, len(tasks)),
        mp_context=multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(os.getpid(), places, files),
    ) as pool:
        futures = {pool.submit(_fetch, *task): task[0] for task in tasks}
        for future in as_completed(futures):
            file = futures[future]
            code, detail, of_part = _outcome(future)
            received += of_part
            if not code:
                missing[file].pop()
                if not missing[file]:
                    places.finish(files[file])
            elif files[file].path not in problems:
                problems[files[file].path] = f"{code}\t{files[file].path}\t{detail}"
                for other, of in futures.items():
                    if of == file or code == "capacity":
                        other.cancel()
    return problems, received


def _outcome(future: Future[Outcome]) -> Outcome:
    if future.cancelled():
        return Outcome("weights-download", "given up")
    try:
        return future.result()
    except BrokenProcessPool:
        return Outcome("weights-download", "a process that fetched it was killed")


def main() -> None:
    """Fetch what the arguments say."""
    records, problems, counted = (Path(name) for name in sys.argv[1:4])
    processes = int(sys.argv[4])
    places, files = Places.of(os.environ), read_files(records)
    missing = [file for file in files if not places.is_checked(file)]
    found, received = fetch_all(places, missing, processes)
    # Whatever happened to the workers: nothing goes on unless every single file is checked.
    for file in files:
        if file.path not in found and not places.is_checked(file):
            found[file.path] = f"weights-download\t{file.path}\tit is not checked"
    places.remove_strangers(files)
    problems.write_text("".join(f"{line}\n" for line in found.values()), encoding="utf-8")
    counted.write_text(f"{received}\n", encoding="ascii")
    sys.exit(1 if found else 0)
