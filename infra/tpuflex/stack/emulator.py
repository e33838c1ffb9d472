"""The embedded cloud's process, as the command line starts, stops and calls it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuflex.advice import Advice
from tpuflex.errors import EmulatorError

if TYPE_CHECKING:
    from embedded_cloud.core.address import Address

_TIMEOUT = 30.0
#: Kinds of credentials on the embedded cloud: as in the area ``tokens`` of its strictness.
CREDENTIAL_KINDS = ("token", "user", "service-account", "impersonated", "external", "metadata")
#: Set by `tpuflex emulator env --credentials`: which kind tpuflex uses for stacks there.
CREDENTIALS_VARIABLE = "TPUFLEX_EMULATOR_CREDENTIALS"


class Daemon:
    """The embedded cloud whose state is in ``home``/emulator."""

    def __init__(self, home: Path) -> None:
        self.state = home / "emulator"

    def address(self) -> Address | None:
        """Its address, or None when it is not running."""
        from embedded_cloud import daemon

        return daemon.status(self.state)

    def start(self, port: int | None = None) -> Address:
        """Start it unless it is running: on ``port``, else the default port, else a free one.

        Raises:
            EmulatorError: it cannot start; names the port in use and its holder.
        """
        from embedded_cloud import daemon
        from embedded_cloud.core.environment import DEFAULT_PORT

        if port is not None:
            return daemon.start(self.state, port=port)
        try:
            return daemon.status(self.state) or daemon.start(self.state, port=DEFAULT_PORT)
        except EmulatorError:
            # Most likely another project's emulator has the default port, which nobody asked for.
            return daemon.start(self.state, port=0)

    def stop(self) -> bool:
        """Stop it, and take its strictness back; return whether it was running."""
        from embedded_cloud import daemon

        with suppress(EmulatorError):  # it is not running, or does not answer any more
            self.call("POST", "strictness?preset=lenient")
        return daemon.stop(self.state)

    def reset(self) -> None:
        """Delete all state, whether it is running or not."""
        from embedded_cloud import daemon

        daemon.reset(self.state)

    def require(self) -> Address:
        """Its address.

        Raises:
            EmulatorError: it is not running.
        """
        address = self.address()
        if address is None:
            raise EmulatorError(
                "The embedded cloud is not running.",
                hint=Advice("Start it with the stack: {up}. On its own: tpuflex emulator start"),
            )
        return address

    def require_current(self) -> None:
        """Check that the running one is of this version, and serves all that this version needs:
        it goes on running through an upgrade.

        Raises:
            EmulatorError: it is not, or not running.
        """
        from embedded_cloud.daemon import outdated

        address = self.require()
        if why := outdated(self.call("GET", "health")):
            raise EmulatorError(
                f"The embedded cloud that is running (process {address.pid}) {why}.",
                hint="End it and run the command again; its state is kept: tpuflex emulator stop",
            )

    def strictness(self) -> str:
        """How strict it is, in words: a preset, and the areas that are otherwise.

        Raises:
            EmulatorError: it is not running.
        """
        from embedded_cloud.strict.book import PRESETS

        rules = self.call("GET", "strictness")
        other = {
            name: [area for area, rule in preset.to_json().items() if rules[area] != rule]
            for name, preset in PRESETS.items()
        }
        nearest = min(other, key=lambda name: len(other[name]))
        return " but for ".join(filter(None, (nearest, ", ".join(other[nearest]))))

    def credentials_kind(self, asked: str = "") -> str:
        """The kind of credentials that clients use: ``asked``, or what the strictness says.

        Raises:
            EmulatorError: it is not running.
        """
        return asked or str(self.call("GET", "strictness")["tokens"]["credentials"])

    def acts_as_caller(self, kind: str) -> bool:
        """Whether the gcp plugin has to act as the account of a kind of credentials, since it is
        that account's rights that decide.

        Raises:
            EmulatorError: it is not running.
        """
        return kind != "token" and bool(self.call("GET", "strictness")["iam"]["enforced"])

    def environment(
        self, project: str | None = None, *, stand_in: bool = True, credentials: str = ""
    ) -> dict[str, str]:
        """Variables for clients of the running embedded cloud.

        Args:
            project: project id that clients use by default.
            stand_in: whether the engine attaches to the stand-in for the gcp plugin.
            credentials: kind of credentials; by default what the strictness says.

        Raises:
            EmulatorError: it is not running, or knows no such kind.
        """
        from embedded_cloud.core.environment import DEFAULT_PROJECT, client_environment
        from embedded_cloud.daemon import wait_for_plugin

        address = self.require()
        if stand_in:
            address = wait_for_plugin(self.state)
        project = project or DEFAULT_PROJECT
        kind = self.credentials_kind(credentials)
        wanted = {"kind": kind, "project": project}
        return client_environment(
            base_url=address.url,
            state_dir=self.state,
            project=project,
            gcp_plugin_port=address.gcp_plugin_port if stand_in else None,
            credentials=None if kind == "token" else self.call("POST", "credentials", wanted),
        )

    def tunnel_environment(self) -> dict[str, str]:
        """Further variables for gcloud when it connects to a host through the emulated IAP.

        Raises:
            EmulatorError: it is not running, or its hosts are on loopback.
        """
        from embedded_cloud.core.environment import tunnel_environment

        found = self.call("GET", "iap")
        return tunnel_environment(int(found["port"]), Path(str(found["certificate"])))

    def now(self) -> datetime:
        """The time on its own clock.

        Raises:
            EmulatorError: it is not running.
        """
        return datetime.fromtimestamp(float(self.call("GET", "clock")["epoch"]), UTC)

    def call(self, method: str, action: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the control API.

        Raises:
            EmulatorError: it is not running, or refused the call.
        """
        import http.client

        from embedded_cloud.core import control_client

        address = self.require()
        try:
            return control_client.call(
                self.state, address.port, method, action, body, timeout_s=_TIMEOUT
            )
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EmulatorError(f"{address.url} does not answer: {error}.") from error
