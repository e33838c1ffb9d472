"""The provider alone, thousands of runs a minute: no process, no socket, no waiting.

The real servicer, transport and TPU client against the embedded cloud's pipeline; a small
engine keeps the state, and the real recovery cleans up what a kill leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from embedded_cloud.faults.rule import Rule, parse_rule
from embedded_cloud.strict.book import STRICT
from pulumi_plugin.log import EngineLog
from reliability.direct import DirectCloud, DirectSession, Killed
from reliability.evidence import UP, Command, Evidence, Violation
from reliability.invariants import violations
from reliability.projects import SWIFT, slice_arguments
from reliability.serving_hosts import DELETION, ServingHosts
from reliability.small_engine import NAME, PROJECT, STACK, SmallEngine
from tpuflex.errors import TpuflexError
from tpuflex.google.apis import Apis
from tpuflex.google.enable_apis import await_settled
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.required_apis import APIS
from tpuflex.google.timing import Timing
from tpuflex.google.transport import Transport
from tpuflex.naming import Names
from tpuflex.provider.configuration import Configuration
from tpuflex.provider.servicer import Servicer
from tpuflex.recovery.look import CloudLook
from tpuflex.recovery.recover import recover

Json = dict[str, Any]

CLOUD_PROJECT, ZONE = "cloud-project", "us-east5-a"
#: Seconds of the cloud's time that a create, update or delete may take.
TIMEOUT_S = 1800.0
#: What a queued resource needs, of all that a stack does.
TPU_API = tuple(api for api in APIS if api.name == "tpu")


class ServicerRig:
    """One queued resource: commands, faults, and changes that others make.

    Commands: ``up``, ``refresh``, ``down``, ``recover``, each with the rules in force while it
    runs. A command's exit code is 0, 1, or -9 if a kill point struck.

    Attributes:
        hosts: the hosts of its nodes; READY once an `up` has succeeded.
        arguments: the program's inputs, camelCase; None for a program without the resource.
        commands: the commands run since :meth:`reset`.
        strict: whether the cloud is as strict as Google, and the project made a moment ago.
    """

    def __init__(self, state_dir: Path, *, strict: bool = False) -> None:
        self.strict = strict
        self.direct = DirectCloud(state_dir, SWIFT)
        self.hosts = ServingHosts(self.direct.cloud)
        self.commands: list[Command] = []
        self._struck = 0
        self._new_provider()
        self.arguments: Json | None = None
        self.reset(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.direct.close()

    def reset(self, seed: int) -> None:
        """Begin the next history: an empty cloud, no state; ``seed`` is for the client's jitter."""
        self.direct.reset(seed)
        self.engine.clear()
        self.commands.clear()
        self._struck = 0
        self.arguments = slice_arguments()
        if self.strict:
            self.direct.cloud.strictness.use("strict")
            _new_project(self._call, self.direct.clock.advance)

    def run(self, name: str, *, rules: Sequence[Rule | Json] = ()) -> Command:
        """Run one command with only ``rules`` in force, and record it.

        As under the real engine, each command gets a new provider, which remembers nothing of
        the previous one.
        """
        self._new_provider(keeping=self.engine)
        book = self.direct.faults.book
        self._struck += book.struck
        self.direct.faults.forget()
        for rule in rules:
            book.add(rule if isinstance(rule, Rule) else parse_rule(rule))
        self.engine.program, self.engine.timeout = self.arguments, TIMEOUT_S
        self.direct.cancel_at = None
        self.direct.begin()
        first = self.direct.cloud.history.seq
        done = Command(name, self._exit_code(name), first, self.direct.cloud.history.seq)
        self.commands.append(done)
        if done.succeeded(UP):
            self.hosts.serve()
        return done

    def struck(self) -> int:
        """The number of faults that struck since :meth:`reset`."""
        return self._struck + self.direct.faults.book.struck

    def event(self, what: Callable[[TpuClient], object] | None = None) -> None:
        """Record a change made outside of our commands; a second `up` may then have work to do."""
        seq = self.direct.cloud.history.seq
        self.commands.append(Command("event", 0, seq, seq))
        if what is not None:
            what(TpuClient(self._transport(self.direct.timing())))

    def advance(self, seconds: float) -> None:
        """Let time pass between two commands."""
        self.event()
        self.direct.clock.advance(seconds)

    def evidence(self) -> Evidence:
        """The evidence so far."""
        cloud = self.direct.cloud
        events = cloud.history.events()
        names = Names(PROJECT, STACK, NAME)
        return Evidence(
            history=cloud.history.entries(),
            strikes=[each for each in events if each["event"] == "fault"],
            deletions=[each for each in events if each["event"] == DELETION],
            inventory=cloud.inventory(),
            export=self.engine.export(),
            commands=tuple(self.commands),
            owners={names.owner: names.prefix},
        )

    def check(self) -> list[Violation]:
        """The invariants violated now."""
        return violations(self.evidence())

    def _exit_code(self, name: str) -> int:
        commands: Mapping[str, Callable[[], bool]] = {
            "up": self.engine.up,
            "refresh": self.engine.refresh,
            "down": self.engine.down,
            "recover": self._recover,
        }
        try:
            return 0 if commands[name]() else 1
        except Killed:
            return -9

    def _recover(self) -> bool:
        """Run the real recovery on this state and this cloud."""
        timing = self.direct.timing()
        clients = Apis(**dict.fromkeys(Apis.__annotations__, self._transport(timing)))
        say, look = (lambda _: None), CloudLook(clients)
        try:
            await_settled(clients, CLOUD_PROJECT, timing, say, apis=TPU_API)
            # The small engine has every part of a stack that the recovery uses.
            found = recover(self.engine, look, say, timing=timing)  # type: ignore[arg-type]
        except TpuflexError as error:
            self.engine.said.append(str(error))
            return False
        self.engine.said += [item.detail for item in found.left]
        return found.clean

    def _new_provider(self, keeping: SmallEngine | None = None) -> None:
        """A freshly started provider process."""

        def connect(_configured: Configuration, timing: Timing) -> TpuClient:
            return TpuClient(self._transport(timing))

        servicer = Servicer(EngineLog(), connect, lambda _stop: self.direct.timing())
        if keeping is None:
            self.engine = SmallEngine(servicer)
        else:
            keeping.servicer = servicer

    def _call(self, method: str, path: str, body: Json) -> None:
        self._transport(self.direct.timing()).call(method, path, body=body)

    def _transport(self, timing: Timing) -> Transport:
        return Transport(DirectSession(self.direct), self.direct.cloud.base_url, timing)


def _new_project(
    call: Callable[[str, str, Json], object], advance: Callable[[float], object]
) -> None:
    """Enable what a slice needs and make its service account, as `tpuflex up` does; the TPU API
    answers from halfway through the first command on, and nodes do not know the account yet."""
    half = STRICT.apis.answers_after_s / 2
    services = f"/v1/projects/{CLOUD_PROJECT}/services"
    call("POST", f"{services}:batchEnable", {"serviceIds": ["iam.googleapis.com"]})
    advance(half)
    call("POST", f"{services}:batchEnable", {"serviceIds": ["tpu.googleapis.com"]})
    advance(half)
    call("POST", f"/v1/projects/{CLOUD_PROJECT}/serviceAccounts", {"accountId": "slice-host"})
