"""How `tpuflex status` shows an endpoint."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.duration import format_roughly
from tpuflex.host.serving import Serving, ServingPhase
from tpuflex.operate.endpoint_status import EndpointStatus
from tpuflex.planning.request import MemoryRequest, NotPlannable
from tpuflex.planning.stack import plan_stack
from tpuflex.queued_resource.outcomes import Condition
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.terminal.boot_bars import boot_bars
from tpuflex.terminal.output import moment_text

if TYPE_CHECKING:
    from tpuflex.operate.health import Health
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.planning.memory import MemoryPlan
    from tpuflex.settings.model import StackSettings
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
    text = "; ".join(parts)
    said = f"{text}: {serving.reason}" if serving.reason else text
    if not serving.is_old(now.timestamp()):
        return said
    spoke = datetime.fromtimestamp(serving.at, UTC)
    age = format_roughly(now - spoke)
    return f"{said}\nsaid {age} ago, at {_local(spoke)}, though it is due every minute: {_GONE}"


def restarts_text(serving: Serving | None) -> str:
    """How often the server was started again, and the last time; empty for never."""
    if serving is None or not serving.restarts:
        return ""
    times = "once" if serving.restarts == 1 else f"{serving.restarts} times"
    if serving.restarted_at is None:
        return times
    last = "" if serving.restarts == 1 else "the last time "
    return f"{times}, {last}at {_local(serving.restarted_at)}: {serving.restarted_why}"


def _local(time: datetime) -> str:
    return time.astimezone().strftime("%Y-%m-%d %H:%M %Z")


#: Said of a slice that has the stack's name and marker, and the id of an unknown state.
_OTHER_STATE = (
    "another state ({}), which this home has not seen: a colleague's, or a lost one\n"
    "(`tpuflex docs working-together`; `tpuflex recover --take-over`)"
)


def show_status(output: Output, found: EndpointStatus) -> None:
    """Print ``found``."""
    stack, status, now = found.stack, found.slice, found.at
    zones = stack.settings.slice.zones
    output.document(found.to_json())
    rehearsed = " (rehearsal)" if stack.rehearsed else ""
    output.heading(f"Stack {stack.name}{rehearsed}: {headline(status, found.health)}")
    output.facts(
        (
            ("cloud", stack.cloud_text if stack.rehearsed else ""),
            ("queued resource", f"{status.queued_resource} in {status.zone}"),
            ("zone", zone_text(status, zones)),
            ("state", f"{status.state}: {status.sentence}"),
            ("reason", status.error),
            ("also", "\n".join(status.others)),
            ("made by", _OTHER_STATE.format(status.state_id) if found.foreign else ""),
            ("node", node_text(status)),
            ("host", host_text(status)),
            ("server", server_text(serving_of(status), now)),
            ("restarts", restarts_text(serving_of(status))),
            ("boot", boot_text(status, now, plain=output.ascii_only)),
            ("container", status.host.isolation if status.host else ""),
            ("vLLM", ", ".join(filter(None, (found.version, found.insecure)))),
            ("compile cache", compile_cache_text(status)),
            ("KV cache", kv_cache_text(status, plan_stack(stack.settings))),
            ("error", status.host.reason if status.host else ""),
            ("endpoint", found.endpoint),
            ("answers", "" if found.health is None else str(found.health)),
            ("model", stack.settings.model.name),
            ("weights", weights_text(status)),
            ("bucket", existing_place(stack.settings)),
            ("gives up", moment_text(status.gives_up, now)),
            ("drains at", drains_text(status, now)),
            ("expires", moment_text(status.expires, now)),
            ("cost so far", "" if found.spent is None or stack.embedded else f"${found.spent}"),
            ("next", found.advice.for_stack(stack.name, os.environ, own_program=stack.own_program)),
        )
    )


def headline(status: SliceStatus, health: Health | None) -> str:
    """The state in a few words: what answers, before what the host says."""
    if health is not None and health.answers is False:
        return f"NOT READY, {health.why}"
    if health is not None and health.answers is None:
        return "READY, as its host says"
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


def _cache(blocks: int, size: int, tokens: int) -> str:
    return f"{blocks:,} blocks of {size:,} tokens, {tokens:,} in all"


def weights_text(status: SliceStatus) -> str:
    """The hash of the weights that the host serves, and the planned one where it is another."""
    served = status.host.weights if status.host is not None else ""
    if status.other_weights:
        return f"{served}\nOTHERS are planned: {status.weights}, from the host's next boot on"
    return served or (f"{status.weights} (not fetched yet)" if status.weights else "")


#: Said of a slice that was requested before the stack file was changed.
_OTHER_ZONE = (
    "{} is none of tpuflex:slice.zones any more: `tpuflex up` replaces the slice,\n"
    "`tpuflex down` deletes it there"
)
#: Said of one whose run is over: there is nothing to replace, and `up` needs no option.
_OTHER_ZONE_ENDED = (
    "{} is none of tpuflex:slice.zones any more, and the run is over:\n"
    "`tpuflex up` starts a new run in {}"
)


def zone_text(status: SliceStatus, zones: tuple[str, ...]) -> str:
    """What `up` does about a slice outside of ``zones``; empty for one inside."""
    if status.zone in zones:
        return ""
    if status.condition is Condition.ENDED:
        return _OTHER_ZONE_ENDED.format(status.zone, " or ".join(zones))
    return _OTHER_ZONE.format(status.zone)
