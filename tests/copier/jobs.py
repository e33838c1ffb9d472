"""What the copying program is asked to do, in tests."""

from __future__ import annotations

from tpuflex.copier.job import HubOrigin, Job, JobFile

COMMIT = "0" * 40


def job_of(*files: JobFile) -> Job:
    """To copy ``files`` of a model of the Hub to a bucket."""
    return Job(
        origin=HubOrigin("", "acme/tiny", COMMIT),
        files=files,
        bucket="b",
        prefix="models/m/r",
        model="m",
        revision="r",
        source=f"hf://acme/tiny@{COMMIT}",
        pinned="",
        known=(),
        again=False,
        storage="",
        secretmanager="",
    )
