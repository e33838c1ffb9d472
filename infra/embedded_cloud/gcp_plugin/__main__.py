"""``python -m embedded_cloud.gcp_plugin``: the stand-in as a process."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from embedded_cloud.core.access import read_token
from embedded_cloud.gcp_plugin.provider import serve
from embedded_cloud.gcp_plugin.rest import URL, callers_token
from pulumi_plugin.serve import end_on_signal, run
from tpuflex.errors import EmulatorError


def main(arguments: list[str] | None = None) -> int:
    """Serve the stand-in; the first line on standard output is its port.

    The embedded cloud starts it with its address, to act as its owner. Without one, an engine has
    started it, to act as the user who runs the engine.

    It ends with the process that started it: its port would outlive the embedded cloud.
    """
    parser = argparse.ArgumentParser(prog="python -m embedded_cloud.gcp_plugin")
    parser.add_argument("--base-url", default="", help="URL of the embedded cloud")
    parser.add_argument(
        "--state-dir",
        type=Path,
        help="the embedded cloud's state directory, where its token is",
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 chooses one")
    # An engine adds its own address, and options for logs.
    options, _ = parser.parse_known_args(arguments)
    # Read before the port is printed: from then on the emulator may be killed at any moment.
    parent = os.getppid()
    try:
        if options.base_url:
            plugin = serve(options.base_url, options.port, token=read_token(options.state_dir))
        else:
            plugin = serve(os.environ.get(URL, ""), token=callers_token(os.environ))
    except EmulatorError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    run(plugin, end_on_signal(), orphaned=lambda: os.getppid() != parent)
    plugin.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
