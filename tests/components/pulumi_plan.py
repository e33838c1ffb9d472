"""Runs a program under Pulumi's mocks and records everything that it registers."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pulumi
import yaml
from pulumi.runtime import mocks, rpc, set_mocks
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import SETTINGS, set_root_resource
from pulumi.runtime.stack import run_in_stack

#: Value in an inventory that says: this property must not be there.
MISSING = "__missing__"


@dataclass
class Plan:
    """What a program registered.

    Attributes:
        inputs: inputs of each resource, by ``type name``.
        dependencies: addresses that each resource depends on.
        requests: the registration itself, for options.
        outputs: the stack's outputs.
        order: addresses in the order of registration.
    """

    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    dependencies: dict[str, set[str]] = field(default_factory=dict)
    requests: dict[str, resource_pb2.RegisterResourceRequest] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How many resources of each type there are."""
        return dict(Counter(address.split(" ")[0] for address in self.inputs))

    def only(self, type_: str) -> str:
        """The address of the only resource of ``type_``."""
        (address,) = (item for item in self.inputs if item.split(" ")[0] == type_)
        return address

    def to_yaml(self) -> str:
        """The plan as an inventory, ready to paste."""
        document = {"counts": self.counts(), "values": self.inputs, "outputs": self.outputs}
        return yaml.safe_dump(document, sort_keys=True, width=120)


class _Answers(mocks.Mocks):
    """Answers as the cloud would: inputs echoed, computed outputs added.

    Args:
        slice_: outputs of the slice that are not those of one that is active.
        read: outputs of what is only read.
    """

    def __init__(self, slice_: Mapping[str, Any], read: Mapping[str, Any]) -> None:
        super().__init__()
        self._slice, self._read = slice_, read

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if args.resource_id:  # read, not made
            return args.resource_id, {**args.inputs, **self._read}
        state = dict(args.inputs)
        identity = f"{args.name}-id"
        if args.typ == "gcp:serviceaccount/account:Account":
            state["email"] = f"{state['accountId']}@{state['project']}.iam.gserviceaccount.com"
            state["member"] = f"serviceAccount:{state['email']}"
        if args.typ == "gcp:compute/network:Network":
            identity = f"projects/{state['project']}/global/networks/{state['name']}"
        if args.typ == "gcp:dns/managedZone:ManagedZone":
            identity = f"projects/{state['project']}/managedZones/{state['name']}"
        if args.typ == "gcp:compute/subnetwork:Subnetwork":
            identity = (
                f"projects/{state['project']}/regions/{state['region']}/subnetworks/{state['name']}"
            )
        if args.typ == "tpuflex:tpu:StateId":
            identity = state["value"] = "0123456789abcdef0123"
        if args.typ == "tpuflex:tpu:QueuedResource":
            zone = state["zones"][0]
            identity = (
                f"projects/{state['project']}/locations/{zone}/queuedResources/"
                f"{state['queuedResourceIdPrefix']}-g1"
            )
            state |= {
                "name": identity,
                "zone": zone,
                "state": "ACTIVE",
                "lifecycle": "active",
                "ipAddresses": ["10.128.0.2"],
                "expireTime": "2026-11-21T12:00:00Z",
                **self._slice,
            }
        return identity, state

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(f"the program called {args.token}")


class _Recorder(mocks.MockMonitor):
    def __init__(self, plan: Plan, answers: _Answers) -> None:
        super().__init__(answers)
        self._plan = plan

    def RegisterResource(  # noqa: N802 - the engine's name
        self, request: resource_pb2.RegisterResourceRequest
    ) -> resource_pb2.RegisterResourceResponse:
        answer: resource_pb2.RegisterResourceResponse = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type != "pulumi:pulumi:Stack":
            address = f"{request.type} {request.name}"
            self._plan.inputs[address] = rpc.deserialize_properties(request.object)
            self._plan.dependencies[address] = {
                f"{urn.split('::')[2].split('$')[-1]} {urn.split('::')[3]}"
                for urn in request.dependencies
            }
            self._plan.requests[address] = request
            self._plan.order.append(address)
        return answer

    def RegisterResourceOutputs(  # noqa: N802 - the engine's name
        self, request: resource_pb2.RegisterResourceOutputsRequest
    ) -> Any:
        if "pulumi:pulumi:Stack" in request.urn:
            self._plan.outputs |= rpc.deserialize_properties(request.outputs)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


def run_program(
    program: Callable[[], object],
    *,
    project: str = "tpuflex",
    stack: str = "dev",
    preview: bool = False,
    slice_: Mapping[str, Any] | None = None,
    read: Mapping[str, Any] | None = None,
    plan: Plan | None = None,
) -> Plan:
    """Run ``program`` and return what it registered; raises what the program raises.

    Args:
        program: what to run.
        project: Pulumi project.
        stack: Pulumi stack.
        preview: whether it is a preview.
        slice_: outputs of the slice that are not those of one that is active.
        read: outputs of what is only read.
        plan: where to record it, for a program that raises; a new one by default.
    """
    answers = _Answers(slice_ or {}, read or {})
    plan = Plan() if plan is None else plan

    def run() -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(_report)
        # One thread: the mock monitor makes an event loop in each, and leaves it open.
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
        asyncio.set_event_loop(loop)
        try:
            set_mocks(
                answers,
                project=project,
                stack=stack,
                preview=preview,
                monitor=_Recorder(plan, answers),
            )
            SETTINGS.outputs.clear()  # of a program before this one that failed
            # run_in_stack makes a root of its own, whose outputs are recorded.
            set_root_resource(None)  # type: ignore[arg-type]
            loop.run_until_complete(run_in_stack(lambda: _ignore(program())))
        finally:
            _close(loop)

    contextvars.copy_context().run(run)
    return plan


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report errors in the loop, except echoes of the program's own failure.

    Pulumi's runtime sets a failure on every output that depends on it, and awaits only one of
    them: that one is raised by :func:`run_program`.
    """
    if not isinstance(context.get("exception"), pulumi.RunError):
        loop.default_exception_handler(context)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    while pending := asyncio.all_tasks(loop):  # ending one may start another
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.run_until_complete(loop.run_in_executor(None, _close_loop_of_thread))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    asyncio.set_event_loop(None)


def _close_loop_of_thread() -> None:
    try:
        asyncio.get_event_loop_policy().get_event_loop().close()
    except RuntimeError:
        return
    asyncio.set_event_loop(None)


def differences(expected: object, found: object, path: str = "") -> list[str]:
    """Where ``found`` lacks something of ``expected``; lists are compared whole."""
    if expected == MISSING:
        return [] if found is None else [f"{path}: expected nothing, found {found!r}"]
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            return [f"{path}: expected a mapping, found {found!r}"]
        return [
            line
            for key, value in expected.items()
            for line in differences(value, found.get(key), f"{path}.{key}" if path else str(key))
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for index, (one, other) in enumerate(zip(expected, found, strict=True))
            for line in differences(one, other, f"{path}[{index}]")
        ]
    return [] if expected == found else [f"{path}: expected {expected!r}, found {found!r}"]


def _ignore(_: object) -> None:
    return None
