"""A stack with zones in two regions, and a library in both, on an embedded cloud."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.doctor.examined import Doctor, healthy
from tpuflex.boot.places import weights_prefix
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.weights.run import run_push
from tpuflex.naming import library_names, programs_key

LIBRARY = library_names("tpuflex-dev")
HOME, FAR = (LIBRARY.bucket("tpuflex-dev", each) for each in ("us-east5", "europe-west4"))


def make_library(doctor: Doctor) -> None:
    """Make the buckets of a library in both regions, and what hosts know programs by."""
    labels = {"tpuflex-owner": LIBRARY.owner}
    for region in ("us-east5", "europe-west4"):
        bucket = LIBRARY.bucket("tpuflex-dev", region)
        body: Any = {"name": bucket, "location": region.upper(), "labels": labels}
        doctor.call("POST", "storage/v1/b?project=tpuflex-dev", body)
    parent, _, secret = programs_key("tpuflex-dev").rpartition("/")
    body = {"replication": {"automatic": {}}, "labels": labels}
    doctor.call("POST", f"v1/{parent}?secretId={secret}", body)
    body = {"payload": {"data": base64.b64encode(b"of the library").decode()}}
    doctor.call("POST", f"v1/{parent}/{secret}:addVersion", body)


@contextmanager
def two_regions(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack at home in us-east5, with a zone in europe-west4, too, and a library in both."""
    with healthy(project, tmp_path) as found:
        make_library(found)
        weights = found.stack.settings.model.weights.model_copy(
            update={"bucket": "library", "source": None}
        )
        found.change("model", weights=weights)
        found.change("slice", zones=("us-east5-a", "europe-west4-a"))
        found.change("network", subnetwork_cidrs={"europe-west4": "10.128.16.0/20"})
        yield found


def prefix_of(doctor: Doctor) -> str:
    """Where the stack's weights are in each bucket."""
    return weights_prefix(doctor.stack.settings.model)


def listed(doctor: Doctor, bucket: str) -> dict[str, Any]:
    """What is in a bucket, by name."""
    answer = doctor.call("GET", f"storage/v1/b/{bucket}/o")
    return {each["name"]: each for each in answer.get("items", [])}


def remove(doctor: Doctor, bucket: str, name: str) -> None:
    """Delete an object."""
    doctor.remove(f"storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}")


def typed() -> Invocation:
    """A command with --json and --yes."""
    return Invocation(environ={}, json=True, yes=True)


def push(doctor: Doctor, directory: Path | None, *, again: bool = False) -> None:
    """`tpuflex weights push`."""
    run_push(typed(), doctor.cloud, directory, again=again)
