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

from pulumi_plugin.values import Properties, Value
from tpuflex.errors import ConflictError
from tpuflex.naming import generation_id, generation_of
from tpuflex.request.name import RequestName


class Generations:
    """What the engine has shown of the state in one run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, set[str]] = {}
        self._held: dict[str, set[RequestName]] = {}

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

    def hold(self, urn: str, name: RequestName) -> None:
        """Record that the state holds ``name`` under ``urn``, and that it exists."""
        with self._lock:
            self._ids.setdefault(urn, set()).add(name.id)
            self._held.setdefault(urn, set()).add(name)

    def release(self, urn: str, name: str) -> None:
        """Record that the queued resource with the full name ``name`` was deleted."""
        with self._lock:
            self._held[urn] = {held for held in self._held.get(urn, ()) if str(held) != name}

    def refuse_own(self, urn: str, inputs: Properties) -> None:
        """Check that creating ``inputs`` would not adopt what the state holds already.

        The engine would consider it new and then delete the "old" one of the same name.

        Raises:
            ConflictError: it would, which only a fixed id can cause.
        """
        zones = inputs.get("zones")
        where = {
            (inputs.get("project"), zone)
            for zone in (zones if isinstance(zones, list) else ())
            if isinstance(zone, str)
        }
        with self._lock:
            held = self._held.get(urn, set())
        for name in held:
            if name.id == inputs.get("queuedResourceId") and (name.project, name.zone) in where:
                raise ConflictError(
                    f"{name} is to be replaced by one of the same name while it still exists",
                    hint=(
                        "Nothing was changed. Leave queuedResourceId out, so that every"
                        " replacement gets an id of its own; or set the resource option"
                        " delete_before_replace."
                    ),
                )
