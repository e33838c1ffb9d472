"""What a creation has to respect that takes the place of what the state holds.

For `pulumi up --replace`, a tainted resource and `replace_on_changes` the engine replaces what the
provider would not, and does not always ask for a diff first. But it has shown what it replaces: in
a check with old inputs, or in the read that precedes every update (`step_generator.go` of
pulumi/pulumi v3.256.0).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from pulumi_plugin.values import Properties, Value
from tpuflex.codes import Code
from tpuflex.errors import ConflictError
from tpuflex.naming import LABEL_STATE, generation_id, generation_of
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.generations import PASSED_OVER, requests_of
from tpuflex.provider.read import labels_of
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.outcomes import PROTECTED, UNPROTECT
from tpuflex.queued_resource.outputs import taken_over
from tpuflex.queued_resource.snapshot import Snapshot, parse_time
from tpuflex.queued_resource.states import Lifecycle

#: What is said of a name that is passed over.
LEFT_ALONE = "older than what is replaced, so that a state has let go of it, and left alone"

#: What is said of one that another resource has.
OF_ANOTHER = "{name} is the request of {urn}: the next generation is taken"
#: The first of some names that another resource has, and its URN.
Holder = Callable[[set[RequestName]], tuple[RequestName, str] | None]

RENAMED = (
    "its ids begin with {after} now, not with {before}: that alone replaces it, and"
    ' queued_resource_id_prefix="{before}" keeps it'
)


class Replacements:
    """What the state holds under each URN, and what this run has planned for it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inputs: dict[str, Properties] = {}
        self._created: dict[str, str] = {}
        self._permitted: set[str] = set()
        self._heirs: dict[RequestName, Properties] = {}
        self._serving: dict[str, tuple[RequestName, ...]] = {}
        self._unproven: dict[RequestName, str] = {}
        self._kept: dict[str, str] = {}
        self._checked: set[str] = set()

    def shown(self, urn: str, inputs: Properties, outputs: Properties | None = None) -> None:
        """Record that the state holds ``inputs`` under ``urn``, with ``outputs`` if they are known;
        nothing is planned for it yet."""
        created = (outputs or {}).get("createTime")
        with self._lock:
            self._inputs[urn] = inputs
            self._permitted.discard(urn)
            if outputs is not None:
                self._serving[urn] = taken_over(outputs)
            if isinstance(created, str) and created:
                self._created[urn] = created

    def planned(self, urn: str, *, permitted: bool) -> None:
        """Record whether the diff replaces it for nothing that its protection forbids."""
        with self._lock:
            (self._permitted.add if permitted else self._permitted.discard)(urn)

    def deleted(self, urn: str) -> None:
        """Record that what the state held was deleted."""
        with self._lock:
            self._inputs.pop(urn, None)
            self._created.pop(urn, None)

    def before(self, urn: str, inputs: Properties) -> set[RequestName]:
        """The requests that ``inputs``, created under ``urn``, may take over from: those that
        the state holds there, and those that serve because that never did, even if it is gone."""
        with self._lock:
            held = requests_of(self._inputs.get(urn, {}))
            return (held | {*self._serving.get(urn, ())}) - requests_of(inputs)

    def state_id(self, urn: str) -> str:
        """The id of the state that made what this state holds under ``urn``; empty if none did, or
        that is not known."""
        with self._lock:
            return labels_of(self._inputs.get(urn, {})).get(LABEL_STATE, "")

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Remember what serves until what the block makes does, should that fail."""
        try:
            yield
        except UnreadyError as error:
            names = dict.fromkeys(error.snapshot.takes_over_from, str(error.snapshot.name))
            with self._lock:
                self._unproven |= names
            raise

    def begin(self) -> None:
        """Record that a run of the engine begins."""
        with self._lock:
            self._unproven, self._kept, self._checked = {}, {}, set()

    def checked(self, urn: str, *, anew: bool) -> None:
        """Record that the engine has checked the inputs of ``urn``: of what the state holds, or
        ``anew``, as those of what replaces it."""
        with self._lock:
            self._kept.pop(urn, None)
            (self._checked.discard if anew else self._checked.add)(urn)

    def is_checked(self, urn: str) -> bool:
        """Whether this run has checked the inputs of what the state holds under ``urn``."""
        with self._lock:
            return urn in self._checked

    def keeps(self, urn: str, id_: str, *, made: bool = False) -> None:
        """Record that the state goes on with ``id_`` under ``urn``: this run has ``made`` it, or
        the diff does not replace it. A destroy, which asks for diffs, too, checks no inputs."""
        with self._lock:
            if made or urn in self._checked:
                self._kept[urn] = id_

    def goes_on_with(self, urn: str) -> str:
        """What the state goes on with under ``urn`` in this run; empty where that is not known."""
        with self._lock:
            return self._kept.get(urn, "")

    def refuse_kept(self, id_: str) -> None:
        """Check that ``id_`` may be deleted. A state may have an entry of a slice that was to be
        deleted once its successor serves, and another of the same slice, which a later run has
        found and taken for its own, because that successor had been deleted by hand.

        Raises:
            ConflictError: in this run the state goes on with it.
        """
        with self._lock:
            kept = next((urn for urn, name in self._kept.items() if name == id_), None)
        if kept is not None:
            raise ConflictError(
                f"{id_} is what {kept} goes on with, and an older entry of the state says that it"
                " is to be deleted: it is not deleted",
                hint="Take the older entry, the one that is pending deletion, out of the state:"
                " `tpuflex recover`; without tpuflex, edit what `pulumi stack export` gives and"
                " import it.",
            )

    def refuse_unproven(self, name: RequestName) -> None:
        """Check that ``name`` may be deleted: with ``--continue-on-error`` the engine deletes what
        is replaced although what replaces it has failed.

        Raises:
            ConflictError: in this run, what was to take over from it has turned out not to serve.
        """
        with self._lock:
            heir = self._unproven.get(name)
        if heir is not None:
            raise ConflictError(
                f"{name} serves, and {heir}, which was to take over from it, does not: it is not"
                " deleted",
                hint="Run `up` again; to delete both: `pulumi destroy`, `tpuflex down`.",
                code=Code.NOT_SERVING,
            )

    def heir(self, urn: str, name: RequestName) -> Properties:
        """Inputs of what takes over from ``name``, which the state holds, or held, under ``urn``;
        empty if that is not known. After a rename it has neither its prefix nor its owner."""
        with self._lock:
            return self._heirs.get(name) or self._inputs.get(urn, {})

    def renamed(self, urn: str, given: Properties) -> str:
        """What is to be said of the replacement ``given`` if the program gives it another prefix
        than the state holds under ``urn``; empty if it does not."""
        after = given.get("queuedResourceIdPrefix")
        with self._lock:
            before = self._inputs.get(urn, {}).get("queuedResourceIdPrefix")
        if not isinstance(before, str) or not isinstance(after, str) or before == after:
            return ""
        return RENAMED.format(before=before, after=after)

    def free_id(
        self,
        connect: Callable[[], Call],
        urn: str,
        inputs: Properties,
        holder: Holder = lambda _: None,
    ) -> Value:
        """The id for ``inputs``, which have one that was made from its prefix: that one, or the
        first generation behind it whose name is taken by no other resource of the stack, and by
        nothing that is older than what it replaces. What is older no hand-over has made: a state
        has let go of it. Others have such names once two slices have exchanged theirs.

        Args:
            connect: makes the engine call; nothing else needs the cloud.
            urn: the resource's URN.
            inputs: inputs with defaults, without unknown zones; otherwise the id is as it is.
            holder: which of some names another resource of the stack has, and the URN of that.

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
            if (taken := holder(wanted)) is not None:
                call.report(OF_ANOTHER.format(name=taken[0], urn=taken[1]))
                continue
            older = self._older(call, urn, before, wanted)
            if not older:
                break
            for seen in older:
                call.report(f"{LEFT_ALONE}: {seen.name}, {seen.describe()}", warning=True)
        return id_

    def check(self, connect: Callable[[], Call], urn: str, inputs: Properties) -> None:
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
            self._heirs |= dict.fromkeys(requests_of(before) - wanted, inputs)

    def _older(
        self, call: Call, urn: str, before: Properties, wanted: set[RequestName]
    ) -> list[Snapshot]:
        """Which of ``wanted`` are there and older than what the state holds under ``urn``."""
        there = [seen for name in _sorted(wanted) if (seen := call.look(name)).created]
        if not there:
            return []
        with self._lock:
            recorded = self._created.get(urn, "")
        held = _held(call, before, wanted)
        times = [each.created for each in held if each.created] or [recorded]
        known = [time for text in times if (time := parse_time(text)) is not None]
        return [s for s in there if known and (made := parse_time(s.created)) and made < min(known)]


def _held(call: Call, before: Properties, wanted: set[RequestName]) -> list[Snapshot]:
    """What is there of the inputs ``before``, which the state holds, and will not be ``wanted``."""
    looks = [call.look(name) for name in _sorted(requests_of(before) - wanted)]
    labels = labels_of(before)
    return [each for each in looks if each.belongs_to(labels, known=True)]


def _sorted(names: Iterable[RequestName]) -> list[RequestName]:
    return sorted(names, key=str)


def _refuse_protected(held: Iterable[Snapshot], urn: str) -> None:
    for seen in held:
        if seen.lifecycle is Lifecycle.ACTIVE:
            raise ConflictError(
                f"{seen.name} is ACTIVE and {PROTECTED.text}: it is not replaced on demand",
                hint=f"{UNPROTECT} If it is tainted, any `up` replaces it: before all that, type"
                f" `pulumi state untaint '{urn}'`.",
                code=Code.PROTECTED,
            )
