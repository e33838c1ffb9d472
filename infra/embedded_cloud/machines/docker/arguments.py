"""Read the command line of ``docker run``; refuse by name what cannot be honoured."""

from __future__ import annotations

import ipaddress
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from embedded_cloud.machines.docker.containers import DockerError
from embedded_cloud.machines.namespace import Bind

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


_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
_RESTART = ("no", "always", "unless-stopped")
_SHM_SIZE = re.compile(r"(?P<number>[1-9]\d*)(?P<unit>[bkmg]?)")
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
#: docker's own, where --shm-size says nothing.
_SHM_BYTES = 64 * 2**20
_LOG_OPTIONS = ("max-size", "max-file")
_PUBLISHED = re.compile(r"(?P<address>[0-9.]+):(?P<outside>\d+):(?P<inside>\d+)(/tcp)?")
HOST_NETWORK = "host"
#: Before the name of the container whose network another one shares.
OF_CONTAINER = "container:"


@dataclass(slots=True)
class RunRequest:
    """One ``docker run``.

    Attributes:
        image: image reference.
        name: container name.
        arguments: what follows the image.
        entrypoint: replaces the image's own command when not empty.
        restart: restart policy.
        environment: variables of the container, on top of the image's.
        labels: labels of the container.
        mounts: directories and files of the host.
        detached: whether `docker run` returns once it runs.
        interactive: whether it has the standard input of `docker run`.
        remove: whether it is removed when it ends.
        pull: whether its image is pulled where it is ``missing``, or ``never``.
        log_driver: what keeps its output.
        network: ``host``, the name of a bridge, or ``container:NAME``.
        name_servers: whether it asks for name servers of its own.
        ports: published ports, as ``ADDRESS:OUTSIDE:INSIDE``.
        privileged: whether it keeps all rights.
        given_up: the options with which it gives up rights.
        devices: devices of the host, at their own path.
        shm_bytes: size of its /dev/shm.
    """

    image: str = ""
    name: str = ""
    arguments: tuple[str, ...] = ()
    entrypoint: str = ""
    restart: str = "no"
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    mounts: list[Bind] = field(default_factory=list)
    detached: bool = False
    interactive: bool = False
    remove: bool = False
    pull: str = "missing"
    log_driver: str = "json-file"
    network: str = ""
    name_servers: bool = False
    ports: list[str] = field(default_factory=list)
    privileged: bool = False
    given_up: set[str] = field(default_factory=set)
    devices: list[str] = field(default_factory=list)
    shm_bytes: int = _SHM_BYTES


def parse_run(arguments: Sequence[str], *, own_mounts: bool = False) -> RunRequest:
    """The request behind ``docker run ARGUMENTS``.

    Args:
        arguments: what follows ``docker run``.
        own_mounts: whether a container has mounts of its own; without them, one that is to be seen
            at another path is refused.

    Raises:
        DockerError: a flag is unknown here, or its value cannot be honoured.
    """
    request = RunRequest()
    rest = iter(arguments)
    for word in rest:
        if not word.startswith("-"):
            request.image = word
            request.arguments = tuple(rest)
            break
        flag, has_value, value = word.partition("=")
        if flag in _SWITCHES and not has_value:
            setattr(request, _SWITCHES[flag], True)
            continue
        if flag in _RIGHTS:
            _RIGHTS[flag](value if has_value else _next(flag, rest))
            request.given_up |= {flag} & _ALL_GIVEN_UP
            request.name_servers = request.name_servers or flag == "--dns"
            continue
        if flag not in _VALUES:
            raise DockerError(f"unknown flag: {flag} (this stand-in for docker refuses it)")
        _VALUES[flag](request, value if has_value else _next(flag, rest))
    if not request.image:
        raise DockerError("'docker run' requires at least 1 argument: the image")
    _check_attachment(request)
    _check_network(request)
    if not own_mounts:
        _check_paths(request)
    return request


def _check_paths(request: RunRequest) -> None:
    for mount in request.mounts:
        if mount.source != mount.target:
            raise DockerError(
                f"cannot mount {mount.source} at {mount.target}: containers have no mount namespace"
                " here, so a mount must keep its path (hosts.own_mounts of `tpuflex emulator"
                " strictness` gives them one)"
            )


def _check_attachment(request: RunRequest) -> None:
    if request.remove and request.restart != "no":
        raise DockerError("conflicting options: cannot specify both --restart and --rm")
    if request.detached:
        if request.interactive:
            raise DockerError("a detached container has no standard input here: remove -i")
        if request.log_driver == "none":
            raise DockerError(
                "the output of a detached container is kept here: remove --log-driver"
            )
        return
    if not (request.interactive and request.remove and request.log_driver == "none"):
        raise DockerError(
            "a container is detached here (-d), or attached, with its output kept nowhere:"
            " -i --rm --log-driver none"
        )


def _check_network(request: RunRequest) -> None:
    if request.network.startswith(OF_CONTAINER):
        if request.ports:
            raise DockerError(
                "conflicting options: port publishing and the container type network mode"
            )
        if request.name_servers:
            raise DockerError("conflicting options: dns and the network mode")
    if request.network == HOST_NETWORK:
        if request.ports:
            raise DockerError("published ports are discarded with --network host: remove --publish")
        if request.given_up:
            raise DockerError(
                f"{', '.join(sorted(request.given_up))}: a container with --network host keeps all"
                " rights here"
            )
        return
    if not request.network:
        raise DockerError("there is no default network here: give --network host or a bridge")
    if request.privileged:
        raise DockerError("--privileged is possible with --network host only")
    if request.given_up != _ALL_GIVEN_UP:
        raise DockerError(
            "a container on a bridge, or in the network of another, has no rights here: give"
            " --cap-drop ALL --security-opt no-new-privileges"
        )


def _next(flag: str, rest: Iterator[str]) -> str:
    for value in rest:
        return value
    raise DockerError(f"flag needs an argument: {flag}")


def _name(request: RunRequest, value: str) -> None:
    if not _NAME.fullmatch(value):
        raise DockerError(f"Invalid container name ({value})")
    request.name = value


def _restart(request: RunRequest, value: str) -> None:
    if value not in _RESTART:
        raise DockerError(f"restart policy {value!r} is not supported: use {', '.join(_RESTART)}")
    request.restart = value


def _environment(request: RunRequest, value: str) -> None:
    key, separator, text = value.partition("=")
    if not separator:
        raise DockerError(f"-e {key} would inherit the host's value: write -e {key}=VALUE")
    request.environment[key] = text


def _label(request: RunRequest, value: str) -> None:
    key, _, text = value.partition("=")
    request.labels[key] = text


def _network(request: RunRequest, value: str) -> None:
    request.network = value


def _entrypoint(request: RunRequest, value: str) -> None:
    request.entrypoint = value


def _volume(request: RunRequest, value: str) -> None:
    source, _, rest = value.partition(":")
    destination, _, mode = rest.partition(":")
    if mode not in ("", "ro", "rw"):
        raise DockerError(f"volume mode {mode!r} is not supported: use ro or rw")
    _bind(request, source, destination, read_only=mode == "ro")


def _mount(request: RunRequest, value: str) -> None:
    parts = dict(part.partition("=")[::2] for part in value.split(","))
    if parts.pop("type", "") != "bind":
        raise DockerError(f"mount {value!r} is not supported: only type=bind")
    source = parts.pop("source", "") or parts.pop("src", "")
    destination = parts.pop("target", "") or parts.pop("dst", "") or parts.pop("destination", "")
    # As in docker, `readonly` stands alone or is readonly=true.
    read_only = any(parts.pop(key, None) in ("", "true", "1") for key in ("readonly", "ro"))
    if parts:
        raise DockerError(f"mount option {next(iter(parts))!r} is not supported")
    _bind(request, source, destination, read_only=read_only)


def _bind(request: RunRequest, source: str, destination: str, *, read_only: bool) -> None:
    for path in (source, destination):
        if not Path(path).is_absolute():
            raise DockerError(f"mount path {path!r} must be absolute")
    if not Path(source).exists():
        raise DockerError(f"bind source path does not exist: {source}")
    if any(mount.target == destination for mount in request.mounts):
        raise DockerError(f"Duplicate mount point: {destination}")
    request.mounts.append(Bind(source, destination, read_only))


def _publish(request: RunRequest, value: str) -> None:
    match = _PUBLISHED.fullmatch(value)
    if match is None:
        # Without an address, docker publishes on all addresses of the machine.
        raise DockerError(f"port {value!r} is not supported: write ADDRESS:OUTSIDE:INSIDE")
    check_address("--publish", match["address"])
    for port in (match["outside"], match["inside"]):
        if not 1 <= int(port) <= 65535:
            raise DockerError(f"invalid port specification: {value!r}")
    request.ports.append(value.removesuffix("/tcp"))


def _shm_size(request: RunRequest, value: str) -> None:
    match = _SHM_SIZE.fullmatch(value.lower())
    if match is None:
        raise DockerError(f"invalid argument {value!r} for --shm-size")
    request.shm_bytes = int(match["number"]) * _UNITS[match["unit"]]


def _device(request: RunRequest, value: str) -> None:
    check_device(value)
    request.devices.append(value.partition(":")[0])


def _log_driver(request: RunRequest, value: str) -> None:
    if value not in ("json-file", "none"):
        raise DockerError(f"log driver {value!r} is not supported: use json-file or none")
    request.log_driver = value


def _pull(request: RunRequest, value: str) -> None:
    if value not in ("missing", "never"):
        raise DockerError(f"--pull {value} is not supported: use missing or never")
    request.pull = value


def _log_option(request: RunRequest, value: str) -> None:  # noqa: ARG001
    key = value.partition("=")[0]
    if key not in _LOG_OPTIONS:
        raise DockerError(f"log option {key!r} is not supported: use {', '.join(_LOG_OPTIONS)}")


_ALL_GIVEN_UP = {"--cap-drop", "--security-opt"}
#: Options without a value, and the attribute that each sets.
_SWITCHES = {
    "-d": "detached",
    "--detach": "detached",
    "-i": "interactive",
    "--interactive": "interactive",
    "--privileged": "privileged",
    "--rm": "remove",
}
_VALUES = {
    "--name": _name,
    "--restart": _restart,
    "--pull": _pull,
    "--network": _network,
    "--net": _network,
    "-e": _environment,
    "--env": _environment,
    "-l": _label,
    "--label": _label,
    "-v": _volume,
    "--volume": _volume,
    "--mount": _mount,
    "--shm-size": _shm_size,
    "--device": _device,
    "--log-driver": _log_driver,
    "--log-opt": _log_option,
    "--entrypoint": _entrypoint,
    "-p": _publish,
    "--publish": _publish,
}
#: Options that are checked, or that every container on a bridge has here: see `_check_network`.
_RIGHTS = {
    "--dns": check_dns,
    "--cap-drop": check_cap_drop,
    "--cap-add": check_cap_add,
    "--security-opt": check_security_option,
    "--pids-limit": check_pids_limit,
    "--ulimit": check_ulimit,
}
