"""The steps of `tpuflex status`: ask the cloud, show the answer, exit with its code."""

from __future__ import annotations

import ipaddress
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.cli.endpoint.ask import session
from tpuflex.deploy.plan import number, planned_memory
from tpuflex.duration import format_roughly
from tpuflex.errors import AccessError, TpuflexError
from tpuflex.host.serving import Serving, ServingPhase
from tpuflex.operate.health import Health, ask_health
from tpuflex.operate.reach import reached
from tpuflex.operate.route import Route, route
from tpuflex.operate.status import slice_status
from tpuflex.planning.cost import cost_in
from tpuflex.planning.request import MemoryRequest, NotPlannable
from tpuflex.planning.stack import plan_stack
from tpuflex.queued_resource.outcomes import ACCEPTED, BOOTING, Condition
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.recorded_slices import recorded_requests
from tpuflex.startup.served import release
from tpuflex.terminal.boot_bars import boot_bars
from tpuflex.terminal.output import for_stack

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.planning.memory import MemoryPlan
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.terminal.output import Output


#: Said of a host whose last word is old.
_GONE = "the host, or its watch, may be gone"

#: In the headline of ``status``, by phase; one that serves is READY.
HEADLINES = {
    ServingPhase.DRAINING: "draining",
    ServingPhase.DEGRADED: "its server is started again",
    ServingPhase.FAILED: "the server failed",
}


def server_text(serving: Serving | None, now: datetime) -> str:
    """The phase, what it answers, why it does not serve, and how old that is where it is too old to
    be relied on; empty before READY."""
    if serving is None:
        return ""
    parts = [serving.phase.value]
    if serving.running or serving.waiting or serving.phase is ServingPhase.DRAINING:
        waiting = f", {serving.waiting} waiting" if serving.waiting else ""
        plural = "" if serving.running == 1 else "s"
        parts.append(f"{serving.running} request{plural} running{waiting}")
    if serving.drained:
        parts.append("drained")
    if serving.restarts:
        parts.append("started again once, because it was frozen")
    text = "; ".join(parts)
    said = f"{text}: {serving.reason}" if serving.reason else text
    if not serving.is_old(now.timestamp()):
        return said
    spoke = datetime.fromtimestamp(serving.at, UTC)
    when = spoke.astimezone().strftime("%Y-%m-%d %H:%M %Z")
    age = format_roughly(now - spoke)
    return f"{said}\nsaid {age} ago, at {when}, though it is due every minute: {_GONE}"


#: Seconds for a tunnel to open.
_TUNNEL_WITHIN_S = 20.0
#: Said of a slice that has the stack's name and marker, and the id of an unknown state.
_OTHER_STATE = (
    "another state ({}), which this home has not seen: a colleague's, or a lost one\n"
    '("Working together" in README.md; `tpuflex recover --take-over`)'
)
#: What to do about it: `down` and `up` of this state leave it alone.
_NOT_ENDED_HERE = (
    "whoever has that state ends it with `tpuflex down`; here that leaves it alone, until its state"
    " is shared or taken over"
)


def run_status(invocation: Invocation, cloud: Connection, *, tunnel: bool = True) -> None:
    """Ask for the slice of the stack of ``cloud`` and show it.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        tunnel: whether a tunnel may be opened to ask whether the endpoint answers.

    Raises:
        NotFoundError: the stack has no request for a slice.
        AccessError: reading is refused; says where the state last knew of a slice.
        SystemExit: with the exit code of the slice's state.
    """
    stack = cloud.stack
    try:
        status = slice_status(
            stack.settings,
            stack.names,
            cloud.tpu,
            now=cloud.now(),
            recorded=cloud.recorded_zones,
        )
    except AccessError as error:
        raise with_last_known(error, recorded_requests(cloud)) from error
    seen = cloud.seen_states.of(stack.name)
    foreign = status.state_id not in {"", *seen}
    answers = health(invocation, cloud, status, tunnel=tunnel) if status.ready else None
    show_status(invocation.output, stack, status, cloud.now(), foreign=foreign, answers=answers)


def health(
    invocation: Invocation, cloud: Connection, status: SliceStatus, *, tunnel: bool
) -> Health:
    """Whether the endpoint answers now. That it cannot be asked is an answer, too: the rest of the
    status is known."""
    address = status.address
    if not tunnel and not ipaddress.ip_address(address).is_loopback:
        cidrs = cloud.stack.settings.network.allowed_cidrs
        if route(address, embedded=cloud.stack.embedded, allowed_cidrs=cidrs) is Route.IAP:
            return Health(None, why=f"{address} is a private address (--no-tunnel)")
    try:
        with reached(invocation, cloud, status, tunnel=tunnel, within=_TUNNEL_WITHIN_S) as found:
            way = found.through
            connections = session(cloud, found.url)
            return ask_health(found.url, connections, through=way, now=time.monotonic)
    except TpuflexError as error:
        return Health(None, why=" ".join((error.message, error.hint)).strip())


def show_status(
    output: Output,
    stack: Stack,
    status: SliceStatus,
    now: datetime,
    *,
    foreign: bool = False,
    answers: Health | None = None,
) -> None:
    """Print ``status`` and exit.

    Args:
        output: where it goes.
        stack: the stack.
        status: what to print.
        now: the time by the clock of the stack's cloud.
        foreign: whether a state has made the slice that this home has not seen.
        answers: whether the endpoint answers now, where that was looked at.

    Raises:
        SystemExit: exit code 0 when the host serves, 3 while the request waits, the host boots or
            starts its server again, 7 when somebody has to act.
    """
    per_hour = cost_in(stack.settings, status.zone).per_hour
    spent = status.cost(per_hour, now)
    endpoint = stack.settings.url(status.address)
    zones = stack.settings.slice.zones
    version = status.host.vllm_version if status.host else ""
    insecure = too_old(version, stack)
    advice = _NOT_ENDED_HERE if foreign else advice_text(status, stack)
    output.document(
        {
            "stack": stack.name,
            "cloud": stack.settings.cloud,
            "model": stack.settings.model.name,
            "ready": status.ready,
            "endpoint": endpoint,
            "usd_per_hour": number(per_hour),
            "usd_so_far": number(spent),
            "boot_seconds": status.host.seconds_by_phase() if status.host else {},
            "memory": planned_memory(stack.settings),
            "slice": {**status.to_json(), "advice": advice},
            "foreign": foreign,
            "insecure": insecure,
            "health": None if answers is None else answers.to_json(),
        }
    )
    rehearsed = " (rehearsal)" if stack.rehearsed else ""
    output.heading(f"Stack {stack.name}{rehearsed}: {headline(status)}")
    output.facts(
        (
            ("cloud", stack.cloud_text if stack.rehearsed else ""),
            ("queued resource", f"{status.queued_resource} in {status.zone}"),
            ("zone", zone_text(status, zones)),
            ("state", f"{status.state}: {status.sentence}"),
            ("reason", status.error),
            ("also", "\n".join(status.others)),
            ("made by", _OTHER_STATE.format(status.state_id) if foreign else ""),
            ("node", node_text(status)),
            ("host", host_text(status)),
            ("server", server_text(serving_of(status), now)),
            ("boot", boot_text(status, now, plain=output.ascii_only)),
            ("container", status.host.isolation if status.host else ""),
            ("vLLM", f"{version}, {insecure}" if insecure else version),
            ("compile cache", compile_cache_text(status)),
            ("KV cache", kv_cache_text(status, plan_stack(stack.settings))),
            ("error", status.host.reason if status.host else ""),
            ("endpoint", endpoint),
            ("answers", "" if answers is None else str(answers)),
            ("model", stack.settings.model.name),
            ("weights", weights_text(status)),
            ("bucket", existing_place(stack.settings)),
            ("gives up", moment_text(status.gives_up, now)),
            ("drains at", drains_text(status, now)),
            ("expires", moment_text(status.expires, now)),
            ("cost so far", "" if spent is None or stack.embedded else f"${spent}"),
            ("next", for_stack(advice, stack.name)),
        )
    )
    raise SystemExit(status.outcome.exit_code)


def headline(status: SliceStatus) -> str:
    """The state in a few words."""
    if status.ready:
        return "READY"
    serving = serving_of(status)
    if status.lifecycle is Lifecycle.ACTIVE and serving is not None:
        return HEADLINES.get(serving.phase, "READY")
    if status.lifecycle is Lifecycle.ACTIVE:
        return "the host failed" if status.host and status.host.error else "the host is booting"
    return status.condition.value


def serving_of(status: SliceStatus) -> Serving | None:
    """What a host says that was READY in its present boot."""
    return status.host.serving if status.host is not None and status.host.ready else None


def drains_text(status: SliceStatus, now: datetime) -> str:
    """When the host takes nothing new any more, because its run ends."""
    serving = serving_of(status)
    return moment_text(None if serving is None else serving.drains_at, now)


def node_text(status: SliceStatus) -> str:
    """The node's state and health."""
    health = f", {status.health}" if status.health else ""
    return f"{status.node_state}{health}" if status.node_state else ""


def host_text(status: SliceStatus) -> str:
    """The host's phase and what it says about it."""
    if status.unread:
        return f"its report cannot be read: {status.unread}"
    if status.host is None:
        return "has reported nothing yet" if status.node_state else ""
    detail = f": {status.host.detail}" if status.host.detail else ""
    return f"{status.host.phase}{detail}"


def boot_text(status: SliceStatus, now: datetime, *, plain: bool) -> str:
    """Where the time of the host's boot went, as bars."""
    return boot_bars(status.host, now.timestamp(), plain=plain)


def existing_place(settings: StackSettings) -> str:
    """Where the weights are in a bucket of the user's own; empty for any other."""
    existing = settings.model.weights.existing
    return f"yours: {existing.url}/{weights_prefix(settings.model)}" if existing else ""


def compile_cache_text(status: SliceStatus) -> str:
    """With which compiled programs the server started, and what was kept of them."""
    reported = status.host.compile_cache if status.host is not None else None
    return "" if reported is None else str(reported)


def kv_cache_text(status: SliceStatus, plan: MemoryPlan | NotPlannable) -> str:
    """The KV cache that the server reports, beside the one that was planned."""
    reported = status.host.kv_cache if status.host is not None else None
    if reported is None:
        return ""
    text = _cache(reported.num_blocks, reported.block_size, reported.tokens)
    if isinstance(plan, NotPlannable):
        return text
    text += _other_type(reported.cache_dtype, plan)
    same_cut = (reported.num_blocks, reported.block_size) == (plan.blocks, plan.block_size)
    # With windows, fewer tokens fit than the blocks have room for; a server may count either.
    counts = (plan.cached_tokens, plan.blocks * plan.block_size)
    if same_cut and reported.tokens in counts:
        return text if _other_type(reported.cache_dtype, plan) else f"{text}, as planned"
    share = 100 * (reported.tokens / plan.cached_tokens - 1) if plan.cached_tokens else 0.0
    planned = _cache(plan.blocks, plan.block_size, plan.cached_tokens)
    return f"{text}, {share:+.1f} % of the plan\nplanned: {planned}"


def _other_type(reported: str, plan: MemoryPlan) -> str:
    """Says that the cache has another type than planned; empty where it has not, or does not say.

    vLLM calls the model's own type ``auto``, and all 8-bit types ``fp8`` with a suffix or without.
    """
    asked = plan.request
    eight = (
        asked.kv_cache_dtype == "fp8"
        if isinstance(asked, MemoryRequest)
        else (asked.cache_bytes == 1)
    )
    if not reported or reported.startswith("fp8") == eight:
        return ""
    planned = "fp8" if eight else "the model's own type"
    return f"; in {reported}, planned in {planned}"


def too_old(version: str, stack: Stack) -> str:
    """Why vLLM ``version`` should not serve; empty where it may, or is not known."""
    row = stack.settings.catalog.image(stack.settings.serving.image.partition("@")[2])
    own = row.security_floor if row is not None else None
    # A row may ask for more; that it asks for less closes no hole.
    floor = max(own or "0", SECURITY_FLOOR, key=release)
    if not version or release(version) >= release(floor):
        return ""
    return f"OLDER than {floor}: it has known security holes. Write another image and run `up`"


def _cache(blocks: int, size: int, tokens: int) -> str:
    return f"{blocks:,} blocks of {size:,} tokens, {tokens:,} in all"


def weights_text(status: SliceStatus) -> str:
    """The hash of the weights that the host serves, and the planned one where it is another."""
    served = status.host.weights if status.host is not None else ""
    if status.other_weights:
        return f"{served}\nOTHERS are planned: {status.weights}, from the host's next boot on"
    return served or (f"{status.weights} (not fetched yet)" if status.weights else "")


def moment_text(then: datetime | None, now: datetime) -> str:
    """A time in the machine's time zone, and how far that is from ``now``; empty for none."""
    if then is None:
        return ""
    minutes = max(0, int((then - now).total_seconds()) // 60)
    moment = then.astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return f"{moment} (in {minutes // 60} h {minutes % 60:02} min)"


#: Said of a slice that was requested before the stack file was changed.
_OTHER_ZONE = (
    "{} is none of tpuflex:slice.zones any more: `tpuflex up` replaces the slice,\n"
    "`tpuflex down` deletes it there"
)
#: Said of one whose run is over: there is nothing to replace, and `rerun` need not be changed.
_OTHER_ZONE_ENDED = (
    "{} is none of tpuflex:slice.zones any more, and the run is over:\n"
    "`tpuflex up` starts a new run in {}"
)
_ENDED_ELSEWHERE = "for a new run: `tpuflex up`; `tpuflex down` cleans up"
#: Said where the stack file asks for the next run, whatever else it says.
_ENDED_RENEWS = (
    "`tpuflex up` starts the next run (tpuflex:slice.renew_before); `tpuflex down` cleans up"
)
#: Said where the cloud refuses to tell.
_LAST_KNOWN = "The stack's state last knew of {}: it may still run, and be billed."
#: Said of a host that has not served yet, where the stack file says ``on_boot_failure: delete``.
_DELETED_BY_ITS_UP = (
    "; only the `up` during which it was granted deletes it if its boot\n"
    "fails (tpuflex:slice.on_boot_failure): a later one does not, `tpuflex down` does"
)


def with_last_known(error: AccessError, requests: tuple[str, ...]) -> AccessError:
    """``error`` with what the state has: what is billed must not be hidden by a refusal."""
    if not requests:
        return error
    message = f"{error.message}\n{_LAST_KNOWN.format(', '.join(requests))}"
    return type(error)(message, hint=error.hint, code=error.code)


def zone_text(status: SliceStatus, zones: tuple[str, ...]) -> str:
    """What `up` does about a slice outside of ``zones``; empty for one inside."""
    if status.zone in zones:
        return ""
    if status.condition is Condition.ENDED:
        return _OTHER_ZONE_ENDED.format(status.zone, " or ".join(zones))
    return _OTHER_ZONE.format(status.zone)


def advice_text(status: SliceStatus, stack: Stack) -> str:
    """What to do about the slice, with what the stack file says about it."""
    slice_ = stack.settings.slice
    if status.condition is Condition.ENDED and slice_.renew_before is not None:
        return _ENDED_RENEWS
    if status.condition is Condition.ENDED and status.zone not in slice_.zones:
        return _ENDED_ELSEWHERE
    if status.condition is Condition.ENDED and slice_.on_run_end == "accept":
        return ACCEPTED.text
    if status.outcome is BOOTING and slice_.on_boot_failure == "delete":
        return status.advice + _DELETED_BY_ITS_UP
    return status.advice
