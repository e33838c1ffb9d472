"""Which gateways run with a state directory: each holds a file there as long as it does."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.errors import ConflictError
from tpuflex.files.trusted import open_lock, open_regular, own_directory

if TYPE_CHECKING:
    from tpuflex.gateway.config import GatewayConfig

_SUFFIX = ".running"
#: Most bytes of a file, which has a path and a few words.
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that runs.

    Attributes:
        config: the file with its configuration.
        options: of the commands about it, such as ``--config gateway.yaml``.
        host: the address that it listens on.
        port: and the port.
    """

    config: str
    options: str
    host: str
    port: int


def running_gateways(home: Path) -> list[RunningGateway]:
    """Those that run, and listen.

    Args:
        home: the state directory.
    """
    found = (_read(path) for path in sorted((home / "gateway").glob(f"*{_SUFFIX}")))
    return [each for each in found if each is not None]


def running_gateway(home: Path, config: GatewayConfig) -> RunningGateway | None:
    """The one that runs with this configuration, and listens."""
    return _read(_file(home, config))


@contextmanager
def running(home: Path, config: GatewayConfig) -> Iterator[Callable[[int], None]]:
    """This process is the gateway with a configuration, while the block runs.

    Yields:
        What is called with the port once it listens.

    Raises:
        ConflictError: one runs already with this configuration, or where it would listen.
    """
    path, settings = _file(home, config), config.settings
    own_directory(path.parent)
    with open_lock(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = _read(path)
            where = f" at port {other.port}" if other is not None else ""
            raise ConflictError(
                f"A gateway with {config.source} runs already{where}.",
                hint="Stop it first, or write another configuration for a second one.",
            ) from None
        file.truncate(0)
        for each in running_gateways(home):
            if (each.host, each.port) == (settings.host, settings.port):
                raise ConflictError(
                    f"The gateway with {each.config} listens at port {each.port} already.",
                    hint="Write another port for this one, or 0 for any free one.",
                )

        def listens(port: int) -> None:
            path_of = str(config.path.resolve())
            one = RunningGateway(path_of, config.options, settings.host, port)
            file.write(json.dumps(asdict(one)).encode())
            file.flush()

        yield listens


def _file(home: Path, config: GatewayConfig) -> Path:
    name = hashlib.sha256(str(config.path.resolve()).encode()).hexdigest()[:16]
    return home / "gateway" / f"{name}{_SUFFIX}"


def _read(path: Path) -> RunningGateway | None:
    """What a file says, if a gateway holds it."""
    try:
        with open_regular(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return RunningGateway(**json.loads(file.read(_MOST_BYTES)))
    except (OSError, ValueError, TypeError):
        pass  # it is not there; or its gateway does not listen yet
    return None
