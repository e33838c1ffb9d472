"""``python -m embedded_cloud.machines.docker COMMAND …``: ``docker`` on an emulated host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from embedded_cloud.machines.docker.commands import Docker
from embedded_cloud.machines.docker.containers import Containers, DockerError


def main() -> int:
    """Run one docker command for the host that the environment names."""
    try:
        host = Path(os.environ["TPUFLEX_HOST_DIR"])
        home = Path(os.environ["TPUFLEX_HOME"])
    except KeyError as missing:
        sys.stderr.write(f"docker: {missing} is not set: this runs only on an emulated host\n")
        return 125
    root = Path(os.environ.get("TPUFLEX_ROOT") or host / "root")
    docker = Docker(Containers(host, root), home, sys.stdout, sys.stderr)
    try:
        return docker.run(sys.argv[1:])
    except DockerError as error:
        sys.stderr.write(f"docker: {error.message}\n")
        return error.code


if __name__ == "__main__":
    sys.exit(main())
