"""``python -m embedded_cloud.gcp_plugin``: the stand-in as a process."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from embedded_cloud.access import read_token
from embedded_cloud.gcp_plugin.server import serve
from pulumi_plugin.serve import end_on_signal, run
from tpuflex.errors import EmulatorError


def main(arguments: list[str] | None = None) -> int:
    """Serve the stand-in; the first line on standard output is its port."""
    parser = argparse.ArgumentParser(prog="python -m embedded_cloud.gcp_plugin")
    parser.add_argument("--base-url", required=True, help="URL of the embedded cloud")
    parser.add_argument(
        "--state-dir",
        required=True,
        type=Path,
        help="the embedded cloud's state directory, where its token is",
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 chooses one")
    parser.add_argument(
        "--exit-with-stdin",
        action="store_true",
        help="end when standard input closes, so as not to outlive the process that started it",
    )
    options = parser.parse_args(arguments)
    try:
        plugin = serve(options.base_url, options.port, token=read_token(options.state_dir))
    except EmulatorError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    ended = end_on_signal()
    if options.exit_with_stdin:
        threading.Thread(target=_wait_for_eof, args=(ended,), daemon=True).start()
    run(plugin, ended)
    plugin.stop()
    return 0


def _wait_for_eof(ended: threading.Event) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    ended.set()


if __name__ == "__main__":
    sys.exit(main())
