"""Resources that are members of a REST collection of their own: most of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.gcp_plugin import labels
from embedded_cloud.gcp_plugin.call import CloudCall, Wait, at_once, failing_with, unless_gone
from embedded_cloud.gcp_plugin.fields import write
from embedded_cloud.gcp_plugin.resource_type import (
    IncompleteCreateError,
    Made,
    ResourceType,
    creation_of,
    scope_of,
)
from embedded_cloud.gcp_plugin.states import (
    NO_DEFAULTS,
    Formatted,
    identified,
    known_after,
    located,
    map_changes,
    sent_changes,
    state_of,
)
from pulumi_plugin.values import Properties
from tpuflex.errors import ApiError, TpuflexError


@dataclass(frozen=True, slots=True)
class Step:
    """One request of an update.

    Attributes:
        properties: the properties that it carries; empty means those of no other step, and
            the managed maps.
        verb: its HTTP method.
        suffix: what follows the resource's path.
        mask: where the names of the changed fields go: ``query``, ``body``, or empty for nowhere.
        lock: a field of the present resource to send back, such as its etag.
        bare: the body is the resource itself, although a create has an envelope.
        switch: suffixes for false and true of a boolean that is set by two custom methods.
    """

    properties: tuple[str, ...] = ()
    verb: str = "PATCH"
    suffix: str = ""
    mask: str = ""
    lock: str = ""
    bare: bool = False
    switch: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """A REST collection. Paths and texts are format strings over the resource's properties.

    Attributes:
        path: the collection.
        item: the resource, over the parts of its id.
        query: query parameters of the create call; an empty value is left out.
        envelope: the field of a request that carries the resource; empty when the body is it.
        beside: further fields of a create request that has an envelope.
        wait: how to wait for the answer to a change.
        steps: the requests of an update, in order.
        adopts: the flag that lets create adopt an existing resource; may be empty.
        guard: refuses or prepares a delete before it is sent.
        must_exist: a delete of what is gone fails, as in the published plugin.
        appears_late: what was made is polled for until it can be read.
        named_by_google: the ``name`` is in the answer to a create, not in its request.
    """

    path: str
    item: str
    query: Mapping[str, str] = field(default_factory=dict)
    envelope: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    wait: Wait = at_once
    steps: tuple[Step, ...] = (Step(),)
    adopts: str = ""
    guard: Callable[[Made, CloudCall], None] | None = None
    must_exist: bool = False
    appears_late: bool = False
    named_by_google: bool = False

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Create the resource and read it back."""
        values = located(row, inputs, call.settings)
        body = write(row.properties, values, scope_of(values))
        for managed in row.maps:
            body.pop(managed.name, None)
            keys = labels.merged(managed, inputs, call.settings, None)
            if isinstance(keys, dict) and keys:
                body[managed.name] = labels.sent(managed, None, {}, keys)
        if self.named_by_google:
            answer = self._post(row, values, body, call)
            made = identified(row, {**values, "name": text(answer, "name")}, call.settings)
        else:
            made = identified(row, values, call.settings)
            answer = self._post(row, values, body, call)
        with creation_of(made):
            self.wait(call, answer, f"Creating {row.title}")
        return self._read_back(row, made, call)

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The present state, or ``None`` when the resource is gone."""
        resource = self._get(row, made, call)
        if resource is None:
            return None
        return Made(made.id, state_of(row, made.id, made.state, resource))

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """Send the steps that carry a change, and read back."""
        resource = self._require(row, made, call)
        carried = {name for step in self.steps for name in step.properties}
        for step in self.steps:
            changes = sent_changes(row, made.state, inputs, step.properties, carried)
            maps: JsonObject = {}
            if not step.properties:
                maps = map_changes(row, made.state, inputs, resource, call.settings)
            if changes or maps:
                self._send(row, made, step, changes, maps, resource, call)
                # This step has changed what the next one must send as its lock.
                resource = self._require(row, made, call)
        known = known_after(row, made.state, inputs, call.settings)
        return state_of(row, made.id, known, resource)

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Delete the resource, unless it is gone already.

        Raises:
            ApiError: the cloud refuses; or it is gone, and ``must_exist``.
        """
        if self.guard is not None:
            self.guard(made, call)
        if self.must_exist:
            self.wait(call, call.request("DELETE", self._path(row, made)), f"Deleting {row.title}")
            return
        answer = unless_gone(
            f"Error deleting {row.title}", lambda: call.request("DELETE", self._path(row, made))
        )
        if answer is not None:
            self.wait(call, answer, f"Deleting {row.title}")

    def _post(
        self, row: ResourceType, values: Properties, body: JsonObject, call: CloudCall
    ) -> JsonObject:
        formatted = Formatted(values)
        query = {key: form.format_map(formatted) for key, form in self.query.items()}
        if self.envelope:
            beside = {key: form.format_map(formatted) for key, form in self.beside.items()}
            body = {**beside, self.envelope: body}
        path = self.path.format_map(formatted)
        query = {key: value for key, value in query.items() if value}
        try:
            with failing_with(f"Error creating {row.title}"):
                return call.request("POST", path, query=query, body=body)
        except ApiError as error:
            if error.status == 409 and self.adopts and values.get(self.adopts) is True:
                return {"status": "DONE", "done": True}
            raise

    def _read_back(self, row: ResourceType, made: Made, call: CloudCall) -> Made:
        try:
            if self.appears_late:
                pauses = call.waiter.pauses(f"Creating {row.title}")
                while self._get(row, made, call) is None:
                    next(pauses)
            return Made(made.id, state_of(row, made.id, made.state, self._require(row, made, call)))
        except TpuflexError as error:
            raise IncompleteCreateError(made, error) from error

    def _path(self, row: ResourceType, made: Made) -> str:
        return self.item.format_map(row.identity.parse(made.id, NO_DEFAULTS))

    def _get(self, row: ResourceType, made: Made, call: CloudCall) -> JsonObject | None:
        return unless_gone(
            f"Error when reading or editing {row.title} {made.id!r}",
            lambda: call.request("GET", self._path(row, made)),
        )

    def _require(self, row: ResourceType, made: Made, call: CloudCall) -> JsonObject:
        resource = self._get(row, made, call)
        if resource is None:
            raise ApiError(f"{row.title} {made.id!r} does not exist", status=404)
        return resource

    def _send(
        self,
        row: ResourceType,
        made: Made,
        step: Step,
        changes: Properties,
        maps: JsonObject,
        resource: JsonObject,
        call: CloudCall,
    ) -> None:
        carried = [item for item in row.properties if item.name in changes]
        body = write(carried, changes, scope_of(made.state)) | maps
        suffix = step.suffix
        if step.switch is not None:
            suffix, body = step.switch[bool(next(iter(changes.values())))], {}
        mask = ",".join([".".join(item.place) for item in carried] + sorted(maps))
        if step.lock and resource.get(step.lock):
            body[step.lock] = resource[step.lock]
        if self.envelope and step.switch is None and not step.bare:
            body = {self.envelope: body}
        if step.mask == "body":
            body["updateMask"] = mask
        query = {"updateMask": mask} if step.mask == "query" else {}
        path = self._path(row, made) + suffix
        with failing_with(f"Error updating {row.title} {made.id!r}"):
            answer = call.request(step.verb, path, query=query, body=body)
        self.wait(call, answer, f"Updating {row.title}")
