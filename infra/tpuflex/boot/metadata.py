"""The metadata of a node: the startup script, its configuration, and how the host behaves."""

from __future__ import annotations

from tpuflex.boot.config import BootConfig
from tpuflex.boot.script import startup_script

CONFIG_KEY = "tpuflex-config"


def node_metadata(config: BootConfig) -> dict[str, str]:
    """The metadata of a node that boots with ``config``.

    Guest attributes are how the host reports without a way in from outside. SSH works only
    through OS Login, so that access ends with the IAM role that gave it.
    """
    return {
        "startup-script": startup_script(),
        CONFIG_KEY: config.to_json(),
        "enable-guest-attributes": "TRUE",
        "enable-oslogin": "TRUE",
        "block-project-ssh-keys": "true",
        "serial-port-enable": "false",
    }
