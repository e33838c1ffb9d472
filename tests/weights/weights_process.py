"""Pushes, copies or removes one set of weights, in a process of its own that can be killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.checkpoints import pushing
from tpuflex.weights.bucket import WeightsBucket, weights_bucket
from tpuflex.weights.copies import copy_set
from tpuflex.weights.removal import planned_removal, remove


def bucket_of(name: str, project: str) -> WeightsBucket:
    """A bucket of the cloud that the environment names."""
    return weights_bucket(name, project=project, environ=os.environ)


if __name__ == "__main__":
    what, project, prefix, name, *more = sys.argv[1:]
    bucket = bucket_of(name, project)
    if what == "push":
        bucket.push(pushing(Path(more[0]), prefix))
    elif what == "copy":
        there = bucket.contents(prefix)
        copy_set(
            there,
            bucket_of(more[0], project).contents(prefix),
            expected=there.found.sha256 if there.found else "",
            progress=lambda _done, _all: None,
        )
    else:
        remove(planned_removal(bucket.contents(prefix), unfinished=False))
