"""The gcloud of this machine: where it is, and which components it has."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from tpuflex.both_ends import both_ends
from tpuflex.errors import TpuflexError
from tpuflex.files.trusted import child_environment

INSTALL_PAGE = "https://cloud.google.com/sdk/docs/install"
#: Seconds for gcloud to say its version; a cold start on a slow disk takes ten.
_VERSION_WITHIN_S = 30.0
_HINT = "Try: gcloud version"


@dataclass(frozen=True, slots=True)
class Gcloud:
    """A gcloud that works.

    Attributes:
        program: its path.
        components: the components that it has.
    """

    program: str
    components: frozenset[str]


def find_gcloud(environ: Mapping[str, str], *, within: float = _VERSION_WITHIN_S) -> Gcloud | None:
    """The gcloud on PATH; None if there is none.

    Args:
        environ: the environment that it runs in.
        within: seconds that it may take to say its version.

    Raises:
        TpuflexError: it does not work.
    """
    program = shutil.which("gcloud", path=environ.get("PATH", ""))
    if program is None:
        return None
    try:
        asked = subprocess.run(
            [program, "version", "--format=json"],
            env=child_environment(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=within,
        )
    except subprocess.TimeoutExpired as error:
        raise TpuflexError(
            f"{program} does not say its version within {within:.0f} s.", hint=_HINT
        ) from error
    except OSError as error:
        raise TpuflexError(f"{program} does not work: {error.strerror}", hint=_HINT) from error
    try:
        components = json.loads(asked.stdout)
    except ValueError:
        components = None
    if asked.returncode or not isinstance(components, dict):
        raise TpuflexError(
            f"{program} does not work: {both_ends(asked.stderr, 400) or 'it gave no version'}",
            hint=_HINT,
        )
    return Gcloud(program, frozenset(components))
