"""What a changed input means: nothing, a change in place, or a replacement. Pure.

The queued resource has no update in the API. Its node can be patched in description, labels,
tags, metadata and external IPs (`nodes.patch`, `tpu.v2alpha1`, revision 20261001); everything
else replaces, unless it means nothing any more, or is only read when hosts boot.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic.alias_generators import to_snake

from pulumi_plugin.changes import Change, ChangeKind, Diff, entry_path
from pulumi_plugin.values import Properties, Value, has_unknown
from tpuflex.naming import generation_id, generation_of
from tpuflex.queued_resource.body import BOOT_METADATA
from tpuflex.queued_resource.fields import DEFAULTS, INNER_DEFAULTS, ROWS
from tpuflex.queued_resource.name import ids_of
from tpuflex.queued_resource.rows import NODE, Form, OnChange
from tpuflex.queued_resource.states import ON_ITS_WAY, Lifecycle

#: Inputs that `nodes.patch` can change, and their names in its update mask.
PATCHABLE = {
    key: to_snake(row.at.removeprefix(f"{NODE}."))
    for key, row in ROWS.items()
    if row.on_change is OnChange.PATCHES
}
#: Inputs that say where it is: in two places, one name can exist twice.
_PLACE = ("project", "zones")
#: What is not there any more, or never will be: the only way forward is a new one.
_BEYOND_REPAIR = frozenset({Lifecycle.FAILED, Lifecycle.LOST, Lifecycle.DELETING})
#: For these, how long they may wait in the queue means nothing any more.
_LEFT_THE_QUEUE = frozenset({Lifecycle.PROVISIONING, Lifecycle.ACTIVE, Lifecycle.ENDED})


def diff(old: Properties, new: Properties, stands: Lifecycle | None = None) -> Diff:
    """What it takes to get from the inputs ``old`` to the inputs ``new``.

    Args:
        old: inputs as they were last applied.
        new: inputs now; may hold unknown values, which count as changed: a preview must not
            promise less than the `up` does that knows them.
        stands: where the resource stands according to the state. What failed or was lost is
            replaced; what waits goes on waiting; what ended stays ended, because a new run
            costs money that nobody asked for.
    """
    changes: dict[str, Change] = {}
    for key, row in sorted(ROWS.items()):
        if row.on_change is OnChange.NOTHING:
            continue
        before, after = _complete(key, old.get(key)), _complete(key, new.get(key))
        if key in ("labels", "metadata"):
            changes |= _map_changes(key, before, after, _replacing_entries(key, new))
        elif row.form is Form.NAME_OR_PATH and _same_place(before, after):
            continue
        elif change := _change(before, after, _replaces(key, new, stands)):
            changes[key] = change
    if stands in _BEYOND_REPAIR:
        changes["lifecycle"] = Change(ChangeKind.UPDATE, replaces=True, is_input=False)
    elif stands in ON_ITS_WAY:
        changes["lifecycle"] = Change(ChangeKind.UPDATE, replaces=False, is_input=False)
    # What does not run serves nobody: there is nothing to hand over, but its quota is needed,
    # and what only waits might still be granted, and billed, beside the one that replaces it.
    nobody_served = stands is not None and stands is not Lifecycle.ACTIVE
    return Diff(changes, delete_before_replace=nobody_served or _shares_names(old, new))


def with_next_generation(found: Diff, new: Properties) -> Diff:
    """``found`` and, if that replaces, the change of an id that is made by us: the engine asks
    for the id of the replacement only afterwards, and a preview should show it."""
    if not found.replaces or "queuedResourceIdPrefix" not in new:
        return found
    changes = {"queuedResourceId": Change(ChangeKind.UPDATE, replaces=True), **found.changes}
    return replace(found, changes=changes)


def _complete(key: str, value: Value) -> Value:
    """``value`` with what is left out in it, so that it equals what says the same in full: imports
    say more or less than the program does."""
    if value is None:
        return DEFAULTS.get(key)
    inner = INNER_DEFAULTS.get(key)
    if inner is None:
        return value
    if isinstance(value, list):
        return [_complete(key, item) for item in value]
    return {**inner, **value} if isinstance(value, dict) else value


def _replaces(key: str, new: Properties, stands: Lifecycle | None) -> bool:
    """Whether a change of ``key`` needs a new request."""
    if key == "externalIps":
        # Only the one network's external IPs can be patched; of several, none can.
        return bool(new.get("networkConfigs"))
    match ROWS[key].on_change:
        case OnChange.BOOTS:
            return new.get("onBootChange") != "update"
        case OnChange.QUEUES:
            return stands not in _LEFT_THE_QUEUE
        case kind:
            return kind is OnChange.REPLACES


def _replacing_entries(key: str, new: Properties) -> frozenset[str]:
    """Entries of the map ``key`` whose change needs new hosts."""
    if key == "metadata" and new.get("onBootChange") != "update":
        return BOOT_METADATA
    return frozenset()


def _shares_names(old: Properties, new: Properties) -> bool:
    """Whether what replaces the old one would be called the same, so that both cannot be."""
    if any(old.get(key) != new.get(key) for key in _PLACE):
        return False
    before, after = old.get("queuedResourceId"), new.get("queuedResourceId")
    series = new.get("queuedResourceIdPrefix")
    if isinstance(series, str) and isinstance(before, str):
        # The replacement is of the next generation, but may name its nodes by itself.
        after = generation_id(series, (generation_of(series, before) or 0) + 1)
    if not isinstance(before, str) or not isinstance(after, str):
        return False
    if has_unknown(new.get("multiNode")):
        return True  # they may be the same: deleting first is always possible
    nodes = (ids_of(before, old.get("multiNode")), ids_of(after, new.get("multiNode")))
    return before == after or not set(nodes[0]).isdisjoint(nodes[1])


def _change(old: Value, new: Value, replaces: bool) -> Change | None:
    return None if old == new else Change(ChangeKind.between(old, new), replaces)


def _same_place(old: Value, new: Value) -> bool:
    """Whether a bare name and a full path mean the same; two full paths must be equal."""
    if not isinstance(old, str) or not isinstance(new, str) or ("/" in old and "/" in new):
        return False
    return old.rsplit("/", 1)[-1] == new.rsplit("/", 1)[-1]


def _map_changes(key: str, old: Value, new: Value, replacing: frozenset[str]) -> dict[str, Change]:
    """Changes of a map, entry by entry."""
    if has_unknown(new) and not isinstance(new, dict):
        return {key: Change(ChangeKind.UPDATE, replaces=bool(replacing))}
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    found = {
        entry_path(key, name): _change(before.get(name), after.get(name), name in replacing)
        for name in sorted(before.keys() | after.keys())
    }
    return {path: change for path, change in found.items() if change is not None}
