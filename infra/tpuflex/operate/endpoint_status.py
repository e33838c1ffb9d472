"""The status of an endpoint: its slice, whether it answers now, what it costs, and what to do.

Read from the cloud, not from Pulumi's state, so that it needs no engine and is right even after
a change from outside.
"""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.errors import AccessError, ApiError, BootError, NotFoundError, TpuflexError
from tpuflex.operate.endpoint_connection import Route, api_key, connected, probe, route_to
from tpuflex.operate.health import Health
from tpuflex.operate.slice import SliceStatus, Tpu, slice_status
from tpuflex.planning.cost import cost_in, usd
from tpuflex.planning.stack import planned_memory
from tpuflex.queued_resource.outcomes import ACCEPTED, BOOTING, Condition
from tpuflex.stack.progress import Report, silent
from tpuflex.startup.served import release

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

#: Seconds for a tunnel to open.
_TUNNEL_WITHIN_S = 20.0
#: What to do about a slice that another state has made: `down` and `up` of this one leave it alone.
_NOT_ENDED_HERE = Advice(
    "whoever has that state ends it with `{down}`; here that leaves it alone, until its state"
    " is shared or taken over"
)
#: Said of a slice whose run is over in a zone that the stack file does not name.
_ENDED_ELSEWHERE = Advice("for a new run: `{up}`; `{down}` cleans up")
#: Said where the stack file asks for the next run, whatever else it says.
_ENDED_RENEWS = Advice(
    "`{up}` starts the next run (tpuflex:slice.renew_before); `{down}` cleans up"
)
#: Said where the cloud refuses to tell.
_LAST_KNOWN = "The stack's state last knew of {}: it may still run, and be billed."
#: Said of a host that has not served yet, where the stack file says ``on_boot_failure: delete``.
_DELETED_BY_ITS_UP = Advice(
    "; only the `up` during which it was granted deletes it if its boot\n"
    "fails (tpuflex:slice.on_boot_failure): a later one does not, `{down}` does"
)


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """What there is of an endpoint.

    Attributes:
        stack: its stack.
        slice: its slice.
        at: when that was read, on the cloud's clock.
        foreign: whether a state has made the slice that this home does not know.
        health: whether the endpoint answers now; None where its host does not say READY.
    """

    stack: Stack
    slice: SliceStatus
    at: datetime
    foreign: bool = False
    health: Health | None = None

    @property
    def endpoint(self) -> str:
        """Its base URL."""
        return self.stack.settings.url(self.slice.address)

    @property
    def per_hour(self) -> Decimal | None:
        """US dollars an hour; None where the price is not known."""
        return cost_in(self.stack.settings, self.slice.zone).per_hour

    @property
    def spent(self) -> Decimal | None:
        """US dollars so far; None where the price is not known."""
        return self.slice.cost(self.per_hour, self.at)

    @property
    def version(self) -> str:
        """The version of vLLM, as the host says; or empty."""
        return self.slice.host.vllm_version if self.slice.host else ""

    @property
    def insecure(self) -> str:
        """Why that version should not serve; empty where it may, or is not known."""
        return too_old(self.version, self.stack)

    @property
    def ready(self) -> bool:
        """Whether it serves: the host says so, and what was asked has answered."""
        return self.slice.ready and (self.health is None or self.health.answers is not False)

    @property
    def advice(self) -> Advice:
        """What to do, with what the stack file says about it."""
        if self.foreign:
            return _NOT_ENDED_HERE
        if self.health is not None and self.health.problem is not None:
            return self.health.problem.hint
        return advice_text(self.slice, self.stack)

    @property
    def exit_code(self) -> int:
        """0 when it serves, 3 while the request waits, the host boots or starts its server again, 7
        when the user has to act."""
        if self.health is not None and self.health.problem is not None:
            return BootError.exit_code
        return self.slice.outcome.exit_code

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex status --json`` prints."""
        stack, host = self.stack, self.slice.host
        settings = stack.settings
        advice = stack.advise(self.advice)
        return {
            "stack": stack.name,
            "cloud": settings.cloud,
            "model": settings.model.name,
            "ready": self.ready,
            "endpoint": self.endpoint,
            "usd_per_hour": usd(self.per_hour),
            "usd_so_far": usd(self.spent),
            "boot_seconds": host.seconds_by_phase() if host else {},
            "memory": planned_memory(settings),
            "slice": {**self.slice.to_json(stack.name), "advice": advice},
            "foreign": self.foreign,
            "insecure": self.insecure,
            "health": None if self.health is None else self.health.to_json(),
        }


def status(cloud: Connection, report: Report = silent, *, tunnel: bool = True) -> EndpointStatus:
    """The status of the endpoint of the stack of ``cloud``.

    Args:
        cloud: the stack's cloud.
        report: receives why a tunnel is opened.
        tunnel: whether a tunnel may be opened to ask whether the endpoint answers.

    Raises:
        NotFoundError: the stack has no request for a slice.
        AccessError: reading is refused; says where the state last knew of a slice.
    """
    found = status_in_cloud(cloud, cloud.tpu)
    if not found.slice.ready:
        return found
    return replace(found, health=health(cloud, found.slice, report, tunnel=tunnel))


def status_in_cloud(cloud: Connection, tpu: Tpu) -> EndpointStatus:
    """The status of the endpoint of the stack of ``cloud`` as ``tpu`` has it; the endpoint itself
    is not asked. Raises as :func:`status`."""
    stack = cloud.stack
    try:
        found = slice_status(
            stack.settings, stack.names, tpu, now=cloud.now(), recorded=cloud.recorded_zones
        )
    except AccessError as error:
        raise with_last_known(error, cloud.recorded_requests()) from error
    own = stack.recorded.state_ids if stack.recorded else frozenset[str]()
    foreign = found.state_id not in {"", *own, *cloud.known_state_ids.of(stack.name)}
    return EndpointStatus(stack, found, cloud.now(), foreign)


def health(
    cloud: Connection, status: SliceStatus, report: Report = silent, *, tunnel: bool = True
) -> Health:
    """Whether the endpoint answers now. That it cannot be asked from here is an answer, too: it
    says nothing against the endpoint."""
    address = status.address
    if not tunnel and not ipaddress.ip_address(address).is_loopback:
        cidrs = cloud.stack.settings.network.allowed_cidrs
        if route_to(address, embedded=cloud.stack.embedded, allowed_cidrs=cidrs) is Route.IAP:
            return Health(None, why=f"{address} is a private address (--no-tunnel)")
    try:
        with connected(cloud, status, report, tunnel=tunnel, within=_TUNNEL_WITHIN_S) as found:
            return probe(cloud, found).ask(lambda: api_key(cloud))
    except NotFoundError as gone:  # the certificate that the server has
        return Health(None, why=gone.message, problem=gone)
    except TpuflexError as error:
        return Health(None, why=f"{error.message} {error.hint}".strip())


def gone_container(cloud: Connection) -> str:
    """A secret or bucket of the stack that is not there; empty for none, and where nobody may
    look."""
    with suppress(AccessError, ApiError):
        if secret := cloud.missing_secret():
            return f"The secret {secret}"
        if cloud.bucket == cloud.made_bucket and not cloud.is_there(cloud.made_bucket):
            return f"The bucket {cloud.made_bucket}"
    return ""


def too_old(version: str, stack: Stack) -> str:
    """Why vLLM ``version`` should not serve; empty where it may, or is not known."""
    row = stack.settings.catalog.image(stack.settings.serving.image.partition("@")[2])
    own = row.security_floor if row is not None else None
    # A row may ask for more; that it asks for less closes no hole.
    floor = max(own or "0", SECURITY_FLOOR, key=release)
    if not version or release(version) >= release(floor):
        return ""
    return f"OLDER than {floor}: it has known security holes. Write another image and run `up`"


def with_last_known(error: AccessError, requests: tuple[str, ...]) -> AccessError:
    """``error`` with what the state has: what is billed must not be hidden by a refusal."""
    if not requests:
        return error
    message = f"{error.message}\n{_LAST_KNOWN.format(', '.join(requests))}"
    return type(error)(message, hint=error.hint, code=error.code)


def advice_text(status: SliceStatus, stack: Stack) -> Advice:
    """What to do about the slice, with what the stack file says about it."""
    slice_ = stack.settings.slice
    if status.condition is Condition.ENDED and slice_.renew_before is not None:
        return _ENDED_RENEWS
    if status.condition is Condition.ENDED and status.zone not in slice_.zones:
        return _ENDED_ELSEWHERE
    if status.condition is Condition.ENDED and slice_.on_run_end == "accept":
        return Advice.of(ACCEPTED.text)
    if status.outcome is BOOTING and slice_.on_boot_failure == "delete":
        return Advice("{now}{later}", now=status.advice, later=_DELETED_BY_ITS_UP)
    return status.advice
