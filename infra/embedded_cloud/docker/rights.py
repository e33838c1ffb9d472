"""What ``docker run`` can give to a container, or take from it: devices, capabilities, limits."""

from __future__ import annotations

import ipaddress
import re
import stat
from pathlib import Path

from embedded_cloud.docker.errors import DockerError

_ULIMIT = re.compile(r"(?P<name>[a-z]+)=(?P<soft>-1|\d+)(:(?P<hard>-1|\d+))?")
#: The only rights that a container on a bridge can have here.
_CAPABILITIES = {"--cap-drop": ("ALL",), "--cap-add": ("SYS_RESOURCE", "CAP_SYS_RESOURCE")}
_NO_NEW_PRIVILEGES = ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true")


def check_dns(value: str) -> None:
    """A DNS server: nothing is resolved in a network that leads nowhere."""
    check_address("--dns", value)


def check_address(flag: str, value: str) -> None:
    """An IP address, the value of ``flag``."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        raise DockerError(f'invalid argument "{value}" for {flag}: not an ip address') from None


def check_device(value: str) -> None:
    """A device of the host, at its own path."""
    path, *rest = value.split(":")
    if rest and rest != [path]:
        raise DockerError(f"device {value!r} is not supported: a device keeps its path here")
    problem = f'error gathering device information while adding custom device "{path}"'
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        raise DockerError(f"{problem}: no such file or directory") from None
    if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        raise DockerError(f"{problem}: not a device node")


def check_cap_drop(value: str) -> None:
    """A capability that is taken: all of them."""
    if value.upper() not in _CAPABILITIES["--cap-drop"]:
        raise DockerError(f"--cap-drop {value} is not supported: only ALL")


def check_cap_add(value: str) -> None:
    """A capability that is given back."""
    if value.upper() not in _CAPABILITIES["--cap-add"]:
        raise DockerError(f"--cap-add {value} is not supported: only SYS_RESOURCE")


def check_security_option(value: str) -> None:
    """A security option: no new privileges."""
    if value not in _NO_NEW_PRIVILEGES:
        raise DockerError(f"--security-opt {value} is not supported: only no-new-privileges")


def check_pids_limit(value: str) -> None:
    """The number of processes: only checked, there is no control group here."""
    if not re.fullmatch(r"-1|[1-9]\d*", value):
        raise DockerError(f'invalid argument "{value}" for --pids-limit')


def check_ulimit(value: str) -> None:
    """A resource limit: only checked. A CPU needs no locked memory, and few may raise limits."""
    match = _ULIMIT.fullmatch(value)
    if match is None or match["name"] != "memlock":
        raise DockerError(f"ulimit {value!r} is not supported: only memlock=SOFT[:HARD]")
    soft, hard = int(match["soft"]), int(match["hard"] or match["soft"])
    if hard != -1 and (soft > hard or soft == -1):
        raise DockerError(f"ulimit soft limit must be less than or equal to hard limit: {value}")
