"""What a changed input means: nothing, a change in place, or a replacement. Pure.

The queued resource has no update in the API. Its node can be patched in description, labels,
tags, metadata and external IPs (`nodes.patch`, `tpu.v2alpha1`, revision 20261001); everything
else replaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from pydantic.alias_generators import to_camel

from tpuflex.lifecycle import Lifecycle
from tpuflex.provider.arguments import QueuedResourceArgs
from tpuflex.provider.codec import Properties, Value, has_unknown
from tpuflex.provider.request import BOOT_METADATA

#: Inputs that `nodes.patch` can change, and their names in its update mask.
PATCHABLE = {
    "description": "description",
    "labels": "labels",
    "tags": "tags",
    "metadata": "metadata",
    "externalIps": "network_config.enable_external_ips",
}
INPUTS = frozenset(to_camel(name) for name in QueuedResourceArgs.model_fields)
#: Inputs that make up the resource's name: while they stay, old and new cannot exist together.
_NAMING = ("project", "zones", "queuedResourceId")
#: Inputs that may be a bare name or a full path.
_PATHS = frozenset({"network", "subnetwork"})
#: What is not there any more, or never will be: the only way forward is a new one.
_BEYOND_REPAIR = frozenset({Lifecycle.FAILED, Lifecycle.LOST, Lifecycle.DELETING})
_ON_ITS_WAY = frozenset({Lifecycle.WAITING, Lifecycle.PROVISIONING})


class Kind(Enum):
    """How one property changes."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Change:
    """One changed property.

    Attributes:
        kind: added, deleted or updated.
        replaces: whether the resource must be replaced for it.
        is_input: whether it is an input; else it is the state of the resource itself.
    """

    kind: Kind
    replaces: bool
    is_input: bool = True


@dataclass(frozen=True, slots=True)
class Diff:
    """All changes.

    Attributes:
        changes: change by property path.
        delete_before_replace: whether the old one must go first, because both have one name.
    """

    changes: Mapping[str, Change]
    delete_before_replace: bool

    @property
    def replaces(self) -> bool:
        """Whether anything needs a replacement."""
        return any(change.replaces for change in self.changes.values())


def diff(old: Properties, new: Properties, stands: Lifecycle | None = None) -> Diff:
    """What it takes to get from the inputs ``old`` to the inputs ``new``.

    Args:
        old: inputs as they were last applied.
        new: inputs now; may hold unknown values, which never replace: the question is asked
            again once they are known.
        stands: where the resource stands according to the state. What failed or was lost is
            replaced; what waits goes on waiting; what ended stays ended, because a new run
            costs money that nobody asked for.
    """
    changes: dict[str, Change] = {}
    for key in sorted(INPUTS):
        if key in ("labels", "metadata"):
            changes |= _map_changes(key, old.get(key), new.get(key))
        elif key in _PATHS and _same_place(old.get(key), new.get(key)):
            continue
        elif (change := _change(old.get(key), new.get(key), key not in PATCHABLE)) is not None:
            changes[key] = change
    if stands in _BEYOND_REPAIR:
        changes["lifecycle"] = Change(Kind.UPDATE, replaces=True, is_input=False)
    elif stands in _ON_ITS_WAY:
        changes["lifecycle"] = Change(Kind.UPDATE, replaces=False, is_input=False)
    same_name = all(old.get(key) == new.get(key) for key in _NAMING)
    return Diff(changes, delete_before_replace=same_name)


def _change(old: Value, new: Value, replaces: bool) -> Change | None:
    if old == new:
        return None
    kind = Kind.ADD if old is None else Kind.DELETE if new is None else Kind.UPDATE
    return Change(kind, replaces and not has_unknown(new))


def _same_place(old: Value, new: Value) -> bool:
    """Whether a bare name and a full path mean the same; two full paths must be equal."""
    if not isinstance(old, str) or not isinstance(new, str) or ("/" in old and "/" in new):
        return False
    return old.rsplit("/", 1)[-1] == new.rsplit("/", 1)[-1]


def _map_changes(key: str, old: Value, new: Value) -> dict[str, Change]:
    """Changes of a map, entry by entry: only what takes effect at a boot replaces."""
    if has_unknown(new) and not isinstance(new, dict):
        return {key: Change(Kind.UPDATE, replaces=False)}
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    found = {
        _entry(key, name): _change(
            before.get(name), after.get(name), key == "metadata" and name in BOOT_METADATA
        )
        for name in sorted(before.keys() | after.keys())
    }
    return {path: change for path, change in found.items() if change is not None}


def _entry(key: str, name: str) -> str:
    return f"{key}.{name}" if name.isidentifier() else f'{key}["{name}"]'
