"""Removes one set of weights, in a process of its own that can be killed."""

from __future__ import annotations

import os
import sys

from tpuflex.gcp.weights import weights_bucket
from tpuflex.gcp.weights_removal import planned_removal, remove

if __name__ == "__main__":
    bucket, project, prefix = sys.argv[1:]
    there = weights_bucket(bucket, project=project, environ=os.environ).contents(prefix)
    remove(planned_removal(there, unfinished=False))
