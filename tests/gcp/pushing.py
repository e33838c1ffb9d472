"""Pushes one set of weights, in a process of its own that can be killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tpuflex.gcp.weights import weights_bucket

if __name__ == "__main__":
    bucket, project, prefix, directory = sys.argv[1:]
    weights_bucket(bucket, project=project, environ=os.environ).push(
        Path(directory), prefix, model="tiny", revision="1", progress=lambda _done, _all: None
    )
