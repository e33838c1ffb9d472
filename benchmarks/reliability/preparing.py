"""A process that does for the dev stack what `up` does before it asks for chips: checks, then
brings secrets and weights in place. Prints the hash of the weights that a host may serve.

Argument: the project's directory.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tpuflex.cli.cloud import Cloud
from tpuflex.cli.output import Output
from tpuflex.cli.prepare import EndpointPreparation
from tpuflex.cli.stack import open_stack
from tpuflex.errors import TpuflexError
from tpuflex.project import open_project


def main(root: str) -> int:
    """Prepare; the exit code, by kind of error as that of `up`."""
    stack = open_stack(open_project(Path(root), os.environ), "dev", deploying=False)
    output = Output(json=False, verbose=False)
    cloud = Cloud(stack, dict(os.environ))
    preparation = EndpointPreparation(cloud, output.progress, output, lambda: False)
    try:
        preparation.check()
        print(asyncio.run(preparation.ready(preparation.cloud.bucket, {})))
    except TpuflexError as error:
        return output.failure(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
