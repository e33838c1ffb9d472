"""The part of Pulumi's engine that one queued resource needs, in this process.

It calls the provider's real servicer in the engine's order, keeps the state in the engine's
format, and like the engine records an operation as pending before it begins. If the engine is
killed in between, the pending operation remains; if only the provider is killed, the engine treats
the operation as failed and records nothing of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.struct_pb2 import Struct
from google.rpc import status_pb2

from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.wire import decode, encode
from reliability.direct import Killed
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.provider.servicer import Servicer

Json = dict[str, Any]

PROJECT, STACK, NAME = "shop", "dev", "slice"
STACK_URN = f"urn:pulumi:{STACK}::{PROJECT}::pulumi:pulumi:Stack::{PROJECT}-{STACK}"
PROVIDER_URN = f"urn:pulumi:{STACK}::{PROJECT}::pulumi:providers:tpuflex::cloud"
PROVIDER = f"{PROVIDER_URN}::00000000-0000-4000-8000-000000000000"
URN = f"urn:pulumi:{STACK}::{PROJECT}::{QUEUED_RESOURCE}::{NAME}"


class CallFailedError(Exception):
    """The provider answered with an error."""

    def __init__(self, message: str, kept: provider_pb2.ErrorResourceInitFailed | None) -> None:
        super().__init__(message)
        self.kept = kept


class Context:
    """A gRPC context: a servicer uses it only to end the call with an error."""

    def abort_with_status(self, status: grpc.Status) -> None:
        kept = None
        for key, value in status.trailing_metadata or ():
            if key == "grpc-status-details-bin":
                kept = _detail(status_pb2.Status.FromString(value))
        raise CallFailedError(str(status.details), kept)


def _detail(status: status_pb2.Status) -> provider_pb2.ErrorResourceInitFailed | None:
    for detail in status.details:
        kept = provider_pb2.ErrorResourceInitFailed()
        if detail.Unpack(kept):
            return kept
    return None


class SmallEngine:
    """One stack with at most one queued resource.

    Attributes:
        servicer: the provider.
        program: the resource's inputs; None if the program has no such resource.
        timeout: custom timeout of every call, in seconds; 0 for the provider's own.
        said: the provider's answers to calls that failed.
    """

    def __init__(self, servicer: Servicer) -> None:
        self.servicer = servicer
        self.program: Json | None = None
        self.timeout = 0.0
        self.said: list[str] = []
        self._resources: list[Json] = []
        self._pending: list[Json] = []
        self._context: Any = Context()

    # -- commands -----------------------------------------------------------------------------

    def up(self) -> bool:
        """Bring the stack to what the program declares; return whether everything succeeded."""
        return self._ran(self._up)

    def refresh(self, targets: tuple[str, ...] = ()) -> bool:
        """Bring the state in line with the cloud."""
        del targets  # there is only one
        return self._ran(self._refresh)

    def down(self) -> bool:
        """Delete everything."""
        return self._ran(self._down)

    def preview(self) -> EnginePlan:
        """What ``up`` would do: ``create``, ``update``, ``replace`` or ``same``."""
        if self.program is None:
            return EnginePlan(())
        resource = self._living()
        inputs = self._check(self.program, resource)
        operation = "create"
        if resource is not None:
            diff = self._diff(resource, inputs)
            changed = bool(resource.get("initErrors")) or diff.changes == diff.DIFF_SOME
            operation = "update" if changed else "same"
            if diff.replaces or resource.get("pendingReplacement"):
                operation = "replace"
                inputs = self._check(self.program, None)
        step = Step(operation, QUEUED_RESOURCE, NAME, URN, inputs, (), True, STACK_URN, PROVIDER)
        return EnginePlan((step,))

    # -- the state ----------------------------------------------------------------------------

    def deployment(self) -> Json:
        """The state, in the engine's format."""
        frame = [
            {"urn": STACK_URN, "type": "pulumi:pulumi:Stack"},
            {
                "urn": PROVIDER_URN,
                "type": "pulumi:providers:tpuflex",
                "custom": True,
                "id": PROVIDER.rpartition("::")[2],
                "parent": STACK_URN,
            },
        ]
        found = {"resources": [*frame, *self._resources], "pending_operations": self._pending}
        return copy.deepcopy(found)

    def replace(self, deployment: Mapping[str, Any]) -> None:
        """Make ``deployment`` the state."""
        stored = copy.deepcopy(dict(deployment))
        self._resources = [r for r in stored.get("resources", []) if r["type"] == QUEUED_RESOURCE]
        self._pending = list(stored.get("pending_operations") or ())

    def export(self) -> Json:
        """As ``pulumi stack export``."""
        return {"version": 3, "deployment": self.deployment()}

    def clear(self) -> None:
        """Remove all state."""
        self._resources, self._pending = [], []
        self.said.clear()

    # -- the engine's steps ---------------------------------------------------------------------

    def _ran(self, work: Callable[[], None]) -> bool:
        try:
            self.servicer.Configure(provider_pb2.ConfigureRequest(), self._context)
            work()
        except CallFailedError as error:
            self.said.append(str(error))
            return False
        return True

    def _up(self) -> None:
        self._bring_up()
        self._delete_replaced()

    def _bring_up(self) -> None:
        resource = self._living()
        if resource is not None and resource.get("refreshBeforeUpdate"):
            self._read(resource)
            resource = self._living()
        if self.program is None:
            if resource is not None:
                self._delete(resource)
            return
        inputs = self._check(self.program, resource)
        if resource is None:
            self._create(inputs)
            return
        diff = self._diff(resource, inputs)
        if diff.replaces or resource.get("pendingReplacement"):
            self._replace(resource, self._check(self.program, None), diff)
        elif diff.changes == diff.DIFF_SOME or resource.get("initErrors"):
            self._update(resource, inputs)

    def _replace(self, old: Json, inputs: Json, diff: provider_pb2.DiffResponse) -> None:
        if diff.deleteBeforeReplace or old.get("pendingReplacement"):
            if not old.get("pendingReplacement"):
                self._delete(old, replaced=True)
            try:
                self._create(inputs)
            finally:
                if self._living() is not old:
                    self._resources = [kept for kept in self._resources if kept is not old]
            return
        old["delete"] = True
        try:
            self._create(inputs)
        finally:
            if self._living() is None:
                del old["delete"]

    def _refresh(self) -> None:
        for resource in list(self._resources):
            self._read(resource)

    def _down(self) -> None:
        self._resources = [kept for kept in self._resources if not kept.get("pendingReplacement")]
        for resource in list(self._resources):
            self._delete(resource)

    def _delete_replaced(self) -> None:
        """Delete what is replaced, by this `up` or by one before: the last that it does."""
        for resource in [r for r in self._resources if r.get("delete")]:
            self._delete(resource)

    def _living(self) -> Json | None:
        return next((r for r in reversed(self._resources) if not r.get("delete")), None)

    # -- the calls ----------------------------------------------------------------------------

    def _check(self, news: Json, old: Json | None) -> Json:
        request = provider_pb2.CheckRequest(
            urn=URN, news=encode(news), randomSeed=b"seed", name=NAME, type=QUEUED_RESOURCE
        )
        if old is not None:
            request.olds.CopyFrom(encode(old["inputs"]))
        answer = self.servicer.Check(request, self._context)
        if answer.failures:
            failures = "; ".join(f"{f.property}: {f.reason}" for f in answer.failures)
            raise CallFailedError(f"check: {failures}", None)
        return plain(answer.inputs)

    def _diff(self, resource: Json, inputs: Json) -> provider_pb2.DiffResponse:
        request = provider_pb2.DiffRequest(
            id=resource["id"],
            urn=URN,
            olds=encode(resource["outputs"]),
            news=encode(inputs),
            old_inputs=encode(resource["inputs"]),
        )
        return self.servicer.Diff(request, self._context)

    def _create(self, inputs: Json) -> None:
        resource = new_resource(inputs)
        request = provider_pb2.CreateRequest(
            urn=URN, properties=encode(inputs), timeout=self.timeout
        )
        with self._begun("creating", resource):
            try:
                answer = self.servicer.Create(request, self._context)
            except CallFailedError as error:
                if error.kept is not None:
                    self._resources.append(kept_resource(resource, error.kept))
                raise
        made = {**resource, "id": answer.id, "outputs": plain(answer.properties)}
        self._resources.append(refreshing(made, answer.refresh_before_update))

    def _update(self, resource: Json, inputs: Json) -> None:
        request = provider_pb2.UpdateRequest(
            id=resource["id"],
            urn=URN,
            olds=encode(resource["outputs"]),
            news=encode(inputs),
            old_inputs=encode(resource["inputs"]),
            timeout=self.timeout,
        )
        with self._begun("updating", {**resource, "inputs": inputs}):
            try:
                answer = self.servicer.Update(request, self._context)
            except CallFailedError as error:
                if error.kept is not None:
                    resource.update(kept_resource({**resource, "inputs": inputs}, error.kept))
                raise
        resource.update(inputs=inputs, outputs=plain(answer.properties))
        resource.pop("initErrors", None)
        refreshing(resource, answer.refresh_before_update)

    def _delete(self, resource: Json, *, replaced: bool = False) -> None:
        """Delete it; one that is ``replaced`` stays in the state as a reminder until the
        replacement exists."""
        request = provider_pb2.DeleteRequest(
            id=resource["id"],
            urn=URN,
            properties=encode(resource.get("outputs") or {}),
            old_inputs=encode(resource["inputs"]),
            timeout=self.timeout,
        )
        with self._begun("deleting", resource):
            self.servicer.Delete(request, self._context)
        if replaced:
            resource["pendingReplacement"] = True
        else:
            self._resources = [kept for kept in self._resources if kept is not resource]

    def _read(self, resource: Json) -> None:
        if resource.get("pendingReplacement"):
            return
        request = provider_pb2.ReadRequest(
            id=resource["id"],
            urn=URN,
            properties=encode(resource.get("outputs") or {}),
            inputs=encode(resource.get("inputs") or {}),
        )
        try:
            answer = self.servicer.Read(request, self._context)
        except CallFailedError as error:
            if error.kept is None:
                raise
            resource.update(kept_resource(resource, error.kept))
            return
        if not answer.id:
            self._resources = [kept for kept in self._resources if kept is not resource]
            return
        resource.update(id=answer.id, inputs=plain(answer.inputs), outputs=plain(answer.properties))
        resource.pop("initErrors", None)
        refreshing(resource, answer.refresh_before_update)

    @contextmanager
    def _begun(self, kind: str, resource: Json) -> Iterator[None]:
        """Keep an operation pending until the call ends, other than by a kill of the engine."""
        operation = {"type": kind, "resource": copy.deepcopy(resource)}
        self._pending.append(operation)
        try:
            yield
        except Killed as killed:
            if "engine" not in killed.roles:
                self._pending.remove(operation)
            raise
        except Exception:
            self._pending.remove(operation)
            raise
        self._pending.remove(operation)


# -- resources, in the engine's format ------------------------------------------------------------


def new_resource(inputs: Json) -> Json:
    """A resource that has not been created yet."""
    return {
        "urn": URN,
        "type": QUEUED_RESOURCE,
        "custom": True,
        "inputs": inputs,
        "parent": STACK_URN,
        "provider": PROVIDER,
    }


def kept_resource(resource: Json, kept: provider_pb2.ErrorResourceInitFailed) -> Json:
    """``resource`` as a failed call leaves it: with its id and the reasons."""
    return refreshing(
        {
            **resource,
            "id": kept.id,
            "inputs": plain(kept.inputs),
            "outputs": plain(kept.properties),
            "initErrors": list(kept.reasons),
        },
        kept.refresh_before_update,
    )


def refreshing(resource: Json, before_update: bool) -> Json:
    """``resource``, marked to be read before each update if ``before_update``."""
    resource["refreshBeforeUpdate"] = before_update
    return resource


def plain(properties: Struct) -> Json:
    """Decode properties from their wire format."""
    return dict(decode(properties))
