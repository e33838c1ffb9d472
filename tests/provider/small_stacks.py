"""Two slices in the stacks of one project, renamed, exchanged and moved as Pulumi's engine does it.

Each command runs with a provider process of its own, as the engine's do. Where the resources of a
program do not depend on each other, the engine reads all of them before it decides about one; what
is replaced or left out is deleted once all that is new is there (`step_generator.go` and
`deployment_executor.go` of pulumi/pulumi v3.256.0).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.wire import encode
from reliability.direct import DirectCloud, DirectSession
from reliability.projects import SWIFT
from reliability.small_engine import Context, Json, SmallEngine
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.timing import Timing
from tpuflex.google.transport import Transport
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.provider.configuration import Configuration
from tpuflex.provider.servicer import Servicer


@dataclass(frozen=True, order=True)
class Place:
    """Where a slice stands: in which stack, within which components, under which name."""

    stack: str
    name: str
    parent: str = ""

    @property
    def urn(self) -> str:
        """Pulumi's name of it."""
        return f"urn:pulumi:{self.stack}::shop::{self.parent}{QUEUED_RESOURCE}::{self.name}"


class Told:
    """The provider, told another URN than the small engine's own, and another configuration: all
    that it sees of a rename, a move and a changed provider."""

    def __init__(self, servicer: Servicer, urn: str, configured: dict[str, Any]) -> None:
        self._servicer, self._urn, self._configured = servicer, urn, configured

    def __getattr__(self, method: str) -> Any:
        def call(request: Any, context: Any) -> Any:
            if method == "Configure":
                request = provider_pb2.ConfigureRequest(args=encode(self._configured))
            else:
                request.urn = self._urn
            return getattr(self._servicer, method)(request, context)

        return call


class Slice(SmallEngine):
    """The state of one slice, and the engine's steps for it, of which deletions come last."""

    def __init__(self) -> None:
        super().__init__(cast("Any", None))

    @classmethod
    def of(cls, program: Json) -> Slice:
        """One that is to be made."""
        made = cls()
        made.program = copy.deepcopy(program)
        return made

    def copy(self) -> Slice:
        """The same state and program."""
        made = Slice()
        made.program = copy.deepcopy(self.program)
        made.replace(self.deployment())
        return made

    @property
    def made(self) -> bool:
        """Whether the state holds it."""
        return self._living() is not None

    @property
    def id(self) -> str:
        """Full name of the request that it holds."""
        living = self._living()
        assert living is not None
        return str(living["id"])

    def read(self) -> None:
        """What the engine does first for what the provider wants read before every update."""
        resource = self._living()
        if resource is not None:
            self._read(resource)

    def step(self, *, preview: bool) -> str:
        """Do what the program asks for, short of deletions; return what that is."""
        assert self.program is not None
        resource = self._living()
        inputs = self._check(self.program, resource)
        if resource is None:
            self._make(inputs, preview=preview)
            return "create"
        diff = self._diff(resource, inputs)
        assert not diff.deleteBeforeReplace
        if diff.replaces:
            inputs = self._check(self.program, None)
            resource["delete"] = True
            self._make(inputs, preview=preview)
            return "replace"
        if diff.changes != diff.DIFF_SOME and not resource.get("initErrors"):
            return "same"
        if not preview:
            self._update(resource, inputs)
        return "update"

    def finish(self) -> None:
        """Delete what was replaced, or all if the program has it no more."""
        self._delete_replaced()
        if self.program is None:
            self._down()

    def _make(self, inputs: Json, *, preview: bool) -> None:
        if preview:
            asked = provider_pb2.CreateRequest(properties=encode(inputs), preview=True)
            self.servicer.Create(asked, cast("Any", Context()))
        else:
            self._create(inputs)


@dataclass
class Stacks:
    """A cloud, and the states of all stacks; by place.

    Attributes:
        cloud: the cloud.
        slices: what the states hold and the programs ask for.
        gone: what the programs ask for no more, until the next `up` has deleted it.
        project: Google Cloud project of the provider.
        waits: whether each resource depends on the one before it, and is read after that is made.
        backwards: whether programs begin with the last place instead of the first.
    """

    cloud: DirectCloud
    slices: dict[Place, Slice] = field(default_factory=dict)
    gone: dict[Place, Slice] = field(default_factory=dict)
    project: str = "cloud-project"
    waits: bool = False
    backwards: bool = False

    @classmethod
    def at(cls, path: Path) -> Stacks:
        """Those of an empty cloud."""
        return cls(DirectCloud(path, SWIFT))

    def begin(self) -> None:
        """Forget everything."""
        self.cloud.reset(0)
        self.slices, self.gone = {}, {}
        self.project, self.waits, self.backwards = "cloud-project", False, False

    def there(self) -> set[str]:
        """The requests in the cloud."""
        found = self.cloud.cloud.inventory().get("tpu", {}).get("queuedResources", [])
        return {str(each["name"]) for each in found}

    def preview(self) -> dict[Place, str]:
        """What the next :meth:`up` does, by place; it changes nothing.

        Raises:
            CallFailedError: the provider refuses it.
        """
        twin = replace(self, slices=_copies(self.slices), gone=_copies(self.gone))
        return twin._run(preview=True)

    def up(self) -> dict[Place, str]:
        """Bring all stacks to what their programs declare; return what was done."""
        return self._run(preview=False)

    def refresh(self) -> None:
        """Read everything."""
        for _, slices in self._processes():
            for each in slices.values():
                each.read()

    def _run(self, *, preview: bool) -> dict[Place, str]:
        done: dict[Place, str] = {}
        for stack, slices in self._processes():
            if not self.waits:
                for each in slices.values():
                    each.read()
            for place, each in slices.items():
                if self.waits:
                    each.read()
                done[place] = each.step(preview=preview)
            leaving = {place: each for place, each in self.gone.items() if place.stack == stack}
            done |= {place: "delete" for place in leaving if place not in slices}
            for each in [] if preview else [*slices.values(), *leaving.values()]:
                each.finish()
        if not preview:
            self.gone = {}
        return done

    def _processes(self) -> list[tuple[str, dict[Place, Slice]]]:
        """A provider process for each stack, and what the stack's program has, in its order."""
        found: list[tuple[str, dict[Place, Slice]]] = []
        for stack in sorted({place.stack for place in (*self.slices, *self.gone)}):
            servicer = self._servicer()
            self.cloud.begin()
            for place, each in (*self.slices.items(), *self.gone.items()):
                if place.stack == stack:
                    each.servicer = cast(
                        "Any", Told(servicer, place.urn, {"project": self.project})
                    )
                    each.servicer.Configure(provider_pb2.ConfigureRequest(), cast("Any", Context()))
            places = sorted(self.slices, reverse=self.backwards)
            found.append((stack, {p: self.slices[p] for p in places if p.stack == stack}))
        return found

    def _servicer(self) -> Servicer:
        def connect(_: Configuration, timing: Timing) -> TpuClient:
            session = DirectSession(self.cloud)
            return TpuClient(Transport(session, self.cloud.cloud.base_url, timing))

        return Servicer(EngineLog(), connect, lambda _: self.cloud.timing())


def _copies(slices: dict[Place, Slice]) -> dict[Place, Slice]:
    return {place: each.copy() for place, each in slices.items()}
