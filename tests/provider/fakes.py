"""A clock that only tests move, and a TPU API that answers from a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.timing import Timing
from tpuflex.provider.call import Call
from tpuflex.queued_resource.body import request_body
from tpuflex.queued_resource.check import parse
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.model import Node
from tpuflex.queued_resource.name import Nodes

JsonObject = dict[str, JsonValue]

NAME = "projects/cloud-project/locations/us-east5-a/queuedResources/slice-g1"
NODE = "projects/cloud-project/locations/us-east5-a/nodes/slice-g1"
INPUTS: dict[str, Any] = {
    "queuedResourceId": "slice-g1",
    "project": "cloud-project",
    "zones": ["us-east5-a"],
    "acceleratorType": "v6e-4",
    "runtimeVersion": "v2-alpha-tpuv6e",
    "serviceAccount": "host@cloud-project.iam.gserviceaccount.com",
    "maxRunDuration": "14400s",
    "labels": {"tpuflex-owner": "0123456789abcdef", "tpuflex-stack": "dev"},
}


def args(**changed: Any) -> RequestArgs:
    """Arguments of a small request, with some ``changed``."""
    return parse({**INPUTS, **changed})


@dataclass
class FakeTime:
    """Time that passes only in pauses; ``stop_at`` cancels like the engine does."""

    now: float = 1000.0
    stop_at: float | None = None
    pauses: list[float] = field(default_factory=list)

    def pause(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        if self.stop_at is not None and self.now + seconds >= self.stop_at:
            self.now = max(self.now, self.stop_at)
            return True
        self.now += seconds
        return False

    def timing(self) -> Timing:
        return Timing(
            monotonic=lambda: self.now,
            wall=lambda: self.now + 1.8e9,
            pause=self.pause,
            jitter=lambda: 0.5,
        )


@dataclass
class Sent:
    """One request that reached the scripted API."""

    method: str
    path: str
    query: Mapping[str, str]
    body: JsonObject | None
    at: float


Answer = JsonObject | TpuflexError
Handler = Callable[[Sent], Answer]


@dataclass
class Script:
    """Stands where the transport stands: answers come from ``handler``."""

    time: FakeTime
    handler: Handler
    sent: list[Sent] = field(default_factory=list)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        budget: float = 0.0,  # noqa: ARG002 - the transport's signature
    ) -> JsonObject:
        request = Sent(method, path.removeprefix("/v2alpha1/"), query or {}, body, self.time.now)
        self.sent.append(request)
        answer = self.handler(request)
        if isinstance(answer, TpuflexError):
            raise answer
        return answer

    def count(self, method: str) -> int:
        """How many requests with this method were sent."""
        return sum(request.method == method for request in self.sent)


@dataclass
class Said:
    """Progress lines."""

    time: FakeTime
    lines: list[tuple[float, str]] = field(default_factory=list)

    def __call__(self, text: str, **_kind: bool) -> None:
        self.lines.append((self.time.now, text))

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.lines)


def scripted(handler: Handler, time: FakeTime | None = None) -> tuple[Call, Script, Said]:
    """A call whose API is ``handler``."""
    clock = time or FakeTime()
    script, said = Script(clock, handler), Said(clock)
    client = TpuClient(script)
    ids = (f"id-{number}" for number in range(1000))
    return Call(client, clock.timing(), said, lambda: next(ids)), script, said


def missing(what: str = NAME) -> NotFoundError:
    """Google's 404."""
    return NotFoundError(f"{what} not found")


def queued(state: str, of: RequestArgs | None = None, **data: Any) -> JsonObject:
    """A queued resource in ``state``, as it was asked for with ``of``."""
    return {
        **request_body(of or args()),
        "name": NAME,
        "createTime": "2026-11-21T08:00:00.123456789Z",
        "state": {"state": state, **data},
    }


def node(state: str = "READY", of: RequestArgs | None = None, **more: Any) -> JsonObject:
    """The node of :func:`queued`."""
    spec: Any = request_body(of or args())["tpu"]
    return {
        **spec["nodeSpec"][0]["node"],
        "name": NODE,
        "state": state,
        "health": "HEALTHY",
        "createTime": "2026-11-21T08:05:00.123456789Z",
        "networkEndpoints": [{"ipAddress": "10.0.0.2", "port": 8470}],
        **more,
    }


def says(phase: str, serving: str = "", **more: Any) -> JsonObject:
    """What a host reports: the phase of its boot, and what it says of serving, if anything."""
    entries = {"report": json.dumps({"phase": phase, **more.pop("report", {})})}
    if serving:
        entries["serving"] = json.dumps({"phase": serving, **more})
    values: list[JsonValue] = [
        {"namespace": "tpuflex", "key": key, "value": value} for key, value in entries.items()
    ]
    return {"guestAttributes": [{"queryValue": {"items": values}}]}


def only(node: Node) -> Nodes:
    """What there is of a request of one node."""
    return Nodes((node.id,), (node,))


def sequence(*answers: Answer) -> Iterator[Answer]:
    """``answers`` one after the other, the last one for ever."""
    yield from answers
    while True:
        yield answers[-1]


@dataclass
class Cloud:
    """Answers by kind of request, each from a sequence.

    ``request`` and ``node`` are what GETs find; ``operation`` is what the operation says;
    ``post``, ``delete``, ``delete_node`` and ``patch`` answer the mutations; ``host`` is what
    the host reports.
    """

    request: Iterator[Answer] = field(default_factory=lambda: sequence(missing()))
    node: Iterator[Answer] = field(default_factory=lambda: sequence(missing(NODE)))
    operation: Iterator[Answer] = field(
        default_factory=lambda: sequence({"name": "operations/1", "done": True})
    )
    post: Iterator[Answer] = field(
        default_factory=lambda: sequence({"name": "operations/1", "done": False})
    )
    delete: Iterator[Answer] = field(
        default_factory=lambda: sequence({"name": "operations/2", "done": False})
    )
    delete_node: Iterator[Answer] = field(
        default_factory=lambda: sequence({"name": "operations/3", "done": False})
    )
    patch: Iterator[Answer] = field(
        default_factory=lambda: sequence({"name": "operations/4", "done": True})
    )
    host: Iterator[Answer] = field(default_factory=lambda: sequence(missing("guest attributes")))

    def __call__(self, request: Sent) -> Answer:
        if request.path.endswith(":getGuestAttributes"):
            return next(self.host)
        if request.method == "POST":
            return next(self.post)
        if request.method == "PATCH":
            return next(self.patch)
        if request.method == "DELETE":
            return next(self.delete if request.path == NAME else self.delete_node)
        if request.path == NAME:
            return next(self.request)
        return next(self.node if request.path == NODE else self.operation)
