"""The startup script: the files of ``startup/``, one after the other, unchanged."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tpuflex.errors import BootError

#: Metadata values end at 256 KiB (https://cloud.google.com/compute/docs/metadata/setting-custom-metadata);
#: the rest is left to whatever else a node's metadata needs.
LIMIT_BYTES = 200 * 1024

_DIRECTORY = Path(__file__).parents[1] / "startup"


@cache
def startup_script() -> str:
    """What a host runs at every boot. It is the same for every stack.

    Raises:
        BootError: the files are missing from the installation, or have outgrown the limit.
    """
    files = sorted(_DIRECTORY.glob("[0-9][0-9]-*.sh"))
    if not files:
        raise BootError(
            f"the startup scripts are missing from {_DIRECTORY}",
            hint="Install tpuflex again.",
        )
    script = "".join(f"{file.read_text(encoding='utf-8').rstrip()}\n\n" for file in files)
    if len(script.encode()) > LIMIT_BYTES:
        raise BootError(
            f"the startup script has {len(script.encode())} bytes, more than {LIMIT_BYTES}"
        )
    return script
