"""`tpuflex:tpu:QueuedResource`: the engine's requests in, replies out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.replies import InitFailedError, check_failures, diff_response
from pulumi_plugin.values import Properties, has_unknown
from pulumi_plugin.wire import decode, encode, secret_keys
from tpuflex.codes import with_code
from tpuflex.errors import InterruptedByUser, TpuflexError
from tpuflex.google.timing import Timing
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.diff import resource_diff
from tpuflex.provider.generations import Generations, requests_of
from tpuflex.provider.handover import await_successor
from tpuflex.provider.operations import create, delete_resource, update
from tpuflex.provider.read import labels_of, read
from tpuflex.provider.state_id import drawn_state_id
from tpuflex.queued_resource.check import failures, input_properties, parse, with_defaults
from tpuflex.queued_resource.fields import INPUTS
from tpuflex.queued_resource.name import RequestName, ids_of
from tpuflex.queued_resource.outputs import outputs, recorded_lifecycle, with_run_times
from tpuflex.queued_resource.ownership import remedy
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import ON_ITS_WAY, is_settled

_Options = provider_pb2.CheckRequest.AutonamingOptions
#: Inputs that name a request.
_NAMES = ("queuedResourceId", "queuedResourceIdPrefix")


def autonamed(
    request: provider_pb2.CheckRequest, given: Properties, before: Properties
) -> tuple[Properties, list[tuple[str, str]]]:
    """The inputs that the engine's proposal makes, and what keeps it from being honoured.

    A proposal is what generated ids begin with, so that each generation has its own; an enforced
    name is the id itself. What has a name keeps it (docs/adr/0024)."""
    if not request.HasField("autonaming") or any(key in given for key in _NAMES):
        return {}, []
    held = {key: before[key] for key in _NAMES if key in before}
    if "queuedResourceIdPrefix" in held:
        return {}, []
    if held:
        return held, []
    proposed, mode = request.autonaming.proposed_name, request.autonaming.mode
    if mode == _Options.DISABLE:
        reason = (
            "pulumi:autonaming is disabled, and neither this nor queuedResourceIdPrefix is given."
            " Write one of them."
        )
        return {}, [("queuedResourceId", reason)]
    key = "queuedResourceId" if mode == _Options.ENFORCE else "queuedResourceIdPrefix"
    return {key: proposed}, []


ADOPTS = (
    "`up` takes it and asks for no other, if it has the marks and the settings of this one. If"
    " another resource or stack holds it, both would have one slice, and the first to go deletes"
    " it for both: give this one another name"
)
CLEARS = "`up` deletes it, as what an earlier run has left, and asks for another"
REFUSES = "`up` is refused"


def warn_of_taken_names(connect: Callable[[], Call], inputs: Properties) -> None:
    """Warn of each request that is there under a name of ``inputs``, which are to be created.

    It is one look: where that is refused, or nothing answers, the preview goes on without."""
    try:
        call = connect()
        looks = [call.look(name, budget=0) for name in sorted(requests_of(inputs), key=str)]
    except InterruptedByUser:
        raise
    except TpuflexError:
        return
    for seen in looks:
        if not seen.gone:
            made = f", made at {seen.created}" if seen.created else ""
            told = f"{seen.name} is there already{made}, {seen.describe()}"
            call.report(f"{told}: {_outcome(seen, inputs)}", warning=True)


def _outcome(seen: Snapshot, inputs: Properties) -> str:
    # A first preview does not know the state's id, which is one of the owner labels.
    known, labels = not has_unknown(inputs.get("labels")), labels_of(inputs)
    if known and not seen.belongs_to(labels):
        return f"{REFUSES}: it belongs to {seen.owner}. {remedy(labels, seen.name, seen.labels)}"
    if seen.queued_resource is None or is_settled(seen.state):
        return CLEARS
    return ADOPTS


#: Outputs that stay as they are from the request to the slice, where there is one zone.
_SINCE_THE_REQUEST = frozenset({"createTime", "requests"})


def inputs_of(values: Properties) -> Properties:
    """The inputs among ``values``, which may be outputs."""
    return {key: value for key, value in values.items() if key in INPUTS}


def properties(given: Struct, seen: Snapshot, recorded: Properties | None = None) -> Struct:
    """Output properties: the inputs ``given``, secret where they were, and those of ``seen``, after
    those ``recorded`` in the state."""
    inputs = input_properties(parse(decode(given)))
    found = with_run_times(outputs(inputs, seen), recorded or {})
    return encode(found, secrets=secret_keys(given))


def previewed_creation(given: Struct) -> Struct:
    """Outputs known before the creation: the inputs and the names derived from them."""
    previewed = Struct()
    previewed.CopyFrom(given)
    values = decode(given)
    project, zones, id_ = (values.get(key) for key in ("project", "zones", "queuedResourceId"))
    zone = zones[0] if isinstance(zones, list) and len(zones) == 1 else None
    if isinstance(project, str) and isinstance(zone, str) and isinstance(id_, str):
        previewed.update({"name": str(RequestName(project, zone, id_)), "zone": zone})
        if not has_unknown(several := values.get("multiNode")):
            previewed.update({"nodeId": ids_of(id_, several)[0]})
    return previewed


def previewed_update(olds: Struct, news: Struct) -> Struct:
    """Outputs after an update in place: the old ones with the new inputs.

    Of what still waits no more is known than before its creation, but when it was asked for: a
    program that takes the first of its addresses must not meet the empty list of the state.
    """
    if recorded_lifecycle(decode(olds)) in ON_ITS_WAY:
        previewed = previewed_creation(news)
        for key in _SINCE_THE_REQUEST & olds.fields.keys() if "name" in previewed.fields else ():
            previewed.fields[key].CopyFrom(olds.fields[key])
        return previewed
    merged = Struct()
    for key, value in olds.fields.items():
        if key not in INPUTS:
            merged.fields[key].CopyFrom(value)
    for key, value in news.fields.items():
        merged.fields[key].CopyFrom(value)
    return merged


@contextmanager
def kept(given: Struct, recorded: Properties | None = None) -> Iterator[None]:
    """Have the engine keep a request in the state that the block leaves behind when it fails."""
    try:
        yield
    except UnreadyError as error:
        seen = error.snapshot
        raise InitFailedError(
            with_code(str(error), error.code),
            id_=str(seen.name),
            properties=properties(given, seen, recorded),
            inputs=given,
            refresh_before_update=True,
        ) from error


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
        *,
        new_host: bool = False,
    ) -> None:
        self._project = project
        self._timing = timing
        self._log = log
        self._call = call
        self._new_host = new_host
        self._generations = Generations()
        self._planned: set[str] = set()  # URNs checked since they were last read

    def begin(self) -> None:
        """Forget what only concerns the run of the engine that was before."""
        self._generations.begin()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._timing.wall(), UTC)

    def check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:
        """The inputs with defaults, or what is wrong with them."""
        given, before = decode(request.news), inputs_of(decode(request.olds))
        self._generations.checked(request.urn, before)
        present = before.get("queuedResourceId")
        named, nameless = autonamed(request, given, before)
        asked = {**given, **named}
        filled = with_defaults(
            asked,
            urn=request.urn,
            project=self._project,
            id_for=lambda prefix: self._generations.id_for(request.urn, prefix, present),
            before=before,
            state_id=(not before and self._generations.state_id(request.urn))
            or drawn_state_id(request.randomSeed),
        )
        secret = secret_keys(request.news)
        refused = failures(filled, before=before, now=self._now(), secrets=secret) + nameless
        if not before and (said := self._generations.renamed(request.urn, given)):
            self._log.write(request.urn, said, warning=True)
        if not (before or refused or "queuedResourceId" in asked):
            filled["queuedResourceId"] = self._generations.free_id(
                lambda: self._call(request.urn), request.urn, filled
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
        news = decode(request.news)
        # Of what a run replaces by deleting it first, the engine asks for a diff of all that uses
        # it, with unknown values, before it checks any of that (`calculateDependentReplacements` of
        # pulumi/pulumi v3.256.0).
        first = not self._generations.is_checked(request.urn) and any(
            map(has_unknown, news.values())
        )
        found = resource_diff(
            *(old, news, olds, self._timing.wall()), goes_first=first, new_host=self._new_host
        )
        self._generations.shown(request.urn, old, olds)
        self._generations.diffed(
            request.urn, request.id, replaces=found.diff.replaces, permitted=found.permitted
        )
        # Refresh and destroy ask for a diff, too, but plan nothing.
        for note in found.notes if first or request.urn in self._planned else ():
            self._log.write(request.urn, with_code(note.text, note.code), warning=note.warning)
        return diff_response(found.diff)

    def create(self, request: provider_pb2.CreateRequest) -> provider_pb2.CreateResponse:
        """Ask for capacity and wait for it."""
        inputs = decode(request.properties)
        self._generations.check_replacement(lambda: self._call(request.urn), request.urn, inputs)
        if request.preview:
            self._generations.preview(request.urn, inputs)
            warn_of_taken_names(lambda: self._call(request.urn), inputs)
            return provider_pb2.CreateResponse(properties=previewed_creation(request.properties))
        before = self._generations.create(request.urn, inputs)
        with kept(request.properties), self._generations.awaiting():
            seen = create(self._call(request.urn), inputs, timeout=request.timeout, before=before)
        self._generations.ready(request.urn, seen.name)
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
            self._generations.shown(request.urn, old, outputs)
            self._generations.read(request.urn, RequestName.parse(request.id))
        refreshed = read(self._call(request.urn), request.id, old, outputs)
        if refreshed is None or refreshed.seen.gone:
            self._generations.gone(request.urn, RequestName.parse(request.id))
        else:
            self._generations.found(request.urn, refreshed.seen.name)
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
        with kept(request.news, olds), self._generations.awaiting():
            seen = update(
                self._call(request.urn),
                request.id,
                old,
                decode(request.news),
                olds,
                timeout=request.timeout,
            )
        # It may have got capacity in another zone than the one that the state shows.
        self._generations.ready(request.urn, seen.name)
        return provider_pb2.UpdateResponse(
            properties=properties(request.news, seen, olds), refresh_before_update=True
        )

    def delete(self, request: provider_pb2.DeleteRequest) -> Empty:
        """Delete it, with its nodes, and wait until all is gone."""
        outputs = decode(request.properties)
        inputs = inputs_of(decode(request.old_inputs) or outputs)
        call = self._call(request.urn)
        name = RequestName.parse(request.id)
        if (current := self._generations.delete(request.urn, name)) is not None:
            await_successor(call, inputs, name, current)
        successor = self._generations.successor(request.urn, name)
        delete_resource(
            call, request.id, inputs, outputs, timeout=request.timeout, successor=successor
        )
        self._generations.deleted(request.urn, name)
        return Empty()
