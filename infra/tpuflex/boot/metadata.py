"""The metadata of a node: the startup script, its configuration, and how the host behaves."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tpuflex.boot.config import BootConfig
from tpuflex.errors import BootError

CONFIG_KEY = "tpuflex-config"

#: Metadata values end at 256 KiB (https://cloud.google.com/compute/docs/metadata/setting-custom-metadata);
#: the rest is for the other keys of a node's metadata.
LIMIT_BYTES = 200 * 1024

_DIRECTORY = Path(__file__).parents[1] / "startup"


def node_metadata(config: BootConfig) -> dict[str, str]:
    """The metadata of a node that boots with ``config``.

    The host reports through guest attributes, which need no inbound connection. SSH works only
    through OS Login, so that access ends with the IAM role that granted it.
    """
    return {
        "startup-script": startup_script(),
        CONFIG_KEY: config.to_json(),
        "enable-guest-attributes": "TRUE",
        "enable-oslogin": "TRUE",
        "block-project-ssh-keys": "true",
        "serial-port-enable": "false",
    }


@cache
def startup_script() -> str:
    """The files of ``startup/`` in order: what a host of any stack runs at every boot.

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
