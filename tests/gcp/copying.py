"""A process that copies a set of weights from one bucket to another: bucket, bucket, project,
prefix."""

from __future__ import annotations

import os
import sys

from tpuflex.errors import TpuflexError
from tpuflex.gcp.weights import weights_bucket
from tpuflex.gcp.weights_copy import copy_set


def main(origin: str, target: str, project: str, prefix: str) -> None:
    """Copy it; an error goes to standard error."""
    there, here = (
        weights_bucket(name, project=project, environ=os.environ).contents(prefix)
        for name in (origin, target)
    )
    try:
        copy_set(
            there,
            here,
            expected=there.found.sha256 if there.found else "",
            progress=lambda _done, _total: None,
        )
    except TpuflexError as error:
        sys.exit(error.message)


if __name__ == "__main__":
    main(*sys.argv[1:])
