"""Which generation a queued resource's id is of: the one in the state, or the one after it.

Ids that are made by us carry a generation, so that what replaces something has another id and
can be made before the old one is deleted. The engine checks the inputs of a replacement without
telling what they replace (`step_generator.go` of pulumi/pulumi v3.256.0: "we need to recompute
the default values"). So the provider remembers for one run what the state holds: the engine has
shown it before, in a check with old inputs, a diff or the read that comes before every update.
The next run is told the same things again and comes to the same id.
"""

from __future__ import annotations

import threading

from pulumi_plugin.values import Properties, Value
from tpuflex.errors import ConflictError
from tpuflex.naming import generation_id, generation_of
from tpuflex.request.name import RequestName


class Generations:
    """What the engine has shown of the state in one run. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, set[str]] = {}
        self._held: dict[str, set[RequestName]] = {}

    def id_for(self, urn: str, prefix: str, present: Value = None) -> str:
        """The id that the inputs of ``urn`` get.

        Args:
            urn: the resource's URN.
            prefix: what its ids are made of.
            present: its id in the state, if the engine says that it goes on with that one; else
                it is new, or replaces what the state holds.
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
        """The state holds ``name`` under ``urn``, and there is something of that name."""
        with self._lock:
            self._ids.setdefault(urn, set()).add(name.id)
            self._held.setdefault(urn, set()).add(name)

    def release(self, urn: str, name: str) -> None:
        """The queued resource with the full name ``name`` was deleted."""
        with self._lock:
            self._held[urn] = {held for held in self._held.get(urn, ()) if str(held) != name}

    def refuse_own(self, urn: str, inputs: Properties) -> None:
        """Check that creating ``inputs`` would not adopt what the state holds already.

        The engine would take it for a new one and then delete the "old" one of that name.

        Raises:
            ConflictError: it would. Only a fixed id can come to this.
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
