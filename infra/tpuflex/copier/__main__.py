"""Run on the machine: read the job from its metadata, copy, and report in its guest attributes."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping

from tpuflex.copier.bucket import BucketFiles
from tpuflex.copier.copy import Copied, Copy
from tpuflex.copier.errors import Code, CopyError
from tpuflex.copier.http import Patience, RefusedError, UnreachableError, request
from tpuflex.copier.hub import Hub
from tpuflex.copier.job import BucketOrigin, HubOrigin, Job
from tpuflex.copier.machine import Machine
from tpuflex.copier.origin import OriginFiles
from tpuflex.copier.report import KEY, LONGEST_TEXT, NAMESPACE, Report
from tpuflex.copier.storage import Objects

#: The machine's metadata key that holds the job.
JOB_KEY = "tpuflex-copy"
#: Seconds between two reports.
_REPORT_SECONDS = 3.0
_LAST_REPORTS = 5
#: Seconds between two attempts while a role may have no effect yet.
_SETTLING_PAUSE = 10.0


def main(
    environ: Mapping[str, str],
    *,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Copy, and say how it went; the exit code is 0 if all of it is there."""
    patience = Patience(sleep)
    machine = Machine(environ, patience, clock)
    job = Job.from_json(machine.attribute(JOB_KEY))
    report = _Reports(machine, job.id, sleep)
    report.now(Report(job.id, "copying"))

    def attempt() -> Copied:
        objects = Objects(job.storage, job.bucket, machine.token, patience)
        copy = Copy(job, _origin(job, machine, patience), objects)
        with report.of(copy):
            return copy.run()

    try:
        copied = _settled(attempt, clock() + job.settling_seconds, sleep, clock)
    except Exception as error:
        code, text = _why(error)
        text = text[:LONGEST_TEXT]  # a report that is too long would not be read
        report.last(Report(job.id, "failed", code=code, text=text))
        sys.stderr.write(f"the copy failed: {code}: {text}\n")
        return 1
    done = Report(job.id, "done", job.total_bytes, copied.kept, copied.manifest_sha256)
    report.last(done)
    return 0


def _settled(
    attempt: Callable[[], Copied],
    until: float,
    sleep: Callable[[float], object],
    clock: Callable[[], float],
) -> Copied:
    """``attempt``, again while what refuses it may be a role that has no effect yet: the machine is
    up in less time than Google says that takes
    (https://cloud.google.com/iam/docs/access-change-propagation)."""
    while True:
        try:
            return attempt()
        except (CopyError, RefusedError) as error:
            if clock() >= until or not _unsettled(error):
                raise
        sleep(_SETTLING_PAUSE)


def _unsettled(error: CopyError | RefusedError) -> bool:
    """Whether ``error`` is what an account without its roles meets. Objects that it may not see yet
    are none to it; if it may a moment later, somebody else seems to have written them."""
    if isinstance(error, RefusedError):
        return error.status == 403
    cause = error.__cause__
    refused = isinstance(cause, RefusedError) and cause.status == 403
    return error.code == "conflict" or (error.code in ("token", "source-refused") and refused)


class _Reports:
    """Publishes reports."""

    def __init__(self, machine: Machine, job: str, sleep: Callable[[float], object]) -> None:
        self._machine = machine
        self._job = job
        self._sleep = sleep
        self._over = threading.Event()

    def now(self, report: Report) -> None:
        self._machine.publish(f"{NAMESPACE}/{KEY}", report.to_json())

    def last(self, report: Report) -> None:
        """Publish how it ended; a lost one would let the command wait until the machine's end."""
        for _ in range(_LAST_REPORTS):
            if self._machine.publish(f"{NAMESPACE}/{KEY}", report.to_json()):
                return
            self._sleep(1.0)

    def of(self, copy: Copy) -> _Reports:
        def tick() -> None:
            while not self._over.wait(_REPORT_SECONDS):
                self.now(Report(self._job, "copying", copy.done_bytes))

        self._over.clear()
        self._ticking = threading.Thread(target=tick, daemon=True)
        return self

    def __enter__(self) -> None:
        self._ticking.start()

    def __exit__(self, *_: object) -> None:
        # Else a late one would follow the last one.
        self._over.set()
        self._ticking.join()


def _origin(job: Job, machine: Machine, patience: Patience) -> OriginFiles:
    match job.origin:
        case HubOrigin() as origin:
            return Hub(origin, _hub_token(origin, job.secretmanager, machine, patience), patience)
        case BucketOrigin() as origin:
            objects = Objects(job.storage, origin.bucket, machine.token, patience)
            return BucketFiles(origin, objects)


def _hub_token(origin: HubOrigin, secretmanager: str, machine: Machine, patience: Patience) -> str:
    """The Hub's token, from the one version of the one secret that the account may read."""
    if not origin.token_version:
        return ""
    url = f"{secretmanager}/v1/{origin.token_version}:access"

    def ask() -> str:
        headers = {"Authorization": f"Bearer {machine.token()}"}
        with request("GET", url, headers) as answer:
            if answer.status != 200:
                raise RefusedError(answer)
            found = json.loads(answer.body())
            return base64.b64decode(found["payload"]["data"]).decode("ascii").strip()

    try:
        return patience.ask(ask)
    except RefusedError as error:
        raise CopyError("token", f"Secret Manager answered with {error.status}") from error
    except (UnreachableError, ValueError, KeyError) as error:
        raise CopyError("token", f"Secret Manager: {type(error).__name__}") from error


def _why(error: Exception) -> tuple[Code, str]:
    """Of what was not foreseen, only the type: its text may quote anything."""
    match error:
        case CopyError():
            return error.code, error.text
        case RefusedError():
            code: Code = "storage-unreachable" if error.passing else "storage-refused"
            return code, f"Cloud Storage answered with {error.status}"
        case UnreachableError():
            return "storage-unreachable", f"no answer ({error})"
        case _:
            return "internal", type(error).__name__


if __name__ == "__main__":
    sys.exit(main(os.environ))
