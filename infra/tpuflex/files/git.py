"""Questions to Git about a repository, whose configuration may be foreign."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tpuflex.errors import TpuflexError
from tpuflex.files.trusted import child_environment

#: Seconds for one command of Git on a repository that is there already.
_WITHIN_S = 60
#: No program that a repository's configuration names is run.
_NO_PROGRAMS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


def ask_git(root: Path, environ: Mapping[str, str], *arguments: str) -> str | None:
    """What Git prints, run in ``root``; None if it fails.

    Raises:
        TpuflexError: there is no Git, or it does not answer.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *_NO_PROGRAMS, *arguments],
            env={**child_environment(environ), "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TpuflexError(
            f"git cannot be run ({type(error).__name__}).",
            hint="Install Git (https://git-scm.com/downloads), and run the command again.",
        ) from error
    return done.stdout if done.returncode == 0 else None
