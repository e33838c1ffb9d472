"""Which generation a queued resource's id belongs to: the one in the state, or the next.

Generated ids carry a generation, so that a replacement has another id and can be created before the
old resource is deleted. The engine checks the inputs of a replacement without saying what they
replace (`step_generator.go` of pulumi/pulumi v3.256.0: "we need to recompute
the default values"). So the provider remembers for one run what the state holds: the engine has
shown it before, in a check with old inputs, a diff or the read that precedes every update. The next
run is shown the same again and arrives at the same id.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from pulumi_plugin.values import Properties, Value
from tpuflex.errors import ConflictError
from tpuflex.naming import generation_id, generation_of
from tpuflex.queued_resource.name import RequestName

#: So many names that are taken are passed over, at most: an API that knows every name must not keep
#: a run looking for ever.
PASSED_OVER = 50


class Generations:
    """What the engine has shown of the state in one run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, set[str]] = {}
        self._held: dict[str, set[RequestName]] = {}
        self._asked: dict[RequestName, str] = {}
        self._foreseen: dict[RequestName, str] = {}

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

    def claim(self, urn: str, name: RequestName) -> None:
        """Record that the state holds ``name`` under ``urn`` now, before it is known whether it
        still exists: the engine reads resources side by side, and another may ask for it meanwhile.

        Raises:
            ConflictError: in this preview another resource asks for it.
        """
        with self._lock:
            for held in self._held.values():
                held.discard(name)  # of an earlier run: it was renamed since
            self._held.setdefault(urn, set()).add(name)
            asks = self._foreseen.get(name, urn)
        if asks != urn:
            raise _shared(name, urn, asks)

    def hold(self, urn: str, name: RequestName) -> None:
        """Record that the state holds ``name`` under ``urn``, and that it exists."""
        with self._lock:
            self._ids.setdefault(urn, set()).add(name.id)
            self._held.setdefault(urn, set()).add(name)

    def forget(self, urn: str, name: RequestName) -> None:
        """Record that ``name``, which ``urn`` held, is gone."""
        with self._lock:
            self._held.setdefault(urn, set()).discard(name)

    def begin(self, urn: str) -> None:
        """Record that the engine decides about ``urn`` anew: what it was foreseen to ask for in an
        earlier preview does not count any more."""
        with self._lock:
            self._foreseen = {name: by for name, by in self._foreseen.items() if by != urn}

    def release(self, urn: str, name: str) -> None:
        """Record that the queued resource with the full name ``name`` was deleted."""
        with self._lock:
            self._held[urn] = {held for held in self._held.get(urn, ()) if str(held) != name}
            self._asked = {asked: by for asked, by in self._asked.items() if str(asked) != name}

    def ask(self, urn: str, inputs: Properties) -> None:
        """Record that ``urn`` asks for ``inputs``, which nobody else may.

        Raises:
            ConflictError: it would adopt what the state holds already, under its own URN, which
                only a fixed id can cause: the engine would consider it new and then delete the
                "old" one of the same name. Or it would share the request of another resource, and
                whichever goes first would delete it for both.
        """
        wanted = requests_of(inputs)
        with self._lock:
            for name in sorted(wanted & self._held.get(urn, set()), key=str):
                raise ConflictError(
                    f"{name} is to be replaced by one of the same name while it still exists",
                    hint=(
                        "Nothing was changed. Leave queuedResourceId out, so that every"
                        " replacement gets an id of its own; or set the resource option"
                        " delete_before_replace."
                    ),
                )
            self._refuse_taken(urn, wanted)
            self._asked |= dict.fromkeys(wanted, urn)

    def foresee(self, urn: str, inputs: Properties) -> None:
        """As :meth:`ask`, for a preview, in which nothing is deleted before it is replaced.

        Raises:
            ConflictError: it would share the request of another resource.
        """
        wanted = requests_of(inputs)
        with self._lock:
            self._refuse_taken(urn, wanted)
            self._foreseen |= dict.fromkeys(wanted, urn)

    def holder(self, urn: str, wanted: Iterable[RequestName]) -> tuple[RequestName, str] | None:
        """The first of ``wanted`` that another URN than ``urn`` holds or asks for, and which."""
        with self._lock:
            return self._holder(urn, wanted)

    def _holder(self, urn: str, wanted: Iterable[RequestName]) -> tuple[RequestName, str] | None:
        taken = {**self._foreseen, **self._asked}
        taken |= {held: by for by, names in self._held.items() for held in names if by != urn}
        named = ((name, taken.get(name, urn)) for name in sorted(wanted, key=str))
        return next(((name, by) for name, by in named if by != urn), None)

    def _refuse_taken(self, urn: str, wanted: Iterable[RequestName]) -> None:
        if (found := self._holder(urn, wanted)) is not None:
            raise _shared(*found, urn)


def _shared(name: RequestName, holder: str, asks: str) -> ConflictError:
    return ConflictError(
        f"{name} is the request of {holder}: {asks} cannot share it",
        hint=(
            "Nothing was changed. Give one of them another queuedResourceId or"
            " queuedResourceIdPrefix; if it was renamed, give it an alias of its"
            " old name: aliases=[pulumi.Alias(name=…)]."
        ),
    )


def requests_of(inputs: Properties) -> set[RequestName]:
    """What ``inputs`` may ask for, by name: one in each zone."""
    project, zones, id_ = (inputs.get(key) for key in ("project", "zones", "queuedResourceId"))
    if not isinstance(project, str) or not isinstance(id_, str) or not isinstance(zones, list):
        return set()
    return {RequestName(project, zone, id_) for zone in zones if isinstance(zone, str)}
