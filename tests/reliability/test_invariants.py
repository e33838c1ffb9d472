"""The checker: each invariant holds in a good run and is seen to be violated in a bad one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from reliability.evidence import Command, Evidence
from reliability.invariants import away, cut_off, violations
from tests.reliability.written_run import (
    BUCKET,
    CREATE,
    LABELS,
    NODE,
    OWNER,
    PLACE,
    PREFIX,
    PROVIDER,
    QUEUED,
    SLICE,
    Run,
    call,
    cloud,
    foreign,
)


def down(run: Run) -> None:
    """A good `down`."""
    run.ended_with("down")
    run.export, run.inventory = None, foreign()


def nothing(_run: Run) -> None:
    """The good run as it is."""


def killed(run: Run) -> None:
    """A kill that left a create pending; nobody has recovered yet."""
    run.ended_with("up", -9)
    slice_ = run.resources().pop()
    assert run.export is not None
    run.export["deployment"]["pending_operations"] = [{"type": "creating", "resource": slice_}]
    del run.inventory["tpu"]["queuedResources"][0], run.inventory["tpu"]["nodes"][0]


def waiting_race(run: Run) -> None:
    """Requests in two zones while none is granted."""
    run.ended_with("up", 3)
    other = QUEUED.replace("us-east5-a", "us-east5-b")
    run.queued()[0]["state"] = "WAITING_FOR_RESOURCES"
    run.queued().append({"name": other, "labels": LABELS, "state": "WAITING_FOR_RESOURCES"})
    del run.inventory["tpu"]["nodes"][0]
    slice_ = run.resources()[-1]
    slice_["outputs"]["lifecycle"] = "waiting"
    slice_["inputs"]["zones"] = ["us-east5-a", "us-east5-b"]


def remembered_run(run: Run) -> None:
    """A run that is over, and whose leftover is gone: only the state remembers it."""
    ended_without_its_leftover(run)
    over(run, "NOT_FOUND")


def reported_orphan(run: Run) -> None:
    """Something of ours is left, and `status` says so."""
    run.inventory["storage"]["buckets"].append({"name": f"{PREFIX}-lost", "labels": LABELS})
    run.reported = frozenset({f"{PREFIX}-lost"})


def changed_between(run: Run) -> None:
    """Something happened between two `up`: the second may well have something to do."""
    run.commands.insert(1, Command("event", 0, 2, 2))
    run.history.append(call(3, "DELETE"))


def struck(run: Run) -> None:
    """A fault was to strike and did."""
    process = {"role": "cli", "pid": 7, "name": "python"}
    run.strikes = [{"rule": "r1", "effect": "kill", "method_id": CREATE, "processes": [process]}]


def replaced_pending_delete(run: Run) -> None:
    """A replaced resource that is still to be deleted appears twice, once marked."""
    old = {**copy.deepcopy(run.resources()[-1]), "delete": True, "id": f"{QUEUED}-old"}
    run.resources().append(old)


def replaced_pending_creation(run: Run) -> None:
    """What was deleted to be replaced, and a replacement that failed: only a reminder."""
    run.ended_with("refresh")
    run.resources()[-1]["pendingReplacement"] = True
    del run.inventory["tpu"]["queuedResources"][0], run.inventory["tpu"]["nodes"][0]


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        down,
        killed,
        waiting_race,
        reported_orphan,
        remembered_run,
        changed_between,
        struck,
        replaced_pending_delete,
        replaced_pending_creation,
    ],
    ids=lambda change: change.__name__,
)
def test_a_good_run_violates_nothing(change: Callable[[Run], None]) -> None:
    """What is allowed is not reported."""
    run = Run()
    change(run)

    assert violations(run.evidence()) == []


def orphan_bucket(run: Run) -> None:
    run.resources().pop(2)
    run.resources()[-1]["dependencies"] = []


def only_remembered(run: Run) -> None:
    run.resources()[-1]["pendingReplacement"] = True


def orphan_request_in_other_zone(run: Run) -> None:
    other = QUEUED.replace("us-east5-a", "us-east5-b")
    run.queued().append({"name": other, "labels": LABELS, "state": "SUSPENDED"})


def orphan_node(run: Run) -> None:
    run.inventory["tpu"]["nodes"].append(
        {"name": f"{PLACE}/nodes/{PREFIX}-g2", "labels": LABELS, "state": "READY"}
    )


def unmarked_but_named_as_ours(run: Run) -> None:
    name = f"projects/p/global/networks/{PREFIX}-net"
    run.inventory["compute"]["networks"].append({"name": name})


def two_live(run: Run) -> None:
    second = QUEUED.replace("-g1", "-g2")
    run.queued().append({"name": second, "labels": LABELS, "state": "PROVISIONING"})
    copied = {**copy.deepcopy(run.resources()[-1]), "id": second, "urn": f"{SLICE}2"}
    run.resources().append(copied)


def over(run: Run, state: str) -> None:
    """A refresh that found the run to be over; ``state`` is Google's word for its leftover."""
    run.ended_with("refresh")
    run.resources()[-1]["outputs"] |= {"lifecycle": "ended", "state": state}


def ended_while_active(run: Run) -> None:
    over(run, "NOT_FOUND")


def ended_without_its_leftover(run: Run) -> None:
    over(run, "SUSPENDED")
    del run.queued()[0], run.inventory["tpu"]["nodes"][0]


def up_without_a_run(run: Run) -> None:
    over(run, "SUSPENDED")
    run.ended_with("up")
    run.queued()[0]["state"] = "SUSPENDED"
    del run.inventory["tpu"]["nodes"][0]


def ghost_after_refresh(run: Run) -> None:
    run.ended_with("refresh")
    del run.queued()[0], run.inventory["tpu"]["nodes"][0]


def second_up_mutates(run: Run) -> None:
    run.history[2] = call(3, "PATCH", f"/v2alpha1/{NODE}")


def left_after_down(run: Run) -> None:
    down(run)
    run.inventory = cloud()
    del run.inventory["tpu"]
    run.inventory["tpu"] = foreign()["tpu"]
    run.reported = frozenset({f"{PREFIX}-weights"})


def state_left_after_down(run: Run) -> None:
    run.ended_with("down")
    run.inventory = foreign()


def foreign_gone(run: Run) -> None:
    del run.queued()[1]


def foreign_changed(run: Run) -> None:
    run.queued()[1]["labels"] = dict(LABELS) | {"tpuflex-owner": "another"}


def foreign_touched_though_unanswered(run: Run) -> None:
    path = "/compute/v1/projects/p/global/networks/default"
    run.history.insert(
        1,
        call(2, "PATCH", path, status=0, committed=True) | {"method_id": "compute.networks.patch"},
    )


def success_without_slice(run: Run) -> None:
    run.ended_with("up")
    run.queued()[0]["state"] = "WAITING_FOR_RESOURCES"


def success_without_node(run: Run) -> None:
    run.ended_with("up")
    del run.inventory["tpu"]["nodes"][0]


def hangs(run: Run) -> None:
    run.commands = [Command("refresh", None, 0, 3)]


def pending_after_recover(run: Run) -> None:
    killed(run)
    run.commands.append(Command("recover", 0, 3, 3))


def dangling_dependency(run: Run) -> None:
    run.resources()[-1]["dependencies"] = [f"{BUCKET}-gone"]


def dangling_provider(run: Run) -> None:
    run.resources()[-1]["provider"] = f"{PROVIDER}::y"


def doubled(run: Run) -> None:
    run.resources().append(copy.deepcopy(run.resources()[-1]))


def without_id(run: Run) -> None:
    run.ended_with("up", 1)
    run.resources()[2]["id"] = ""
    run.reported = frozenset({f"{PREFIX}-weights"})


def killed_nobody(run: Run) -> None:
    struck(run)
    run.strikes[0]["processes"] = []


@pytest.mark.parametrize(
    ("change", "invariant", "said"),
    [
        (orphan_bucket, "I1", f"buckets {PREFIX}-weights is in the cloud, but not in the state"),
        (orphan_request_in_other_zone, "I1", "us-east5-b/queuedResources"),
        (only_remembered, "I1", f"{QUEUED} is in the cloud, but not in the state"),
        (orphan_node, "I1", f"nodes {PLACE}/nodes/{PREFIX}-g2"),
        (unmarked_but_named_as_ours, "I1", f"{PREFIX}-net"),
        (two_live, "I2", f"2 live queued resources of owner {OWNER}"),
        (ghost_after_refresh, "I3", f"{QUEUED} is in the state, but not in the cloud"),
        (ended_while_active, "I3", f"{QUEUED} is ACTIVE, but the state says that it is over"),
        (ended_without_its_leftover, "I3", f"{QUEUED} is in the state, but not in the cloud"),
        (up_without_a_run, "I7", "has no ACTIVE queued resource"),
        (second_up_mutates, "I4", f"a second `up` sent PATCH /v2alpha1/{NODE}"),
        (left_after_down, "I5", f"buckets {PREFIX}-weights is left after `down`"),
        (state_left_after_down, "I5", f"{SLICE} is left in the state"),
        (foreign_gone, "I6", "queuedResources/theirs, which is not ours, is gone"),
        (foreign_changed, "I6", "queuedResources/theirs, which is not ours, was changed"),
        (foreign_touched_though_unanswered, "I6", "touched what is not ours"),
        (success_without_slice, "I7", "has no ACTIVE queued resource"),
        (success_without_node, "I7", "has no READY node"),
        (hangs, "I7", "`refresh` did not end"),
        (pending_after_recover, "I8", f"creating of {SLICE} is pending after `recover`"),
        (dangling_dependency, "I8", "depends on what is not in the snapshot"),
        (dangling_provider, "I8", "the provider of"),
        (doubled, "I8", "is in the snapshot twice"),
        (without_id, "I8", f"{BUCKET} has no id"),
        (killed_nobody, "R0", "found nobody to kill"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_violated_invariant_is_named(
    change: Callable[[Run], None], invariant: str, said: str
) -> None:
    """One thing wrong, and the invariant that it violates says what."""
    run = Run()
    change(run)

    found = violations(run.evidence())

    assert said in " | ".join(item.text for item in found if item.invariant == invariant)


@pytest.mark.parametrize("method_id", ["oauth2.token", "secretmanager.secrets.getIamPolicy"])
def test_what_is_only_asked_for_is_no_change(method_id: str) -> None:
    """A POST that gets a token, or reads a policy, mutates nothing."""
    run = Run()
    run.history[2] = call(3, "POST", "/token") | {"method_id": method_id}

    assert violations(run.evidence()) == []


# -- how slices that serve end -------------------------------------------------------------------

OLD, NEW = (f"projects/p/locations/z/queuedResources/s-g{number}" for number in (1, 2))
NOW = 1_800_000_000.0
LATER, EARLIER = "2027-01-15T09:00:00Z", "2027-01-15T07:00:00Z"  # NOW is 08:00


def serving(request: str, **more: Any) -> dict[str, Any]:
    """A slice that answers."""
    return {
        "request": request,
        "owner": "ours",
        "asked": "",
        "drained": False,
        "late": False,
        **more,
    }


def deletion(
    *slices: dict[str, Any],
    commands: tuple[Command, ...] = (Command("up", 0, 0, 9),),
    fault: tuple[str, str] | None = None,
    **more: Any,
) -> Evidence:
    """A run that deletes the first of two slices, of which ``slices`` answered just before."""
    noted = {"seq": 3, "request": OLD, "now": NOW, "serving": slices}
    call = {"seq": 4, "method": "DELETE", "path": f"/v2alpha1/{OLD}", "status": 200, **more}
    strikes = [{"seq": 2, "method_id": fault[0], "rule": fault[1]}] if fault else []
    return Evidence([call], {}, None, commands, {}, strikes, [noted])


DRAINED = serving(OLD, asked=LATER, drained=True)
DOWN = (Command("down", 0, 0, 9),)
AFTER_DOWN = (Command("down", -9, 0, 2), Command("recover", 0, 2, 9))
AFTER_UP = (Command("up", -9, 0, 2), Command("recover", 0, 2, 9))
GUEST = "tpu.nodes.getGuestAttributes"


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (deletion(DRAINED), True),
        (deletion(DRAINED, commands=AFTER_UP), True),
        (deletion(DRAINED, serving(NEW, owner="theirs")), True),
        (deletion(DRAINED, serving(NEW, asked=LATER)), True),
        (deletion(DRAINED, fault=(GUEST, "s1.0.unavailable")), True),
        (deletion(DRAINED, serving(NEW)), False),
        (deletion({**DRAINED, "late": True}), False),
        (deletion(DRAINED, commands=DOWN), False),
        (deletion(DRAINED, commands=AFTER_DOWN), False),
        (deletion(DRAINED, fault=(GUEST, "s1.0.permission")), False),
        (deletion(serving(NEW)), False),
        (deletion(DRAINED, committed=False), False),
        (deletion(DRAINED, status=400), False),
    ],
)
def test_what_serves_goes_once_another_one_does(found: Evidence, wrong: bool) -> None:
    """I9: a deletion that leaves nobody who answers is seen, unless somebody asked for that, the
    API refused to say, or it did not take effect."""
    assert bool([*away(found)]) is wrong


@pytest.mark.parametrize(
    ("slices", "fault", "wrong"),
    [
        ([serving(OLD)], None, True),
        ([serving(OLD, asked=LATER)], None, True),
        ([DRAINED, serving(OLD, asked=LATER)], None, True),
        ([serving(OLD)], (GUEST, "reset"), True),
        ([DRAINED], None, False),
        ([serving(OLD, asked=EARLIER)], None, False),
        ([serving(OLD)], ("tpu.nodes.patch", "permission"), False),
        ([serving(NEW)], None, False),
    ],
)
def test_what_serves_drains_first(
    slices: list[dict[str, Any]], fault: tuple[str, str] | None, wrong: bool
) -> None:
    """I10: a deletion of what was not asked to drain, or had not drained in its time, is seen, of
    one node of several, too."""
    assert bool([*cut_off(deletion(*slices, commands=DOWN, fault=fault))]) is wrong
