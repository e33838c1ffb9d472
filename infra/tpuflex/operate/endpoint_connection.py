"""How an endpoint, and the host that it runs on, are reached from here.

At its address, or through a tunnel that is closed afterwards. A host on Google is reached by
gcloud, over SSH through IAP.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter

from tpuflex import gcloud_commands
from tpuflex.advice import Advice
from tpuflex.boot.certificate import read_certificate
from tpuflex.errors import AccessError, NotFoundError, TpuflexError
from tpuflex.gcloud_commands import GcloudCommand, held_tunnel, install
from tpuflex.google.http import OwnersAdapter
from tpuflex.naming import API_KEY, TLS_CERTIFICATE
from tpuflex.operate.gcloud import INSTALL_PAGE, find_gcloud
from tpuflex.operate.health import Probe
from tpuflex.operate.iap_tunnel import OPEN_WITHIN_S, open_tunnel
from tpuflex.operate.slice import slice_status
from tpuflex.stack.emulator import Daemon

if TYPE_CHECKING:
    from tpuflex.naming import SecretRole
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report

#: Seconds for an address to take a connection, where the stack's firewall admits any range.
DIRECT_WITHIN_S = 2.0
#: Seconds that a connection must have held to be opened again, and the pause before.
_HELD_S = 60.0
_PAUSE_S = 5.0

#: What mends a secret of the stack's own that was deleted, and one of the user's own.
_GONE = Advice(
    "`{up}` makes it again, and a key gets a new value: then it says how the host gets to know it."
)
_GONE_EXISTING = Advice(
    "It is a secret of yours: bring it back, or name another one under tpuflex:secrets in the stack"
    " file and run `{up}`."
)


class Route(StrEnum):
    """A way to an endpoint."""

    DIRECT = "direct"
    TRY = "try"
    IAP = "iap"


def route_to(address: str, *, embedded: bool, allowed_cidrs: Collection[str]) -> Route:
    """The way to an endpoint at ``address``.

    An address is only tried where the stack admits any range at all: in another network the same
    private address may be a stranger's, who would be sent the API key.

    Args:
        address: the host's internal address.
        embedded: whether the host is emulated: its private address leads nowhere.
        allowed_cidrs: the ranges that the stack's firewall lets reach the serving port.
    """
    if ipaddress.ip_address(address).is_loopback:
        return Route.DIRECT
    return Route.TRY if allowed_cidrs and not embedded else Route.IAP


def takes_connections(address: str, port: int, *, within: float = DIRECT_WITHIN_S) -> bool:
    """Whether something at ``address`` takes a TCP connection within so many seconds."""
    try:
        with socket.create_connection((address, port), within):
            return True
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class EndpointConnection:
    """An endpoint within reach.

    Attributes:
        url: its base URL from here, which ends in ``/v1``.
        through: ``direct`` or ``iap``.
    """

    url: str
    through: Route


@contextmanager
def connected(
    cloud: Connection,
    status: SliceStatus,
    report: Report,
    *,
    tunnel: bool,
    within: float = OPEN_WITHIN_S,
) -> Iterator[EndpointConnection]:
    """The endpoint of ``status``, which has an address, while the block runs.

    Args:
        cloud: the stack's cloud.
        status: its slice.
        report: receives why a tunnel is opened, and by which command.
        tunnel: whether a tunnel may be opened.
        within: seconds for it to open.

    Raises:
        TpuflexError: there is no gcloud, or it opens no tunnel.
    """
    settings, address = cloud.stack.settings, status.address
    why = why_a_tunnel(cloud, address) if tunnel else ""
    if not why:
        yield EndpointConnection(settings.url(address), Route.DIRECT)
        return
    port = settings.serving.port

    def words(local: int) -> tuple[str, ...]:
        command = held_tunnel(status.node, local_port=local, address=address, port=port)
        found = require_gcloud(command, cloud.environ)
        report(f"{why}: opening a tunnel through IAP.\n$ {command}")
        return found

    environ = tunnel_environment(cloud)
    with open_tunnel(words, environ, project=settings.project, within=within) as local:
        yield EndpointConnection(settings.url("127.0.0.1", port=local), Route.IAP)


def why_a_tunnel(cloud: Connection, address: str) -> str:
    """Why the endpoint at ``address`` is reached through a tunnel; empty if it is not."""
    settings = cloud.stack.settings
    cidrs = settings.network.allowed_cidrs
    way = route_to(address, embedded=cloud.stack.embedded, allowed_cidrs=cidrs)
    if way is Route.IAP:
        let_in = "" if cidrs else ", and tpuflex:network.allowed_cidrs lets nobody in"
        return f"{address} is a private address{let_in}"
    if way is Route.TRY and not takes_connections(address, settings.serving.port):
        return f"{address} takes no connection from here within {DIRECT_WITHIN_S:.0f} s"
    return ""


def serving_slice(cloud: Connection) -> SliceStatus:
    """The slice of the stack of ``cloud``, which has an address.

    Raises:
        NotFoundError: the stack is not up, or its host has no address yet.
    """
    stack = cloud.stack
    status = slice_status(stack.settings, stack.names, cloud.tpu, recorded=cloud.recorded_zones)
    if not status.address:
        raise not_there(cloud, status, "no endpoint")
    return status


def host_status(cloud: Connection) -> SliceStatus:
    """The stack's slice, which has a node.

    Raises:
        NotFoundError: there is no slice, or no node yet.
    """
    stack = cloud.stack
    status = slice_status(stack.settings, stack.names, cloud.tpu, recorded=cloud.recorded_zones)
    if not status.node_state:
        raise not_there(cloud, status, "no host")
    return status


def api_key(cloud: Connection) -> str:
    """The serving API key, from Secret Manager: the first one, where clients have a key each.

    Raises:
        NotFoundError, ConflictError: somebody has deleted it; says what mends that.
        AccessError: it may not be read.
    """
    return secret_value(cloud, API_KEY).strip().partition("\n")[0].strip()


def secret_value(cloud: Connection, role: SecretRole) -> str:
    """The value that the stack has for ``role``, which a running host has read when it booted.

    Raises:
        NotFoundError, ConflictError, AccessError: as :func:`api_key`.
    """
    version = cloud.secret_version(role)
    try:
        return cloud.secrets.access(version)
    except NotFoundError as error:
        secret, _, number = version.partition("/versions/")
        hint = _GONE_EXISTING if role in cloud.stack.settings.secrets.existing else _GONE
        raise NotFoundError(
            f"Version {number} of the secret {secret.rpartition('/')[2]} is gone: it was deleted"
            " outside of tpuflex. A host that runs serves with its value until it boots again.",
            hint=hint,
        ) from error


class _DirectSession(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """Nowhere: whom the question goes to is not for the server to say. Asked of every
        answer, even where redirects are off, and then read as a URL."""

    def send(self, request: requests.PreparedRequest, **how: Any) -> requests.Response:
        """As :meth:`requests.Session.send`, which lets a TypeError out: a ``Content-Type`` may be
        such that ``http.client`` cannot read it (``email.utils.decode_params``)."""
        try:
            return super().send(request, **how)
        except TypeError as error:
            raise requests.ConnectionError("an answer that cannot be read") from error


def direct_session() -> requests.Session:
    """A session that takes no proxy and no credentials from the environment, and goes nowhere
    but where it is told to."""
    session = _DirectSession()
    session.trust_env = False
    return session


class _FingerprintAdapter(HTTPAdapter):
    """Connects only to the server whose certificate has one fingerprint."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, assert_fingerprint=self._fingerprint, **options)


def tls_session(fingerprint: str) -> requests.Session:
    """A session that talks https, and only to the server with that very certificate.

    Its name is not compared: clients reach the server by an address, or through a tunnel.

    Args:
        fingerprint: SHA-256 of the certificate, in hex.
    """
    session = direct_session()
    # The certificate itself is compared instead of those that sign it.
    session.verify = False
    session.mount("https://", _FingerprintAdapter(fingerprint))
    return session


def clear_text_refusal(cloud: Connection, endpoint: str) -> str:
    """Why ``endpoint`` is not sent the API key: the stack has a certificate, and it would go over
    the network in clear. Empty for one that may have it."""
    if TLS_CERTIFICATE not in cloud.stack.settings.secrets.roles or endpoint.startswith("https://"):
        return ""
    return (
        f"{endpoint} would take the API key over the network in clear, and the stack has a"
        " certificate: write https://."
    )


def session(cloud: Connection, endpoint: str) -> requests.Session:
    """Connections to ``endpoint``: over TLS, to the holder of the stack's certificate alone, whose
    fingerprint is the same at both ends of a tunnel; else, on this machine, to a process of this
    user alone, since every user can listen where an emulated host, or a tunnel, should.

    Args:
        cloud: the stack's cloud.
        endpoint: base URL, of a tunnel's local end where there is one.

    Raises:
        AccessError: the key would be sent in clear; as :func:`clear_text_refusal`.
        TpuflexError: the certificate cannot be had, or used.
    """
    if fingerprint := certificate_fingerprint(cloud, endpoint):
        return tls_session(fingerprint)
    plain = direct_session()
    plain.mount("http://", OwnersAdapter())
    return plain


def certificate_fingerprint(cloud: Connection, endpoint: str) -> str:
    """SHA-256, in hex, of the certificate that the server at ``endpoint`` has; empty where the
    stack has none. Raises as :func:`session`."""
    if TLS_CERTIFICATE not in cloud.stack.settings.secrets.roles:
        return ""
    if why := clear_text_refusal(cloud, endpoint):
        raise AccessError(why)
    pem = secret_value(cloud, TLS_CERTIFICATE)
    return read_certificate(pem, datetime.now(UTC)).fingerprint


def probe(cloud: Connection, endpoint: EndpointConnection) -> Probe:
    """What asks the server at ``endpoint`` whether it serves.

    Raises:
        AccessError, TpuflexError: as :func:`session`.
    """
    model, connections = cloud.stack.settings.model.name, session(cloud, endpoint.url)
    way = endpoint.through
    return Probe(endpoint.url, model, connections, way, time.monotonic, cloud.sleep)


def unreachable_hint(
    cloud: Connection, status: SliceStatus, *, through: Route = Route.DIRECT
) -> Advice:
    """What to try when the endpoint cannot be reached, directly or ``through`` a tunnel."""
    ready = Advice("`{status}` says whether the host is READY.")
    if through is Route.IAP:
        return Advice("The tunnel is open, and nothing answers at its end: {ready}", ready=ready)
    if cloud.stack.embedded:
        return ready
    port = cloud.stack.settings.serving.port
    command = gcloud_commands.tunnel(
        status.node, local_port=port, address=status.address, port=port
    )
    return Advice(
        "{ready} The endpoint has a private address: add your range to "
        "tpuflex:network.allowed_cidrs, or open a tunnel and ask through it:\n"
        "  {command}\n  {described}\n"
        "  {ask} --url {local} …",
        ready=ready,
        command=command,
        described=command.hint,
        local=cloud.stack.settings.url("127.0.0.1"),
    )


def tunnel_environment(cloud: Connection) -> dict[str, str]:
    """The environment for gcloud when it connects to a host of ``cloud``. On the embedded cloud it
    goes through an IAP of its own, by the very commands that go through Google's.

    Raises:
        EmulatorError: the embedded cloud has none: its hosts are on loopback, or it is not running.
    """
    environ = dict(cloud.environ)
    if cloud.stack.embedded:
        environ |= Daemon(cloud.stack.project.home).tunnel_environment()
    return environ


def require_gcloud(command: GcloudCommand, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The words of ``command``, with the path of a gcloud that can run it.

    Raises:
        TpuflexError: there is no gcloud on PATH, it does not work, or lacks the component.
    """
    gcloud = find_gcloud(environ)
    if gcloud is None:
        raise TpuflexError(
            "gcloud is not on PATH.", hint=f"Install it ({INSTALL_PAGE}), or type there: {command}"
        )
    # Without the component, gcloud would offer to install it, or wait for an answer.
    if command.component and command.component not in gcloud.components:
        raise TpuflexError(
            f"{gcloud.program} lacks the component {command.component}, which alone can go through "
            "IAP to a TPU VM.",
            hint=f"Run: {install(command.component)}",
        )
    return (gcloud.program, *command.words[1:])


def reconnecting(run: Callable[[], int], cloud: Connection, report: Report) -> int:
    """Run a connection again whenever it breaks off after it has held for a while.

    gcloud itself tries ten times to connect, and again after a break; one that ends sooner has a
    reason that does not pass.

    Args:
        run: runs it until it ends; returns its exit code.
        cloud: has the clock.
        report: is told of it.

    Returns:
        The exit code of the last one: 0, or the one of a connection that did not hold.
    """
    while True:
        began = cloud.timing.monotonic()
        code = run()
        if code == 0 or cloud.timing.monotonic() - began < _HELD_S:
            return code
        report(f"The connection broke off (exit code {code}): once more in {_PAUSE_S:.0f} s.")
        cloud.sleep(_PAUSE_S)


def not_there(cloud: Connection, status: SliceStatus, lacking: str) -> NotFoundError:
    """The error for a stack whose slice is not as far as to have what is ``lacking``."""
    return NotFoundError(
        f"Stack {cloud.stack.name} has {lacking}: {status.queued_resource} is {status.state}, "
        f"{status.sentence}.",
        hint=status.advice.sentence(),
    )
