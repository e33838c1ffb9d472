"""How a gateway is: the document that it serves at /tpuflex/gateway, and how it is asked for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import requests
from pydantic import BaseModel, ConfigDict, ValidationError
from urllib3.exceptions import HTTPError

from tpuflex.errors import AccessError, ApiError, ServerDownError
from tpuflex.files.trusted import read_private
from tpuflex.gateway.budgets import MICROS
from tpuflex.gateway.config import key_file, local_address
from tpuflex.gateway.counters import by_name
from tpuflex.gateway.first_token import Pace
from tpuflex.gateway.running import running_gateway, running_gateways
from tpuflex.google.http import OwnersAdapter
from tpuflex.operate.endpoint_connection import direct_session, tls_session
from tpuflex.operate.health import get, read_body
from tpuflex.settings.gateway import TlsSettings

if TYPE_CHECKING:
    from tpuflex.gateway.admission import Admission
    from tpuflex.gateway.budgets import Budgets
    from tpuflex.gateway.config import GatewayConfig
    from tpuflex.gateway.counters import Counters
    from tpuflex.gateway.fleet import Fleet
    from tpuflex.gateway.upstream import Upstream
    from tpuflex.settings.gateway import GatewaySettings

_MOST_BYTES = 16 * 1024 * 1024


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True)


class LateStatus(_Document):
    """That a breaker is open: more than 5 % of an upstream's first tokens are late.

    Attributes:
        pace: how late.
        limit: seconds after which they count as late.
        since: since when it is open.
    """

    pace: Literal["slow", "very_slow"]
    limit: float
    since: datetime


class UpstreamStatus(_Document):
    """How an upstream is.

    Attributes:
        name: its name; of a slice of a stack with its node.
        state: whether it takes requests; a draining one ends those that it has.
        why: why it takes none; empty of an open one.
        since: since when its state is this one.
        in_flight: requests that it has from this gateway.
        limit: how many it may have.
        waiting: requests in its own queue.
        first_token_p95: seconds in which 95 % of the first tokens of the last minutes came; None if
            there were none.
        late: the breakers that are open, by class.
        kv_use: share of its KV cache in use.
        run_seconds_left: seconds until its run ends; None if nobody ends it.
    """

    name: str
    state: Literal["open", "draining", "closed"]
    why: str
    since: datetime
    in_flight: int
    limit: int
    waiting: int
    first_token_p95: float | None
    late: dict[str, LateStatus]
    kv_use: float
    run_seconds_left: float | None


class ClassStatus(_Document):
    """How a class of requests fares.

    Attributes:
        name: its name; empty for what was refused before its class was known.
        waiting: requests in the waiting room.
        room: how many may wait.
        answered: requests that were answered, since the start.
        not_answered: requests that were refused, or did not end well, by reason.
    """

    name: str
    waiting: int
    room: int
    answered: int
    not_answered: dict[str, int]


class LimitStatus(_Document):
    """What a client has used of a limit, in the window that runs now.

    Attributes:
        client: its name.
        limit: the limit's name.
        used: what it has used; for what is under way, the most that it can.
        most: what it may use.
    """

    client: str
    limit: str
    used: float
    most: float


class GatewayStatus(_Document):
    """How a gateway is.

    Attributes:
        at: when.
        since: when it was started.
        models: how many upstreams of each model take requests.
        unseen_stacks: the stacks that have no slice, with why, and what to do about it.
        upstreams: the upstreams.
        classes: the classes of requests.
        limits: the limits that clients have used something of, the fullest first.
        why: why it does not answer any more; empty while it does.
    """

    at: datetime
    since: datetime
    models: dict[str, int]
    unseen_stacks: dict[str, str]
    upstreams: tuple[UpstreamStatus, ...]
    classes: tuple[ClassStatus, ...]
    limits: tuple[LimitStatus, ...]
    why: str = ""

    def to_json(self) -> dict[str, object]:
        """The document of ``gateway status --json``."""
        return self.model_dump(mode="json")


def status_of(
    settings: GatewaySettings,
    fleet: Fleet,
    admission: Admission,
    counters: Counters,
    budgets: Budgets,
    *,
    since: datetime,
    at: datetime,
    now: float,
) -> GatewayStatus:
    """How the gateway is that these are parts of.

    Args:
        settings: its settings.
        fleet: its upstreams.
        admission: has those who wait.
        counters: how requests have ended.
        budgets: what clients have used.
        since: when it was started.
        at: the time of day.
        now: the time, by the monotonic clock of all parts.
    """
    ends = counters.ends()
    rooms = {name: rules.waiting for name, rules in settings.all_classes.items()}
    return GatewayStatus(
        at=at,
        since=since,
        models={model: fleet.serving(model) for model in fleet.models()},
        unseen_stacks=dict(fleet.unseen_stacks()),
        upstreams=tuple(
            _upstream(some[-1], sum(each.in_flight for each in some), counters, at, now)
            for some in by_name(fleet.upstreams()).values()
        ),
        classes=tuple(
            ClassStatus(
                name=name,
                waiting=admission.waiting(name),
                room=room,
                answered=ends.get(name, {}).get("", 0),
                not_answered={
                    reason: count for reason, count in ends.get(name, {}).items() if reason
                },
            )
            for name, room in (rooms | ({"": 0} if "" in ends else {})).items()
        ),
        limits=_limits(settings, budgets),
    )


def _upstream(
    upstream: Upstream, in_flight: int, counters: Counters, at: datetime, now: float
) -> UpstreamStatus:
    def moment(then: float) -> datetime:
        return at - timedelta(seconds=now - then)

    return UpstreamStatus(
        name=upstream.name,
        state="draining" if upstream.draining else "open" if upstream.open else "closed",
        why="" if upstream.serves else upstream.why,
        since=moment(upstream.since),
        in_flight=in_flight,
        limit=upstream.limit.value,
        waiting=upstream.waiting,
        first_token_p95=counters.first_token_p95(upstream.name),
        late={
            name: LateStatus(
                pace="slow" if breaker.opened is Pace.SLOW else "very_slow",
                limit=breaker.limit,
                since=moment(breaker.since),
            )
            for name, breaker in upstream.breakers.items()
            if breaker.opened
        },
        kv_use=upstream.kv_use,
        run_seconds_left=None if upstream.ends is None else upstream.ends - now,
    )


def _limits(settings: GatewaySettings, budgets: Budgets) -> tuple[LimitStatus, ...]:
    found = list[LimitStatus]()
    for client, limits in budgets.used().items():
        for limit, used in limits.items():
            most = float(getattr(settings.clients[client].limits, limit))
            in_units = used / MICROS if limit == "usd_per_day" else float(used)
            found.append(LimitStatus(client=client, limit=limit, used=in_units, most=most))
    return tuple(sorted(found, key=lambda each: each.used / each.most, reverse=True))


def watch_status(
    config: GatewayConfig,
    home: Path,
    seconds: float,
    *,
    pause: Callable[[float], None] = time.sleep,
) -> Generator[GatewayStatus]:
    """A look every so many seconds, without an end; one that gets no answer has the last one, and
    says why.

    Args:
        config: the configuration of the gateway that runs on this machine.
        home: the state directory, in which its key is.
        seconds: from one look to the next.
        pause: waits so many seconds.

    Raises:
        TpuflexError: there is no answer to the first look; as :func:`read_status`.
    """
    found = read_status(config, home)
    while True:
        yield found
        pause(seconds)
        try:
            found = read_status(config, home)
        except ApiError as error:
            found = found.model_copy(update={"why": error.message})


def read_status(config: GatewayConfig, home: Path) -> GatewayStatus:
    """How the gateway is that runs on this machine.

    Args:
        config: its configuration.
        home: the state directory, in which its key is.

    Raises:
        ServerDownError: none runs with this configuration, or it does not answer.
        AccessError: it refuses the key, or another user's process listens there.
        ApiError: something else answers.
    """
    url, file = _url(config, home), key_file(home, "operator")
    session = direct_session()
    session.mount("http://", OwnersAdapter())
    if isinstance(config.settings.tls, TlsSettings):
        session = tls_session(_fingerprint(config.files / config.settings.tls.certificate_file))
    headers = {"Authorization": f"Bearer {read_private(file).strip()}"}
    try:
        with get(session, url, "/tpuflex/gateway", headers) as response:
            status, body = response.status_code, read_body(response, _MOST_BYTES)
    except requests.exceptions.SSLError as error:
        raise ApiError(
            f"What listens at {url} has another certificate.",
            url=url,
            hint="If certificate_file was replaced since the gateway was started, start it again.",
        ) from error
    except (requests.RequestException, HTTPError) as error:
        raise ServerDownError(
            f"The gateway does not answer: no connection to {url}.",
            url=url,
            hint="It may be ending: look again in half a minute. If it is still there, stop it, and"
            f" run: tpuflex gateway run {config.options}",
        ) from error
    if status == requests.codes.unauthorized:
        raise AccessError(
            f"The gateway at {url} refuses the key in {file}.",
            hint="Ask it with the project, and the user, that started it.",
        )
    try:
        return GatewayStatus.model_validate_json(body if status == requests.codes.ok else b"")
    except ValidationError as error:
        raise ApiError(
            f"What answers at {url} is no gateway of tpuflex.", status=status, url=url
        ) from error


def _url(config: GatewayConfig, home: Path) -> str:
    one = running_gateway(home, config)
    if one is None:
        others = "".join(
            f"\nThe one with {each.config} runs at port {each.port}: tpuflex gateway status"
            f" {each.options}"
            for each in running_gateways(home)
        )
        raise ServerDownError(
            f"No gateway with {config.source} runs here.",
            hint=f"Run: tpuflex gateway run {config.options}{others}",
        )
    return config.url(local_address(one.host), one.port)


def _fingerprint(certificate: Path) -> str:
    """SHA-256, in hex, of the first certificate in a file."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    return x509.load_pem_x509_certificate(certificate.read_bytes()).fingerprint(SHA256()).hex()
