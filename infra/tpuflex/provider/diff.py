"""What the next `up` does about changed inputs, the passing of time, and changes in the cloud.

:mod:`tpuflex.queued_resource.diff` compares the inputs that describe the request. This adds those
that control the provider, zones (a list to choose from, not a place), and runs that have ended.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pulumi_plugin.changes import Change, ChangeKind, Diff
from pulumi_plugin.values import Properties, has_unknown
from tpuflex.codes import Code
from tpuflex.duration import google_seconds
from tpuflex.errors import ConflictError
from tpuflex.provider.call import elapsed
from tpuflex.queued_resource.diff import diff, with_next_generation
from tpuflex.queued_resource.fields import PROVIDER_ONLY, ROWS
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.outcomes import PROTECTED, RUN_ACCEPTED, TABLE, UNPROTECT, Condition
from tpuflex.queued_resource.outputs import (
    DRAINS_UNTIL,
    TAKES_OVER_FROM,
    predecessor,
    recorded_lifecycle,
    remaining,
)
from tpuflex.queued_resource.rows import OnChange
from tpuflex.queued_resource.snapshot import parse_time
from tpuflex.queued_resource.states import NOT_FOUND, ON_ITS_WAY, Lifecycle

#: Inputs whose change asks for a new run, whether the present one is over or not.
_ASKS_AGAIN = frozenset({"rerun"})
#: Inputs whose change replaces what runs, whatever the other inputs say. Zones are no place but a
#: list to choose from: a slice in one that is still listed stays.
ALWAYS_REPLACE = _ASKS_AGAIN | {
    key for key, row in ROWS.items() if row.on_change is OnChange.REPLACES and key != "zones"
}
_HAS_A_PLACE = frozenset({Lifecycle.ACTIVE, Lifecycle.ENDED})
#: What is replaced because of its lifecycle, and its row in the table.
_REPLACED = {
    Lifecycle.FAILED: Condition.FAILED,
    Lifecycle.LOST: Condition.NODE_MISSING,
    Lifecycle.DELETING: Condition.DELETING,
}


@dataclass(frozen=True, slots=True)
class DiffNote:
    """What the user should know about a diff.

    Attributes:
        text: for people.
        code: for the command line, if it reacts to it.
        warning: whether it is more than a remark.
    """

    text: str
    code: Code | None = None
    warning: bool = False


@dataclass(frozen=True, slots=True)
class ResourceDiff:
    """What the next `up` does about one resource.

    Attributes:
        diff: all changes.
        notes: what the user should know about it.
        permitted: whether it may be replaced although it is protected: because its run ends, or,
            in a preview, for unknown values that may be what they were.
    """

    diff: Diff
    notes: tuple[DiffNote, ...] = ()
    permitted: bool = False


def resource_diff(
    old: Properties,
    new: Properties,
    outputs: Properties,
    now: float,
    *,
    goes_first: bool = False,
    new_host: bool = False,
) -> ResourceDiff:
    """What it takes to get from the inputs ``old`` to the inputs ``new``.

    Args:
        old: inputs as they were last applied.
        new: inputs now; may hold unknown values.
        outputs: what the state says.
        now: seconds since the epoch.
        goes_first: whether what is unknown belongs to resources that are deleted before they are
            replaced: what is replaced for them is deleted before that.
        new_host: whether a slice that runs, or has run, is replaced by another one as it is.

    Raises:
        ConflictError: it would replace what is protected.
    """
    where = recorded_lifecycle(outputs)
    described = {key: value for key, value in new.items() if key not in PROVIDER_ONLY}
    if not _moves(old, new, outputs, where):
        described["zones"] = old.get("zones")
    before = {key: value for key, value in old.items() if key not in PROVIDER_ONLY}
    found = diff(before, described, where)
    changes = {**found.changes, **_steering(old, new)}
    if "zones" not in changes and where in ON_ITS_WAY and old.get("zones") != new.get("zones"):
        changes["zones"] = Change(ChangeKind.UPDATE, replaces=False)
    notes = []
    changes |= {**_uneven(outputs), **_leftovers(new, outputs, where), **_handing_over(outputs)}
    if "secureBoot" in changes and not changes["secureBoot"].replaces:
        notes.append(DiffNote("secureBoot changed: it applies to the hosts that are made next"))
    if new_host and where in (Lifecycle.ACTIVE, Lifecycle.ENDED):
        changes["nodes"] = Change(ChangeKind.UPDATE, replaces=True, is_input=False)
        notes.append(DiffNote(f"another slice takes the place of {outputs.get('name')}"))
    renewal = due(new, outputs, now)
    if renewal is not None:
        changes[renewal.property] = Change(ChangeKind.UPDATE, replaces=True, is_input=False)
        notes.append(DiffNote(renewal.text))
    if where is not None and where in _REPLACED:
        notes.append(DiffNote(str(TABLE[_condition(where, outputs)].up.text)))
    serving = predecessor(outputs)
    if serving:
        notes.append(DiffNote(_unproven(serving)))
        # What never served hands nothing over, and its quota is needed.
        found = replace(found, delete_before_replace=True)
    if new.get("replace") == "delete_first":
        found = replace(found, delete_before_replace=True)
    complete = with_next_generation(replace(found, changes=changes), new)
    reasons = [path for path, change in changes.items() if change.replaces]
    unknown = [path for path in reasons if has_unknown(new.get(_input(path)))]
    if complete.replaces and where is Lifecycle.ACTIVE:
        if goes_first and unknown:
            why = f"its {' and '.join(unknown)} is deleted before it is replaced"
            notes.append(DiffNote(_away(outputs, why), warning=True))
        elif new.get("replace") == "delete_first":
            notes.append(DiffNote(_away(outputs, "replace is delete_first"), warning=True))
    if where is Lifecycle.ENDED and not complete.replaces:
        notes.append(_over(new, outputs, now))
    renews = renewal is not None and reasons == [renewal.property]
    certain = [path for path in reasons if goes_first or path not in unknown]
    if certain and not renews and not serving:
        refuse_replacement(old, outputs, certain)
    permitted = renews or (bool(reasons) and (not certain or bool(serving)))
    return ResourceDiff(with_next_generation(complete, new), tuple(notes), permitted)


def _away(outputs: Properties, why: str) -> str:
    """Says that nothing serves meanwhile, and for how long at least, as far as the state tells."""
    times = [parse_time(outputs.get(key)) for key in ("createTime", "activeTime")]
    asked, made = times
    took = (
        f" (the last time {elapsed((made - asked).total_seconds())} until the hosts ran)"
        if asked is not None and made is not None and made >= asked
        else ""
    )
    return (
        f"{why}: this is drained and deleted before capacity is asked for again, and nothing serves"
        f" until that is granted{took} and its host has booted"
    )


def _unproven(serving: Iterable[RequestName]) -> str:
    names = ", ".join(map(str, serving))
    return f"it is to take over from {names}, and does not serve yet: `up` waits until it does"


def _input(path: str) -> str:
    """The input that the property ``path`` is in."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _condition(where: Lifecycle, outputs: Properties) -> Condition:
    """The row of a request that is replaced."""
    orphaned = where is Lifecycle.LOST and outputs.get("state") == NOT_FOUND
    return Condition.ORPHANED if orphaned else _REPLACED[where]


def _over(new: Properties, outputs: Properties, now: float) -> DiffNote:
    """Says what `up` does about a run that is over: nothing, and whether that is a failure."""
    if not _accepts_the_end(new):
        return DiffNote(str(TABLE[Condition.ENDED].preview.text), Code.RUN_OVER)
    left = remaining(outputs, now)
    # One that was cut short has ended at another time, which nothing tells.
    when = f" (it ended at {outputs['expireTime']})" if left is not None and left <= 0 else ""
    return DiffNote(f"{RUN_ACCEPTED.text}{when}", Code.RUN_OVER, warning=True)


def _accepts_the_end(inputs: Properties) -> bool:
    return inputs.get("onRunEnd") == "accept"


def _moves(old: Properties, new: Properties, outputs: Properties, where: Lifecycle | None) -> bool:
    """Whether a change of zones moves the slice. It stays where it is as long as its zone is still
    listed; while nothing has been granted, the new zones are simply tried as well."""
    zones = new.get("zones")
    if old.get("zones") == zones:
        return True  # nothing to overrule
    if where in ON_ITS_WAY:
        return False
    if has_unknown(zones) or not isinstance(zones, list):
        return True
    return where not in _HAS_A_PLACE or outputs.get("zone") not in zones


def _steering(old: Properties, new: Properties) -> dict[str, Change]:
    """Changes of the inputs that control the provider. An import has none of them, which says
    nothing about them, so nothing has changed."""
    if not PROVIDER_ONLY & old.keys():
        return {}
    return {
        key: Change(
            ChangeKind.between(old.get(key), new.get(key)),
            replaces=key in _ASKS_AGAIN and key in new,
        )
        for key in sorted(PROVIDER_ONLY)
        if old.get(key) != new.get(key)
    }


def _uneven(outputs: Properties) -> dict[str, Change]:
    """Nodes that differ from one another, whatever the inputs say, because a run that was to change
    them all was interrupted; or that have lost a label which says whose they are."""
    nodes = outputs.get("nodes")
    each = nodes if isinstance(nodes, list) else []
    if any(isinstance(node, dict) and node.get("drifted") for node in each):
        return {"nodes": Change(ChangeKind.UPDATE, replaces=False, is_input=False)}
    return {}


def _leftovers(new: Properties, outputs: Properties, where: Lifecycle | None) -> dict[str, Change]:
    """Requests that should no longer exist: losers of the race, the leftover of a run. A run that
    has ended is an update by itself, unless that is accepted: it says so and fails, because there
    is no slice."""
    requests = outputs.get("requests")
    change = Change(ChangeKind.UPDATE, replaces=False, is_input=False)
    if where is Lifecycle.ACTIVE and isinstance(requests, list) and len(requests) > 1:
        return {"requests": change}
    if where is not Lifecycle.ENDED or _accepts_the_end(new):
        return {}
    left = new.get("onRunEnd") == "delete" and outputs.get("state") != NOT_FOUND
    return {"lifecycle": change, "requests": change} if left else {"lifecycle": change}


def _handing_over(outputs: Properties) -> dict[str, Change]:
    """What is left of a hand-over, or of a deletion, that did not end."""
    change = Change(ChangeKind.UPDATE, replaces=False, is_input=False)
    return {key: change for key in (TAKES_OVER_FROM, DRAINS_UNTIL) if outputs.get(key)}


@dataclass(frozen=True, slots=True)
class Renewal:
    """A new run that is due by the state and the clock.

    Attributes:
        property: the output that is the reason.
        text: the reason, for the user.
    """

    property: str
    text: str


def due(inputs: Properties, outputs: Properties, now: float) -> Renewal | None:
    """The renewal that is due by ``renewBefore``; None if there is none (yet). A new run is planned
    only by a rule that the user wrote down."""
    limit = google_seconds(inputs.get("renewBefore"))
    if limit is None:
        return None
    where = recorded_lifecycle(outputs)
    if where is Lifecycle.ENDED:
        return Renewal("lifecycle", "the run is over, and renewBefore asks for a new one")
    left = remaining(outputs, now)
    if where is not Lifecycle.ACTIVE or left is None or left >= limit:
        return None
    return Renewal(
        "expireTime",
        f"{elapsed(left)} of the run are left, less than renewBefore ({elapsed(limit)}):"
        " a new one takes over",
    )


def refuse_replacement(old: Properties, outputs: Properties, reasons: Iterable[str]) -> None:
    """Check that the resource may be replaced.

    The state decides: protection that could be removed together with the change that replaces
    would protect nothing."""
    active = recorded_lifecycle(outputs) is Lifecycle.ACTIVE
    if old.get("deletionProtection") is True and active:
        raise ConflictError(
            f"{outputs.get('name')} is ACTIVE and {PROTECTED.text}: it is not replaced for"
            f" {', '.join(sorted(reasons))}",
            hint=UNPROTECT,
            code=Code.PROTECTED,
        )
