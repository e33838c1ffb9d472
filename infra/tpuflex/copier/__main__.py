"""Run on the machine: read the job from its metadata, copy, and report in its guest attributes."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping

from tpuflex.copier.copy import Copy
from tpuflex.copier.errors import Code, CopyError
from tpuflex.copier.http import Patience, RefusedError, UnreachableError, request
from tpuflex.copier.hub import Hub
from tpuflex.copier.job import Job
from tpuflex.copier.machine import Machine
from tpuflex.copier.report import KEY, NAMESPACE, Report
from tpuflex.copier.storage import Objects

#: The machine's metadata key that holds the job.
JOB_KEY = "tpuflex-copy"
#: Seconds between two reports.
_REPORT_SECONDS = 3.0
_LAST_REPORTS = 5


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
    try:
        objects = Objects(job.storage, job.bucket, machine.token, patience)
        copy = Copy(job, Hub(job, _hub_token(job, machine, patience), patience), objects)
        with report.of(copy):
            copied = copy.run()
    except Exception as error:
        code, text = _why(error)
        report.last(Report(job.id, "failed", code=code, text=text))
        sys.stderr.write(f"the copy failed: {code}: {text}\n")
        return 1
    done = Report(job.id, "done", job.total_bytes, copied.kept, copied.manifest_sha256)
    report.last(done)
    return 0


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

        self._ticking = threading.Thread(target=tick, daemon=True)
        return self

    def __enter__(self) -> None:
        self._ticking.start()

    def __exit__(self, *_: object) -> None:
        # Else a late one would follow the last one.
        self._over.set()
        self._ticking.join()


def _hub_token(job: Job, machine: Machine, patience: Patience) -> str:
    """The Hub's token, from the one version of the one secret that the account may read."""
    if not job.token_version:
        return ""
    url = f"{job.secretmanager}/v1/{job.token_version}:access"

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
