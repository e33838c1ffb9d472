"""The embedded cloud's process, as the command line handles it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuflex.errors import EmulatorError, NotFoundError

if TYPE_CHECKING:
    from embedded_cloud.address import Address
    from tpuflex.cli.invocation import Invocation

_TIMEOUT = 30.0


class Daemon:
    """The embedded cloud whose state lies in ``home``/emulator."""

    def __init__(self, home: Path) -> None:
        self.state = home / "emulator"

    def address(self) -> Address | None:
        """Where it runs, or None when it does not."""
        from embedded_cloud import daemon

        return daemon.status(self.state)

    def start(self, port: int | None = None) -> Address:
        """Start it unless it runs: on ``port``, else on the usual one, else on a free one.

        Raises:
            EmulatorError: it cannot start; names the port in use and its holder.
        """
        from embedded_cloud import daemon
        from embedded_cloud.environment import DEFAULT_PORT

        if port is not None:
            return daemon.start(self.state, port=port)
        try:
            return daemon.status(self.state) or daemon.start(self.state, port=DEFAULT_PORT)
        except EmulatorError:
            # Most likely another project's emulator has the usual port; nobody asked for it.
            return daemon.start(self.state, port=0)

    def stop(self) -> bool:
        """Stop it; returns whether it ran."""
        from embedded_cloud import daemon

        return daemon.stop(self.state)

    def reset(self) -> None:
        """Forget all state, running or not."""
        from embedded_cloud import daemon

        daemon.reset(self.state)

    def require(self) -> Address:
        """Where it runs.

        Raises:
            EmulatorError: it does not run.
        """
        address = self.address()
        if address is None:
            raise EmulatorError(
                "The embedded cloud does not run.",
                hint="Start it with the stack: tpuflex up. Alone: tpuflex emulator start",
            )
        return address

    def environment(self, project: str | None = None) -> dict[str, str]:
        """Variables for clients of the running embedded cloud.

        Raises:
            EmulatorError: it does not run.
        """
        from embedded_cloud.daemon import wait_for_plugin
        from embedded_cloud.environment import DEFAULT_PROJECT, client_environment

        self.require()
        address = wait_for_plugin(self.state)
        return client_environment(
            base_url=address.url,
            state_dir=self.state,
            project=project or DEFAULT_PROJECT,
            gcp_plugin_port=address.gcp_plugin_port,
        )

    def now(self) -> datetime:
        """The time of day on its own clock.

        Raises:
            EmulatorError: it does not run.
        """
        return datetime.fromtimestamp(float(self.call("GET", "clock")["epoch"]), UTC)

    def call(self, method: str, action: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the control API.

        Raises:
            EmulatorError: it does not run, or refuses.
        """
        import requests

        url = f"{self.require().url}/_emulator/{action}"
        with requests.Session() as session:
            session.trust_env = False
            try:
                answer = session.request(method, url, json=body, timeout=_TIMEOUT)
            except requests.RequestException as error:
                raise EmulatorError(f"{url} does not answer: {type(error).__name__}.") from error
        document: dict[str, Any] = answer.json()
        if not answer.ok:
            raise EmulatorError(f"{document.get('error', {}).get('message', answer.status_code)}")
        return document


def project_of(invocation: Invocation) -> str | None:
    """The Google Cloud project of the stack; None where there is no stack file.

    Raises:
        SettingsError: the stack file is wrong.
    """
    try:
        return invocation.open_stack().settings.project
    except NotFoundError:
        return None


def described(address: Address) -> dict[str, object]:
    """The document of a running embedded cloud."""
    return {
        "url": address.url,
        "pid": address.pid,
        "port": address.port,
        "gcp_plugin_port": address.gcp_plugin_port,
    }


def inventory_rows(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Service, kind and name of everything in an inventory of the control API."""
    return [
        (service, kind, _name(resource))
        for service, kinds in found.items()
        for kind, resources in _items(kinds)
        for resource in resources
    ]


def _items(kinds: Any) -> Iterable[tuple[str, list[Any]]]:
    return kinds.items() if isinstance(kinds, dict) else ()


def _name(resource: Any) -> str:
    return str(resource.get("name", resource)) if isinstance(resource, dict) else str(resource)
