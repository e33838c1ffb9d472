"""The generations of each slice: which comes next, what it takes over from, and what may go.

Generated ids carry a generation, so that a replacement has another id and is created before the old
one is deleted. The engine checks the inputs of a replacement without saying what they replace, and
for `pulumi up --replace`, a tainted resource and `replace_on_changes` it does not always ask for a
diff (`step_generator.go` of pulumi/pulumi v3.256.0). But it has shown what it replaces: in a check
with old inputs, a diff, or the read that precedes every update. :class:`Generations` remembers that
for one run; the next run is shown the same again and arrives at the same ids.

It carries out the table of :mod:`tpuflex.provider.stages`. What a creation waits for meanwhile is
:mod:`tpuflex.provider.handover`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from pulumi_plugin.values import Properties, Value
from tpuflex.advice import Advice
from tpuflex.codes import Code
from tpuflex.errors import ConflictError
from tpuflex.naming import LABEL_STATE, generation_id, generation_of
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.read import labels_of
from tpuflex.provider.stages import Action, Event, Stage, row_of
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.outcomes import PROTECTED, UNPROTECT
from tpuflex.queued_resource.outputs import predecessor
from tpuflex.queued_resource.snapshot import Snapshot, parse_time
from tpuflex.queued_resource.states import Lifecycle

#: So many names that are taken are passed over, at most: an API that knows every name must not keep
#: a run looking without end.
PASSED_OVER = 50
#: What is said of a name that is passed over.
LEFT_ALONE = "older than what is replaced, so that a state has let go of it, and left alone"
#: What is said of one that another resource has.
OF_ANOTHER = "{name} is the request of {urn}: the next generation is taken"
RENAMED = (
    "its ids begin with {after} now, not with {before}: that alone replaces it, and"
    ' queued_resource_id_prefix="{before}" keeps it'
)


class Generations:
    """What the engine has shown of the state in one run, and what this run has done. Thread-safe.

    Names are of requests, and URNs of the resources that have them: in several zones, and while one
    generation hands over to the next, a resource has several.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By URN: the ids that were seen, and the names that the state holds; then what it says of
        # the last one that was shown: inputs, createTime, and what that takes over from.
        self._ids: dict[str, set[str]] = {}
        self._held: dict[str, set[RequestName]] = {}
        self._inputs: dict[str, Properties] = {}
        self._created: dict[str, str] = {}
        self._serving: dict[str, tuple[RequestName, ...]] = {}
        # Who has asked for a name, and who does so in a preview.
        self._asked: dict[RequestName, str] = {}
        self._planned: dict[RequestName, str] = {}
        # Of this run: URNs whose inputs were checked, those that may be replaced although they are
        # protected, the id that the state goes on with, inputs of what takes over from a name, and
        # what has turned out not to take over from one.
        self._checked: set[str] = set()
        self._permitted: set[str] = set()
        self._current: dict[str, str] = {}
        self._successors: dict[RequestName, Properties] = {}
        self._needed: dict[RequestName, str] = {}

    def begin(self) -> None:
        """Record that a run of the engine begins."""
        with self._lock:
            self._needed, self._current, self._checked = {}, {}, set()

    # -- where a generation stands -------------------------------------------------------------

    def stage(self, urn: str, name: RequestName) -> Stage:
        """Where ``name`` stands for the resource ``urn``."""
        with self._lock:
            return self._stage(urn, name)

    def _stage(self, urn: str, name: RequestName) -> Stage:
        if self._planned.get(name, urn) != urn:
            return Stage.PLANNED_ELSEWHERE
        if any(name in names for by, names in self._held.items() if by != urn):
            return Stage.HELD_ELSEWHERE
        if self._asked.get(name, urn) != urn:
            return Stage.REQUESTED_ELSEWHERE
        if name in self._held.get(urn, ()) or name in self._needed or self._goes_on_with(name):
            return self._held_stage(urn, name)
        if name in self._asked:
            return Stage.REQUESTED
        return Stage.PLANNED if name in self._planned else Stage.FREE

    def _held_stage(self, urn: str, name: RequestName) -> Stage:
        """The stage of what the state holds under ``urn``."""
        if name in self._needed:
            return Stage.NEEDED
        if self._goes_on_with(name):
            return Stage.CURRENT
        return Stage.REPLACED if urn in self._current else Stage.HELD

    def _goes_on_with(self, name: RequestName) -> bool:
        return str(name) in self._current.values()

    def _holder(self, urn: str, wanted: Iterable[RequestName]) -> tuple[RequestName, str] | None:
        """The first of ``wanted`` that another resource holds or asks for, and its URN."""
        taken = {**self._planned, **self._asked}
        taken |= {held: by for by, names in self._held.items() for held in names if by != urn}
        named = ((name, taken.get(name, urn)) for name in sorted(wanted, key=str))
        return next(((name, by) for name, by in named if by != urn), None)

    # -- what the engine shows -----------------------------------------------------------------

    def checked(self, urn: str, before: Properties) -> None:
        """Record that the engine checks the inputs of ``urn``: of what the state holds with the
        inputs ``before`` or, without any, of what replaces that, or is new."""
        with self._lock:
            # What a preview before this run has planned does not count any more.
            self._planned = {name: by for name, by in self._planned.items() if by != urn}
            self._current.pop(urn, None)
            (self._checked.add if before else self._checked.discard)(urn)
        if before:
            self.shown(urn, before)

    def is_checked(self, urn: str) -> bool:
        """Whether this run has checked the inputs of what the state holds under ``urn``."""
        with self._lock:
            return urn in self._checked

    def shown(self, urn: str, inputs: Properties, outputs: Properties | None = None) -> None:
        """Record that the state holds ``inputs`` under ``urn``, with ``outputs`` if they are known;
        nothing is planned for it yet."""
        created = (outputs or {}).get("createTime")
        with self._lock:
            self._inputs[urn] = inputs
            self._permitted.discard(urn)
            if outputs is not None:
                self._serving[urn] = predecessor(outputs)
            if isinstance(created, str) and created:
                self._created[urn] = created

    def diffed(self, urn: str, id_: str, *, replaces: bool, permitted: bool) -> None:
        """Record what the diff of ``id_`` says.

        Args:
            urn: the resource's URN.
            id_: full name of what the state holds.
            replaces: whether it is replaced.
            permitted: whether that is for nothing that its protection forbids.
        """
        with self._lock:
            (self._permitted.add if permitted else self._permitted.discard)(urn)
            # A destroy, which asks for diffs, too, checks no inputs.
            if not replaces and urn in self._checked:
                self._current[urn] = id_

    def read(self, urn: str, name: RequestName) -> None:
        """Record that the state holds ``name`` under ``urn`` now, before it is known whether it
        still exists: the engine reads resources side by side, and another may ask for it meanwhile.

        Raises:
            ConflictError: in this preview another resource asks for it.
        """
        with self._lock:
            row = row_of(self._stage(urn, name), Event.READ)
            for held in self._held.values():
                held.discard(name)  # of an earlier run: it was renamed since
            self._held.setdefault(urn, set()).add(name)
            if row.action is Action.REFUSE_SHARED:
                raise _shared(name, urn, self._planned[name])

    def found(self, urn: str, name: RequestName) -> None:
        """Record that the state holds ``name`` under ``urn``, and that it exists."""
        with self._lock:
            self._ids.setdefault(urn, set()).add(name.id)
            self._held.setdefault(urn, set()).add(name)

    def gone(self, urn: str, name: RequestName) -> None:
        """Record that ``name``, which ``urn`` held, is gone."""
        with self._lock:
            self._held.setdefault(urn, set()).discard(name)

    # -- the inputs of the next one ------------------------------------------------------------

    def id_for(self, urn: str, prefix: str, present: Value = None) -> str:
        """The id that the inputs of ``urn`` get.

        Args:
            urn: the resource's URN.
            prefix: what its ids begin with.
            present: its id in the state if the engine keeps it; otherwise the resource is new, or
                replaces what the state holds.
        """
        with self._lock:
            seen = self._ids.setdefault(urn, set())
            if isinstance(present, str):
                seen.add(present)
                if generation_of(prefix, present) is not None:
                    return present
            known = [generation_of(prefix, id_) for id_ in seen]
        return generation_id(prefix, max((g for g in known if g is not None), default=0) + 1)

    def free_id(self, connect: Callable[[], Call], urn: str, inputs: Properties) -> Value:
        """The id for ``inputs``, which have one that was made from its prefix: that one, or the
        first generation behind it whose name is taken by no other resource of the stack, and by
        nothing that is older than what it replaces. What is older no hand-over has made: a state
        has let go of it. Others have such names once two slices have exchanged theirs.

        Args:
            connect: makes the engine call; nothing else needs the cloud.
            urn: the resource's URN.
            inputs: inputs with defaults, without unknown zones; otherwise the id is as it is.

        Raises:
            AccessError, ApiError: what has the name may not be seen, or cannot.
        """
        id_, prefix = inputs.get("queuedResourceId"), inputs.get("queuedResourceIdPrefix")
        with self._lock:
            before = self._inputs.get(urn)
        if before is None or not isinstance(prefix, str) or not requests_of(inputs):
            return id_
        call = connect()
        first = generation_of(prefix, str(id_)) or 1
        for generation in range(first, first + PASSED_OVER):
            id_ = generation_id(prefix, generation)
            wanted = requests_of({**inputs, "queuedResourceId": id_})
            with self._lock:
                taken = self._holder(urn, wanted)
            if taken is not None:
                call.report(OF_ANOTHER.format(name=taken[0], urn=taken[1]))
                continue
            older = self._older(call, urn, before, wanted)
            if not older:
                break
            for seen in older:
                call.report(f"{LEFT_ALONE}: {seen.name}, {seen.describe()}", warning=True)
        return id_

    def state_id(self, urn: str) -> str:
        """The id of the state that made what this state holds under ``urn``; empty if none did, or
        that is not known."""
        with self._lock:
            return labels_of(self._inputs.get(urn, {})).get(LABEL_STATE, "")

    def renamed(self, urn: str, given: Properties) -> str:
        """What to say of the replacement ``given`` if the program gives it another prefix than the
        state holds under ``urn``; empty if it does not."""
        after = given.get("queuedResourceIdPrefix")
        with self._lock:
            before = self._inputs.get(urn, {}).get("queuedResourceIdPrefix")
        if not isinstance(before, str) or not isinstance(after, str) or before == after:
            return ""
        return RENAMED.format(before=before, after=after)

    # -- creating and updating -----------------------------------------------------------------

    def check_replacement(self, connect: Callable[[], Call], urn: str, inputs: Properties) -> None:
        """Check that ``inputs`` may be created in the place of what the state holds, if it holds
        any.

        Args:
            connect: makes the engine call; nothing else needs the cloud in a preview.
            urn: the resource's URN.
            inputs: checked inputs.

        Raises:
            ConflictError: that is ACTIVE and protected, and its run does not end; or what has the
                successor's name was made before it, so that no hand-over has made it.
            AccessError, ApiError: it may not be seen, or cannot.
        """
        with self._lock:
            before, permitted = self._inputs.get(urn), urn in self._permitted
        wanted = requests_of(inputs)
        if before is None or not wanted:
            return
        call = connect()
        if before.get("deletionProtection") is True and not permitted:
            _refuse_protected(_held(call, before, wanted), urn)
        for seen in self._older(call, urn, before, wanted):
            raise ConflictError(
                f"{seen.name}, made at {seen.created}, is older than what it would replace: a state"
                " has let go of it, so it is neither adopted nor deleted",
                hint=(
                    "Nothing was changed. Delete it, or give the resource another queuedResourceId;"
                    " without one it gets the next that is free."
                ),
            )
        with self._lock:
            self._successors |= dict.fromkeys(requests_of(before) - wanted, inputs)

    def _older(
        self, call: Call, urn: str, before: Properties, wanted: set[RequestName]
    ) -> list[Snapshot]:
        """Which of ``wanted`` are there and older than what the state holds under ``urn``."""
        there = [seen for name in sorted(wanted, key=str) if (seen := call.look(name)).created]
        if not there:
            return []
        with self._lock:
            recorded = self._created.get(urn, "")
        held = _held(call, before, wanted)
        times = [each.created for each in held if each.created] or [recorded]
        known = [time for text in times if (time := parse_time(text)) is not None]
        return [s for s in there if known and (made := parse_time(s.created)) and made < min(known)]

    def preview(self, urn: str, inputs: Properties) -> None:
        """As :meth:`create`, for a preview, in which nothing is deleted before it is replaced.

        Raises:
            ConflictError: it would share the request of another resource.
        """
        wanted = requests_of(inputs)
        with self._lock:
            self._refuse(urn, wanted, Event.PREVIEW)
            self._planned |= dict.fromkeys(wanted, urn)

    def create(self, urn: str, inputs: Properties) -> set[RequestName]:
        """Record that ``urn`` asks for ``inputs``, which nobody else may.

        Returns:
            The requests that it may take over from: those that the state holds there, and those
            that serve because that never did, even if it is gone.

        Raises:
            ConflictError: it would adopt what the state holds already, under its own URN, which
                only a fixed id can cause: the engine would consider it new and then delete the
                "old" one of the same name. Or it would share the request of another resource, and
                whichever goes first would delete it for both.
        """
        wanted = requests_of(inputs)
        with self._lock:
            self._refuse(urn, wanted, Event.CREATE)
            self._asked |= dict.fromkeys(wanted, urn)
            held = requests_of(self._inputs.get(urn, {}))
            return (held | {*self._serving.get(urn, ())}) - wanted

    def _refuse(self, urn: str, wanted: set[RequestName], event: Event) -> None:
        """Raise what the table says of any of ``wanted``."""
        names = sorted(wanted, key=str)
        actions = [row_of(self._stage(urn, name), event).action for name in names]
        if Action.REFUSE_SAME_NAME in actions:
            raise ConflictError(
                f"{names[actions.index(Action.REFUSE_SAME_NAME)]} is to be replaced by one of the"
                " same name while it still exists",
                hint=(
                    "Nothing was changed. Leave queuedResourceId out, so that every"
                    " replacement gets an id of its own; or set the resource option"
                    " delete_before_replace."
                ),
            )
        if (found := self._holder(urn, wanted)) is not None:
            raise _shared(*found, urn)

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """Remember what serves until what the block waits for does, should that fail."""
        try:
            yield
        except UnreadyError as error:
            names = dict.fromkeys(error.snapshot.takes_over_from, str(error.snapshot.name))
            with self._lock:
                self._needed |= names
            raise

    def ready(self, urn: str, name: RequestName) -> None:
        """Record that ``urn`` has ``name`` from this run on: its creation, or its update, has
        succeeded."""
        with self._lock:
            self._current[urn] = str(name)

    # -- deleting ------------------------------------------------------------------------------

    def delete(self, urn: str, name: RequestName) -> RequestName | None:
        """Check that ``name`` may be deleted, which the state holds under ``urn``.

        Returns:
            What the state goes on with, and what has to serve before; None where there is no such.

        Raises:
            ConflictError: in this run what was to take over from it has turned out not to serve:
                with `--continue-on-error` the engine deletes what is replaced all the same. Or the
                state goes on with it: a state may have an entry of a slice that was to be deleted
                once its successor serves, and another of the same slice, which a later run has
                found and taken for its own, because that successor had been deleted from outside.
        """
        with self._lock:
            row = row_of(self._held_stage(urn, name), Event.DELETE)
            if row.action is Action.REFUSE_NEEDED:
                raise ConflictError(
                    f"{name} serves, and {self._needed[name]}, which was to take over from it, does"
                    " not: it is not deleted",
                    hint=Advice("Run `up` again; to delete both: `pulumi destroy`, `{down}`."),
                    code=row.code,
                )
            if row.action is Action.REFUSE_CURRENT:
                holder = next(by for by, id_ in self._current.items() if id_ == str(name))
                raise ConflictError(
                    f"{name} is what {holder} goes on with, and an older entry of the state says"
                    " that it is to be deleted: it is not deleted",
                    hint=Advice(
                        "Take the older entry, the one that is pending deletion, out of the state:"
                        " `{recover}`; without tpuflex, edit what `pulumi stack export` gives and"
                        " import it."
                    ),
                )
            later = row.action is Action.DELETE_LATER
            return RequestName.parse(self._current[urn]) if later else None

    def successor(self, urn: str, name: RequestName) -> Properties:
        """Inputs of what takes over from ``name``, which the state holds, or held, under ``urn``;
        empty if that is not known. After a rename it has neither its prefix nor its owner."""
        with self._lock:
            return self._successors.get(name) or self._inputs.get(urn, {})

    def deleted(self, urn: str, name: RequestName) -> None:
        """Record that ``name``, which the state held under ``urn``, was deleted."""
        with self._lock:
            self._held.get(urn, set()).discard(name)
            self._asked.pop(name, None)
            self._inputs.pop(urn, None)
            self._created.pop(urn, None)


def requests_of(inputs: Properties) -> set[RequestName]:
    """What ``inputs`` may ask for, by name: one in each zone."""
    project, zones, id_ = (inputs.get(key) for key in ("project", "zones", "queuedResourceId"))
    if not isinstance(project, str) or not isinstance(id_, str) or not isinstance(zones, list):
        return set()
    return {RequestName(project, zone, id_) for zone in zones if isinstance(zone, str)}


def _shared(name: RequestName, holder: str, asks: str) -> ConflictError:
    return ConflictError(
        f"{name} is the request of {holder}: {asks} cannot share it",
        hint=(
            "Nothing was changed. Give one of them another queuedResourceId or"
            " queuedResourceIdPrefix; if it was renamed, give it an alias of its"
            " old name: aliases=[pulumi.Alias(name=…)]."
        ),
    )


def _held(call: Call, before: Properties, wanted: set[RequestName]) -> list[Snapshot]:
    """What is there of the inputs ``before``, which the state holds, and will not be ``wanted``."""
    looks = [call.look(name) for name in sorted(requests_of(before) - wanted, key=str)]
    labels = labels_of(before)
    return [each for each in looks if each.belongs_to(labels, known=True)]


def _refuse_protected(held: Iterable[Snapshot], urn: str) -> None:
    for seen in held:
        if seen.lifecycle is Lifecycle.ACTIVE:
            raise ConflictError(
                f"{seen.name} is ACTIVE and {PROTECTED.text}: it is not replaced on demand",
                hint=f"{UNPROTECT} If it is tainted, any `up` replaces it: before all that, type"
                f" `pulumi state untaint '{urn}'`.",
                code=Code.PROTECTED,
            )
