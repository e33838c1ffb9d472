"""The control API under ``/_emulator/``: clock, capacity, strictness, faults, history and so on.

It is not part of any Google API, wants the owner's token, and is not recorded in the history.

Incidents are what the real service does on no demand: a node is preempted, lost or restarted while
its queued resource is still ACTIVE, or a queued resource disappears and leaves its nodes, which are
still billed.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from aiohttp import web

from embedded_cloud.core.clock import parse_rfc3339, rfc3339
from embedded_cloud.core.errors import CloudError, failed_precondition, invalid_argument
from embedded_cloud.core.inbound_request import parse_object, read_whole
from embedded_cloud.core.json_types import JsonObject, JsonValue, text
from embedded_cloud.services.tpu.capacity import Capacity
from embedded_cloud.services.tpu.records import NodeState, Place
from embedded_cloud.services.tpu.state import TpuState
from embedded_cloud.strict.book import PRESETS

if TYPE_CHECKING:
    from embedded_cloud.cloud import Cloud


_NAME = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<zone>[^/]+)"
    r"/(?P<kind>nodes|queuedResources)/(?P<id>[^/]+)"
)
_EXPECTED = (
    'expected {"name": "projects/P/locations/Z/nodes/N", "mishap": "preempted", "lost" or'
    ' "rebooted"}, or the name of a queued resource with "lost", which leaves its nodes'
)


def inflict(state: TpuState, incident: JsonObject) -> JsonObject:
    """Inflict an incident on one node or queued resource; returns its name and new state.

    Args:
        state: the TPU service.
        incident: ``{"name": full name, "mishap": "preempted", "lost" or "rebooted"}``.

    Raises:
        CloudError: 400 for anything else, 404 if the resource does not exist.
    """
    mishap = text(incident, "mishap")
    match = _NAME.fullmatch(text(incident, "name"))
    if incident.keys() != {"name", "mishap"} or match is None:
        raise invalid_argument(_EXPECTED)
    place, id_ = Place(match["project"], match["zone"]), match["id"]
    state.sync()
    if match["kind"] == "queuedResources" and mishap == "lost":
        state.queue.lose(state.queue.get(place, id_))
    elif match["kind"] == "nodes" and mishap == "lost":
        state.nodes.remove(state.nodes.get(place, id_))
    elif match["kind"] == "nodes" and mishap == "preempted":
        node = state.nodes.get(place, id_)
        entered = state.nodes.enter(node, NodeState.PREEMPTED, state.now())
        return {"name": entered.name, "state": entered.state.value}
    elif match["kind"] == "nodes" and mishap == "rebooted":
        # As a `sudo reboot`, which the API does not see: the same state, another boot.
        node = state.nodes.get(place, id_)
        entered = state.nodes.enter(node, node.state, state.now())
        return {"name": entered.name, "state": entered.state.value}
    else:
        raise invalid_argument(_EXPECTED)
    return {"name": text(incident, "name"), "state": "GONE"}


#: The time beyond which the clock is not moved: a Python date ends with the year 9999.
LATEST = parse_rfc3339("3000-01-01T00:00:00Z")
#: Seconds that may pass in one: a day of real time is then 2,700 years.
_FASTEST = 1_000_000.0

_Action: TypeAlias = Callable[["Cloud", web.Request], Awaitable[JsonObject]]


def add_routes(app: web.Application, cloud: Cloud) -> None:
    """Add the control API of ``cloud`` to ``app``."""
    for method, name, action in _ACTIONS:
        app.router.add_route(method, f"/_emulator/{name}", _handler(cloud, action))


def _handler(
    cloud: Cloud, action: _Action
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            cloud.access.require_owner(request.headers.get("Authorization", ""))
            return web.json_response(await action(cloud, request))
        except CloudError as error:
            return web.json_response(error.body(), status=error.http_status)

    return handle


async def _health(cloud: Cloud, _request: web.Request) -> JsonObject:
    return {
        "status": "ok",
        "pid": os.getpid(),
        "state_dir": str(cloud.state_dir.resolve()),
        "version": importlib.metadata.version("tpuflex"),
        "url": cloud.base_url,
        "services": [f"{service.name}.{service.version}" for service in cloud.services],
    }


async def _get_clock(cloud: Cloud, _request: web.Request) -> JsonObject:
    now = cloud.clock.now()
    return {"now": rfc3339(now), "epoch": now, "speed": getattr(cloud.clock, "speed", 0.0)}


async def _move_clock(cloud: Cloud, request: web.Request) -> JsonObject:
    change = await _body(request)
    seconds, speed = change.get("advance", 0), change.get("speed")
    if not change or not change.keys() <= {"advance", "speed"} or not _is_number(seconds):
        raise invalid_argument('expected {"advance": seconds, "speed": factor}')
    if seconds < 0 or cloud.clock.now() + seconds > LATEST:
        raise invalid_argument("advance must not be negative, nor lead past the year 2999")
    if speed is not None and not (_is_number(speed) and 1 <= speed <= _FASTEST):
        raise invalid_argument(f"speed must be between 1 and {_FASTEST}")
    if speed is not None:
        try:
            cloud.run_at(speed)
        except TypeError as error:
            raise invalid_argument(str(error)) from None
    cloud.advance(seconds)
    await cloud.settle()
    return await _get_clock(cloud, request)


async def _iap(cloud: Cloud, _request: web.Request) -> JsonObject:
    if not cloud.strictness.current().network.private_addresses:
        raise failed_precondition(
            "hosts have loopback addresses, which need no tunnel (strictness: "
            "network.private_addresses)"
        )
    if find_spec("asyncssh") is None:
        raise failed_precondition(
            "the SSH servers of hosts need asyncssh: pip install 'tpuflex[embedded]'"
        )
    address = await cloud.iap.address()
    return {"port": address.port, "certificate": str(address.certificate)}


def _is_number(value: JsonValue) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


async def _get_capacity(cloud: Cloud, _request: web.Request) -> JsonObject:
    return cloud.capacity.current().to_json()


async def _set_capacity(cloud: Cloud, request: web.Request) -> JsonObject:
    capacity = Capacity.from_json(await _body(request))
    # Apply what was due under the old rules first.
    cloud.tick()
    cloud.capacity.set(capacity)
    await cloud.settle()
    return capacity.to_json()


async def _issue_credentials(cloud: Cloud, request: web.Request) -> JsonObject:
    asked = await _body(request)
    if not asked.keys() <= {"kind", "project"}:
        raise invalid_argument('expected {"kind": KIND, "project": PROJECT}')
    return {**cloud.credentials.issue(text(asked, "kind"), text(asked, "project"))}


async def _issue_token(cloud: Cloud, request: web.Request) -> JsonObject:
    asked = await _body(request)
    caller = cloud.credentials.caller(text(asked, "kind"), text(asked, "project"))
    lifetime = cloud.strictness.current().tokens.lifetime_s
    token = cloud.access.session_token(caller, lifetime)
    return {"access_token": token, "expires_in": int(lifetime), "account": caller.account}


async def _get_strictness(cloud: Cloud, _request: web.Request) -> JsonObject:
    return cloud.strictness.current().to_json()


async def _set_strictness(cloud: Cloud, request: web.Request) -> JsonObject:
    change, preset = await _body(request), request.query.get("preset")
    if preset is not None and (change or preset not in PRESETS):
        raise invalid_argument(f"preset must be one of {', '.join(PRESETS)}, without a body")
    # Apply what was due under the old rules first.
    cloud.tick()
    changed = cloud.strictness.change(change) if preset is None else cloud.strictness.use(preset)
    await cloud.settle()
    return changed.to_json()


async def _history(cloud: Cloud, request: web.Request) -> JsonObject:
    after = request.query.get("after", "0")
    if not after.isdecimal():
        raise invalid_argument("after must be a sequence number")
    return {
        "calls": list[JsonValue](cloud.history.entries(int(after))),
        "events": list[JsonValue](cloud.history.events(int(after))),
        "seq": cloud.history.seq,
    }


async def _inventory(cloud: Cloud, _request: web.Request) -> JsonObject:
    return {
        service: {kind: list[JsonValue](resources) for kind, resources in kinds.items()}
        for service, kinds in cloud.inventory().items()
    }


async def _hosts(cloud: Cloud, _request: web.Request) -> JsonObject:
    return {"hosts": list[JsonValue](cloud.hosts.describe())}


# Fault injection is loaded when it is first asked for, which saves every start the time.
async def _get_faults(cloud: Cloud, _request: web.Request) -> JsonObject:
    from embedded_cloud.faults import control as faults

    return faults.show(cloud.faults)


async def _set_faults(cloud: Cloud, request: web.Request) -> JsonObject:
    from embedded_cloud.faults import control as faults

    return faults.put(cloud.faults, await _body(request))


async def _remove_faults(cloud: Cloud, request: web.Request) -> JsonObject:
    from embedded_cloud.faults import control as faults

    return faults.remove(cloud.faults, request.query.get("id"))


async def _incident(cloud: Cloud, request: web.Request) -> JsonObject:
    changed = inflict(cloud.tpu, await _body(request))
    await cloud.settle()
    return changed


async def _reset(cloud: Cloud, _request: web.Request) -> JsonObject:
    await cloud.reset()
    return {}


async def _body(request: web.Request) -> JsonObject:
    try:
        return parse_object(await read_whole(request) or b"{}")
    except ValueError as error:
        raise invalid_argument(f"not a JSON object: {error}") from None


_ACTIONS: tuple[tuple[str, str, _Action], ...] = (
    ("GET", "health", _health),
    ("GET", "clock", _get_clock),
    ("POST", "clock", _move_clock),
    ("GET", "capacity", _get_capacity),
    ("POST", "capacity", _set_capacity),
    ("POST", "credentials", _issue_credentials),
    ("POST", "token", _issue_token),
    ("GET", "strictness", _get_strictness),
    ("POST", "strictness", _set_strictness),
    ("GET", "iap", _iap),
    ("GET", "history", _history),
    ("GET", "inventory", _inventory),
    ("GET", "hosts", _hosts),
    ("GET", "faults", _get_faults),
    ("POST", "faults", _set_faults),
    ("DELETE", "faults", _remove_faults),
    ("POST", "mishap", _incident),
    ("POST", "reset", _reset),
)
