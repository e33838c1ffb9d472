"""The ``iptables`` of an emulated host: ``python iptables.py ARGUMENTS…``.

It keeps a list of rules, so that a script can ask for them and set them. They change nothing: what
they drop, everything that begins on a container's bridge, has no way out of its network namespace
here (:mod:`embedded_cloud.docker.shim`). Any other rule is refused.

Run by path, without importing the package, so that a host boots quickly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

_CHAINS = ("DOCKER-USER", "INPUT")


def main(arguments: Sequence[str], rules: Path) -> int:
    """Do one `iptables` command; its exit code."""
    words = [word for word in arguments if word != "--wait" and not word.isdigit()]
    verb, chain, rule = words[0], words[1], words[2:]
    if chain not in _CHAINS or "--in-interface" not in rule or rule[-2:] != ["--jump", "DROP"]:
        sys.stderr.write("iptables: this stand-in knows only what drops packets from a bridge\n")
        return 2
    line = " ".join((chain, *rule))
    there = rules.read_text(encoding="utf-8").splitlines() if rules.exists() else []
    if verb == "--check":
        return 0 if line in there else 1
    if verb != "--insert":
        sys.stderr.write(f"iptables: {verb} is not a command of this stand-in\n")
        return 2
    rules.write_text("".join(f"{each}\n" for each in (line, *there)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(os.environ["TPUFLEX_ROOT"], "run", "iptables")))
