"""What a creation has to respect that takes the place of what the state holds.

For `pulumi up --replace`, a tainted resource and `replace_on_changes` the engine replaces what the
provider would not, and does not always ask for a diff first. But it has shown what it replaces: in
a check with old inputs, or in the read that precedes every update (`step_generator.go` of
pulumi/pulumi v3.256.0).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from pulumi_plugin.values import Properties
from tpuflex.codes import Code
from tpuflex.errors import ConflictError
from tpuflex.provider.call import Call
from tpuflex.provider.generations import requests_of
from tpuflex.provider.read import labels_of
from tpuflex.request.name import RequestName
from tpuflex.request.outcomes import PROTECTED, UNPROTECT
from tpuflex.request.ownership import Known
from tpuflex.request.snapshot import Snapshot, parse_time
from tpuflex.request.states import Lifecycle


class Replacements:
    """What the state holds under each URN, and what this run has planned for it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inputs: dict[str, Properties] = {}
        self._permitted: set[str] = set()
        self._heirs: dict[RequestName, Properties] = {}

    def shown(self, urn: str, inputs: Properties) -> None:
        """Record that the state holds ``inputs`` under ``urn``; nothing is planned for it yet."""
        with self._lock:
            self._inputs[urn] = inputs
            self._permitted.discard(urn)

    def planned(self, urn: str, *, permitted: bool) -> None:
        """Record whether the diff replaces it for nothing that its protection forbids."""
        with self._lock:
            (self._permitted.add if permitted else self._permitted.discard)(urn)

    def deleted(self, urn: str) -> None:
        """Record that what the state held was deleted."""
        with self._lock:
            self._inputs.pop(urn, None)

    def heir(self, urn: str, name: RequestName) -> Properties:
        """Inputs of what takes over from ``name``, which the state holds, or held, under ``urn``;
        empty if that is not known. After a rename it has neither its prefix nor its owner."""
        with self._lock:
            return self._heirs.get(name) or self._inputs.get(urn, {})

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
        replaced = [call.look(name) for name in sorted(requests_of(before) - wanted, key=str)]
        labels = labels_of(before)
        held = [each for each in replaced if each.belongs_to(labels, known=Known.BY_TIME)]
        if before.get("deletionProtection") is True and not permitted:
            _refuse_protected(held)
        _refuse_older(call, wanted, held)
        with self._lock:
            self._heirs |= dict.fromkeys(requests_of(before) - wanted, inputs)


def _refuse_protected(held: Iterable[Snapshot]) -> None:
    for seen in held:
        if seen.lifecycle is Lifecycle.ACTIVE:
            raise ConflictError(
                f"{seen.name} is ACTIVE and {PROTECTED.text}: it is not replaced on demand",
                hint=UNPROTECT,
                code=Code.PROTECTED,
            )


def _refuse_older(call: Call, wanted: Iterable[RequestName], held: Iterable[Snapshot]) -> None:
    """A request that is older than what it should replace is one that a state has let go
    (`retain_on_delete`, `pulumi state delete`): it was left alone on purpose."""
    times = [time for each in held if (time := parse_time(each.created)) is not None]
    if not times:
        return
    for name in sorted(wanted, key=str):
        seen = call.look(name)
        made = parse_time(seen.created)
        if made is not None and made < min(times):
            raise ConflictError(
                f"{name}, made at {seen.created}, is older than what it would replace: a state has"
                " let go of it, so it is neither adopted nor deleted",
                hint=(
                    "Nothing was changed. Delete it, or give the resource another"
                    " queuedResourceIdPrefix."
                ),
            )
