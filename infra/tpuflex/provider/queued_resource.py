"""`tpuflex:tpu:QueuedResource`: the engine's requests in, replies out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from google.protobuf.empty_pb2 import Empty

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.replies import check_failures, diff_response
from pulumi_plugin.wire import decode, encode, secret_keys
from tpuflex.codes import with_code
from tpuflex.gcp.timing import Timing
from tpuflex.provider.autonaming import autonamed
from tpuflex.provider.call import Call
from tpuflex.provider.generations import Generations
from tpuflex.provider.handover import await_heir
from tpuflex.provider.marshalling import (
    inputs_of,
    kept,
    previewed_creation,
    previewed_update,
    properties,
)
from tpuflex.provider.operations import create, delete_resource, read, update
from tpuflex.provider.planning import plan
from tpuflex.provider.replacements import Replacements
from tpuflex.provider.taken import warn_of_taken_names
from tpuflex.request.check import failures, with_defaults
from tpuflex.request.name import RequestName


class QueuedResources:
    """The type `tpuflex:tpu:QueuedResource`. A create may take days.

    Args:
        project: the provider's project, for what names none.
        timing: clocks and pauses.
        log: the engine's log.
        call: makes what one call about a URN works with.
    """

    def __init__(
        self,
        project: str | None,
        timing: Timing,
        log: EngineLog,
        call: Callable[[str], Call],
    ) -> None:
        self._project = project
        self._timing = timing
        self._log = log
        self._call = call
        self._generations = Generations()
        self._replacements = Replacements()
        self._planned: set[str] = set()  # URNs checked since they were last read

    def begin(self) -> None:
        """Forget what only concerns the run of the engine that was before."""
        self._replacements.begin()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._timing.wall(), UTC)

    def check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:
        """The inputs with defaults, or what is wrong with them."""
        given, before = decode(request.news), inputs_of(decode(request.olds))
        self._generations.begin(request.urn)
        self._replacements.checked(request.urn, anew=not before)
        if before:
            self._replacements.shown(request.urn, before)
        present = before.get("queuedResourceId")
        named, nameless = autonamed(request, given, before)
        asked = {**given, **named}
        filled = with_defaults(
            asked,
            urn=request.urn,
            project=self._project,
            id_for=lambda prefix: self._generations.id_for(request.urn, prefix, present),
            before=before,
        )
        secret = secret_keys(request.news)
        refused = failures(filled, before=before, now=self._now(), secrets=secret) + nameless
        if not before and (said := self._replacements.renamed(request.urn, given)):
            self._log.write(request.urn, said, warning=True)
        if not (before or refused or "queuedResourceId" in asked):
            filled["queuedResourceId"] = self._replacements.free_id(
                lambda: self._call(request.urn),
                request.urn,
                filled,
                lambda wanted: self._generations.holder(request.urn, wanted),
            )
        self._planned.add(request.urn)
        answer = provider_pb2.CheckResponse(failures=check_failures(refused))
        # The inputs are returned unchanged, secrets and unknowns included; only defaults are added.
        answer.inputs.CopyFrom(request.news)
        added = {key: value for key, value in filled.items() if given.get(key) != value}
        for key, value in encode(added, secrets=secret).fields.items():
            answer.inputs.fields[key].CopyFrom(value)
        return answer

    def diff(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:
        """What the next `up` does about changed inputs, time and the cloud."""
        olds = decode(request.olds)
        old = inputs_of(decode(request.old_inputs) or olds)
        planned = plan(old, decode(request.news), olds, self._timing.wall())
        self._replacements.shown(request.urn, old, olds)
        self._replacements.planned(request.urn, permitted=planned.permitted)
        if not planned.diff.replaces:
            self._replacements.keeps(request.urn, request.id)
        # Refresh and destroy ask for a diff, too, but plan nothing.
        for note in planned.notes if request.urn in self._planned else ():
            self._log.write(request.urn, with_code(note.text, note.code), warning=note.warning)
        return diff_response(planned.diff)

    def create(self, request: provider_pb2.CreateRequest) -> provider_pb2.CreateResponse:
        """Ask for capacity and wait for it."""
        inputs = decode(request.properties)
        self._replacements.check(lambda: self._call(request.urn), request.urn, inputs)
        if request.preview:
            self._generations.foresee(request.urn, inputs)
            warn_of_taken_names(lambda: self._call(request.urn), inputs)
            return provider_pb2.CreateResponse(properties=previewed_creation(request.properties))
        self._generations.ask(request.urn, inputs)
        before = self._replacements.before(request.urn, inputs)
        with kept(request.properties), self._replacements.proving():
            seen = create(self._call(request.urn), inputs, timeout=request.timeout, before=before)
        self._replacements.keeps(request.urn, str(seen.name), made=True)
        return provider_pb2.CreateResponse(
            id=str(seen.name),
            properties=properties(request.properties, seen),
            refresh_before_update=True,
        )

    def read(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:
        """What became of it."""
        self._planned.discard(request.urn)
        old, outputs = inputs_of(decode(request.inputs)), decode(request.properties)
        if old:
            # Before a replacement on demand this is all that is shown of what it replaces.
            self._replacements.shown(request.urn, old, outputs)
            self._generations.claim(request.urn, RequestName.parse(request.id))
        refreshed = read(self._call(request.urn), request.id, old, outputs)
        if refreshed is None or refreshed.seen.gone:
            self._generations.forget(request.urn, RequestName.parse(request.id))
        else:
            self._generations.hold(request.urn, refreshed.seen.name)
        if refreshed is None:
            return provider_pb2.ReadResponse()
        secrets = secret_keys(request.inputs, request.properties)
        inputs = encode(refreshed.inputs, secrets=secrets)
        return provider_pb2.ReadResponse(
            id=str(refreshed.seen.name),
            inputs=inputs,
            properties=encode(refreshed.outputs, secrets=secrets),
            refresh_before_update=True,
        )

    def update(self, request: provider_pb2.UpdateRequest) -> provider_pb2.UpdateResponse:
        """Go on waiting, or change it in place."""
        olds = decode(request.olds)
        if request.preview:
            return provider_pb2.UpdateResponse(
                properties=previewed_update(request.olds, request.news)
            )
        old = inputs_of(decode(request.old_inputs) or olds)
        with kept(request.news, olds), self._replacements.proving():
            seen = update(
                self._call(request.urn),
                request.id,
                old,
                decode(request.news),
                olds,
                timeout=request.timeout,
            )
        # It may have got capacity in another zone than the one that the state shows.
        self._replacements.keeps(request.urn, str(seen.name), made=True)
        return provider_pb2.UpdateResponse(
            properties=properties(request.news, seen, olds), refresh_before_update=True
        )

    def delete(self, request: provider_pb2.DeleteRequest) -> Empty:
        """Delete it, with its nodes, and wait until all is gone."""
        outputs = decode(request.properties)
        inputs = inputs_of(decode(request.old_inputs) or outputs)
        call = self._call(request.urn)
        self._replacements.refuse_unproven(RequestName.parse(request.id))
        self._replacements.refuse_kept(request.id)
        now = self._replacements.goes_on_with(request.urn)
        if now and now != request.id:
            await_heir(call, inputs, RequestName.parse(request.id), RequestName.parse(now))
        heir = self._replacements.heir(request.urn, RequestName.parse(request.id))
        delete_resource(call, request.id, inputs, outputs, timeout=request.timeout, heir=heir)
        self._generations.release(request.urn, request.id)
        self._replacements.deleted(request.urn)
        return Empty()
