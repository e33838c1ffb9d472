"""What time, zones and steering inputs mean for the next `up`; protection in the way of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pulumi_plugin.values import UNKNOWN, Properties
from tests.provider.fakes import NAME, Cloud, args, missing, node, queued, scripted, sequence
from tpuflex.codes import Code
from tpuflex.errors import ConflictError
from tpuflex.provider.diff import DiffNote, resource_diff
from tpuflex.provider.operations import delete_resource
from tpuflex.queued_resource.check import input_properties, with_defaults
from tpuflex.queued_resource.outcomes import RUN_ACCEPTED, TABLE, Condition

URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"
EXPIRES = "2026-11-21T12:05:00Z"
END = datetime(2026, 11, 21, 12, 5, tzinfo=UTC).timestamp()
A, B, C = "us-east5-a", "us-east5-b", "us-east5-c"


def inputs(**changed: Any) -> Properties:
    base = {k: v for k, v in input_properties(args()).items() if k != "queuedResourceId"}
    return with_defaults({**base, **changed}, urn=URN, project=None)


def state(lifecycle: str = "active", **more: Any) -> Properties:
    return {
        **inputs(),
        "name": NAME,
        "zone": A,
        "lifecycle": lifecycle,
        "state": "ACTIVE",
        "expireTime": EXPIRES,
        "requests": [NAME],
        **more,
    }


def changes(
    old: Properties, new: Properties, outputs: Properties, now: float = END - 14400
) -> dict[str, bool]:
    """Changed properties and whether each replaces; without the id that follows from it."""
    found = resource_diff(old, new, outputs, now).diff.changes
    return {path: c.replaces for path, c in found.items() if path != "queuedResourceId"}


@pytest.mark.parametrize(
    ("left", "renewed"), [(14400, False), (3601, False), (3600, False), (3599, True), (-60, True)]
)
def test_renewal_is_planned_once_less_is_left(left: float, renewed: bool) -> None:
    """Exactly when less run time than `renewBefore` is left, a replacement is planned."""
    wanted = inputs(renewBefore="3600s")

    found = resource_diff(wanted, wanted, state(), END - left)

    assert found.diff.replaces is renewed
    assert bool(found.notes) is renewed
    assert not found.diff.delete_before_replace


def test_renewal_is_never_silent() -> None:
    """Without `renewBefore`, no time that passes plans anything; the note gives the reason."""
    assert changes(inputs(), inputs(), state(), END + 86400) == {}
    assert changes(inputs(), inputs(), state("ended"), END + 86400) == {"lifecycle": False}
    wanted = inputs(renewBefore="3600s")
    assert resource_diff(wanted, wanted, state(), END - 600).notes == (
        DiffNote("10m of the run are left, less than renewBefore (1h): a new one takes over"),
    )
    assert changes(wanted, wanted, state("ended"), END) == {"lifecycle": True}


@pytest.mark.parametrize(
    ("lifecycle", "state_word", "condition"),
    [
        ("failed", "FAILED", Condition.FAILED),
        ("lost", "ACTIVE", Condition.NODE_MISSING),
        ("lost", "NOT_FOUND", Condition.ORPHANED),
        ("deleting", "DELETING", Condition.DELETING),
    ],
)
def test_what_is_replaced_for_where_it_stands_says_so(
    lifecycle: str, state_word: str, condition: Condition
) -> None:
    """The plan gives the words of the table."""
    stood = {**state(lifecycle), "state": state_word}

    found = resource_diff(inputs(), inputs(), stood, END)

    assert found.diff.replaces
    assert found.notes == (DiffNote(str(TABLE[condition].up.text)),)


def test_a_run_that_is_over_is_foretold_unless_a_new_one_was_asked_for() -> None:
    """The plan of an ended run says that nothing is requested; with `rerun` a new run is."""
    ended = state("ended")
    over = DiffNote(str(TABLE[Condition.ENDED].preview.text), Code.RUN_OVER)

    assert resource_diff(inputs(), inputs(), ended, END).notes == (over,)
    assert resource_diff(inputs(rerun="1"), inputs(rerun="2"), ended, END).notes == ()


@pytest.mark.parametrize("lifecycle", ["waiting", "provisioning"])
def test_what_has_not_begun_is_not_renewed(lifecycle: str) -> None:
    """A request in the queue has no run to renew."""
    wanted = inputs(renewBefore="3600s")

    assert changes(wanted, wanted, state(lifecycle), END) == {"lifecycle": False}


@pytest.mark.parametrize("expires", [None, "soon"])
def test_unknown_end_renews_nothing(expires: str | None) -> None:
    """An unknown or unreadable expiry is no reason to buy."""
    wanted = inputs(renewBefore="3600s")

    assert changes(wanted, wanted, state(expireTime=expires), END) == {}


@pytest.mark.parametrize(
    ("old", "new", "replaces"),
    [
        (None, "1", True),
        ("1", "2", True),
        ("1", None, False),
        ("1", "1", None),
        ("1", UNKNOWN, True),
    ],
)
def test_rerun_replaces_when_it_changes(old: Any, new: Any, replaces: bool | None) -> None:
    """Another text asks for another run; taking it away does not."""
    before = inputs(**({"rerun": old} if old else {}))
    after = inputs(**({"rerun": new} if new else {}))

    assert changes(before, after, state("ended")) == {
        "lifecycle": False,
        **({} if replaces is None else {"rerun": replaces}),
    }


def test_steering_changes_in_the_state_only() -> None:
    """Strategy, deadlines, renewal and protection change nothing in the cloud."""
    after = inputs(
        strategy="ordered",
        queueTimeout="60s",
        provisioningTimeout="60s",
        deleteTimeout="60s",
        renewBefore="60s",
        onRunEnd="delete",
        deletionProtection=True,
    )

    found = changes(inputs(), after, state())

    assert set(found) == set(after) - {k for k in after if after[k] == inputs().get(k)}
    assert not any(found.values())


def test_what_does_not_serve_yet_is_waited_for() -> None:
    """What is to take over from a slice that serves is an update until it serves, and the plan says
    from which."""
    found = resource_diff(inputs(), inputs(), state(takesOverFrom=[NAME]), END - 14400)

    assert found.diff.changes.keys() == {"takesOverFrom"}
    assert not found.diff.replaces
    assert found.notes == (
        DiffNote(
            f"it is to take over from {NAME}, and does not serve yet: `up` waits until it does"
        ),
    )


def test_what_never_served_is_no_protected_endpoint() -> None:
    """Protection is the endpoint's: a successor that never served is replaced, and first deleted,
    whose quota the next one needs."""
    kept = inputs(deletionProtection=True)
    wanted = inputs(deletionProtection=True, rerun="again")

    found = resource_diff(kept, wanted, state(takesOverFrom=[NAME]), END - 14400)

    assert found.diff.replaces
    assert found.diff.delete_before_replace
    assert found.permitted
    with pytest.raises(ConflictError):
        resource_diff(kept, wanted, state(), END - 14400)


def test_deleting_first_is_said_before() -> None:
    """With delete_first what serves is deleted before the next one is asked for, and the plan says
    that nothing serves meanwhile, and how long the hosts took the last time."""
    kept, wanted = inputs(replace="delete_first"), inputs(replace="delete_first", rerun="again")
    times = {"createTime": "2026-11-21T08:00:00Z", "activeTime": "2026-11-21T08:35:00Z"}

    found = resource_diff(kept, wanted, state(**times), END - 14400)

    assert found.diff.delete_before_replace
    (note,) = found.notes
    assert note.warning
    assert "until that is granted (the last time 35m until the hosts ran)" in note.text
    assert resource_diff(kept, kept, state(**times), END - 14400).notes == ()
    assert not resource_diff(
        inputs(), inputs(rerun="again"), state(), END
    ).diff.delete_before_replace


def test_what_goes_before_its_network_is_said_and_refused_if_protected() -> None:
    """A subnetwork that is deleted before it is replaced takes what is in it along, although
    `replace` says otherwise."""
    kept, wanted = inputs(subnetwork="a"), inputs(subnetwork=UNKNOWN)
    protected = {**kept, "deletionProtection": True}

    found = resource_diff(kept, wanted, state(), END - 14400, goes_first=True)

    (note,) = found.notes
    assert note.warning
    assert "its subnetwork is deleted before it is replaced" in note.text
    assert "nothing serves until" in note.text
    with pytest.raises(ConflictError, match="not replaced for subnetwork"):
        resource_diff(protected, wanted, state(), END - 14400, goes_first=True)
    assert resource_diff(protected, wanted, state(), END - 14400).notes == ()
    assert (
        resource_diff(kept, wanted, state(lifecycle="ended"), END - 14400, goes_first=True).notes
        == ()
    )


def test_a_drain_that_was_begun_is_called_off() -> None:
    """A deletion that was stopped has asked the hosts to drain: an `up`, which keeps them, has
    something to change."""
    assert changes(inputs(), inputs(), state(drainsUntil=EXPIRES)) == {"drainsUntil": False}


def test_secure_boot_waits_for_the_next_hosts_if_the_program_says_so() -> None:
    """With onBootChange update nothing can be changed in place, and the plan says so."""
    wanted = inputs(secureBoot=True, onBootChange="update")

    found = resource_diff(inputs(onBootChange="update"), wanted, state(), END - 14400)

    assert not found.diff.replaces
    assert found.notes == (
        DiffNote("secureBoot changed: it applies to the hosts that are made next"),
    )


def test_import_says_nothing_about_steering() -> None:
    """What an import cannot know is taken from the program without a change."""
    imported = input_properties(args())
    for key in [k for k in inputs() if k not in imported or k in ("strategy", "queueTimeout")]:
        imported.pop(key, None)
    imported = {k: v for k, v in imported.items() if not k.endswith("Timeout")}
    for key in ("strategy", "onRunEnd", "deletionProtection", "replace", "onBootFailure"):
        imported.pop(key, None)
    wanted = inputs(zones=[A, B], deletionProtection=True, renewBefore="60s", rerun="7")

    assert changes(imported, wanted, state()) == {}


@pytest.mark.parametrize(
    ("lifecycle", "zones", "expected"),
    [
        ("active", [A, B], {}),
        ("active", [C, B, A], {}),
        ("active", [B], {"zones": True}),
        ("ended", [A, B], {"lifecycle": False}),
        ("waiting", [B, C], {"zones": False, "lifecycle": False}),
        ("active", UNKNOWN, {"zones": True}),
        ("waiting", UNKNOWN, {"zones": False, "lifecycle": False}),
    ],
)
def test_zones_are_a_choice_not_a_place(lifecycle: str, zones: Any, expected: Any) -> None:
    """The zone that has the slice stays while it is among them; what waits is moved in place."""
    assert changes(inputs(), inputs(zones=zones), state(lifecycle)) == expected


def test_requests_that_lost_are_deleted_by_the_next_up() -> None:
    """A loser that an interrupted run left behind is a change of its own."""
    assert changes(inputs(), inputs(), state(requests=[NAME, "other"])) == {"requests": False}


def test_a_run_that_is_over_is_planned_to_be_told() -> None:
    """The next `up` says so and fails; `onRunEnd: delete` plans the clean-up beside it, once."""
    wanted, told = inputs(onRunEnd="delete"), {"lifecycle": False}
    left = state("ended", state="SUSPENDED")

    assert changes(inputs(), inputs(), left) == told
    assert changes(wanted, wanted, left) == {**told, "requests": False}
    assert changes(wanted, wanted, state("ended", state="NOT_FOUND")) == told


def test_an_accepted_end_plans_nothing_and_says_so() -> None:
    """`onRunEnd: accept` leaves a run that is over as it is, with a warning that names when it
    ended, where that is known; `rerun` still asks for another run."""
    wanted, ended = inputs(onRunEnd="accept"), state("ended", state="SUSPENDED")
    cut_short = resource_diff(wanted, wanted, ended, END - 60).notes[0]

    told = resource_diff(wanted, wanted, ended, END)

    assert told.diff.changes == {}
    (note,) = told.notes
    assert (note.code, note.warning) == (Code.RUN_OVER, True)
    assert note.text == f"{RUN_ACCEPTED.text} (it ended at {EXPIRES})"
    assert cut_short.text == RUN_ACCEPTED.text
    assert changes(inputs(), wanted, ended, END) == {"onRunEnd": False}
    assert changes(wanted, {**wanted, "rerun": "2"}, ended, END) == {"rerun": True}


def test_protection_refuses_replacement_by_name() -> None:
    """What counts is the state: taking protection away in the same step does not help."""
    old = inputs(deletionProtection=True)
    for protection in (True, False):
        new = inputs(deletionProtection=protection, acceleratorType="v6e-8")
        with pytest.raises(ConflictError, match="is not replaced for acceleratorType") as refused:
            resource_diff(old, new, state(), 0)
        assert "deletion_protection to false" in str(refused.value.hint)

    assert changes(old, inputs(acceleratorType="v6e-8"), state("waiting"))["acceleratorType"]
    assert changes(inputs(), inputs(acceleratorType="v6e-8"), state())["acceleratorType"]


def test_protection_does_not_stand_in_the_way_of_renewal() -> None:
    """The endpoint is protected, not each of its runs; with another change it is refused."""
    wanted = inputs(deletionProtection=True, renewBefore="3600s")

    assert resource_diff(wanted, wanted, state(), END - 60).diff.replaces
    with pytest.raises(ConflictError):
        resource_diff(wanted, {**wanted, "acceleratorType": "v6e-8"}, state(), END - 60)


def test_protected_and_active_is_not_deleted() -> None:
    """Deletion is refused while it is ACTIVE, and before anything is touched."""
    protected = {**input_properties(args()), "deletionProtection": True}
    call, script, _ = scripted(Cloud(request=sequence(queued("ACTIVE")), node=sequence(node())))

    with pytest.raises(ConflictError, match="deletion_protection is on"):
        delete_resource(call, NAME, protected, state(), timeout=0)
    assert script.count("DELETE") == 0

    answers = Cloud(
        request=sequence(queued("SUSPENDED"), queued("SUSPENDED"), missing()),
        operation=sequence({"name": "operations/2", "done": False}),
    )
    call, script, _ = scripted(answers)
    delete_resource(call, NAME, protected, state(), timeout=0)
    assert script.count("DELETE") == 1


@pytest.mark.parametrize(
    ("lifecycle", "replaces"),
    [("active", True), ("ended", True), ("waiting", False), ("provisioning", False)],
)
def test_a_new_host_replaces_what_runs_or_has_run(lifecycle: str, replaces: bool) -> None:
    """A new host is asked for by the command line alone, so that the next `up` keeps what there is;
    a request that waits has no host to replace. It is said which slice goes, and
    `replace: delete_first` holds."""
    first = inputs(replace="delete_first")
    found = resource_diff(first, first, state(lifecycle), END - 14400, new_host=True)
    assert (found.diff.replaces, found.diff.delete_before_replace) == (replaces, True)
    said = DiffNote(f"another slice takes the place of {NAME}")
    assert (said in found.notes) is replaces
    assert not resource_diff(first, first, state(), END - 14400).diff.replaces


def test_a_new_host_is_refused_where_the_old_one_is_protected() -> None:
    """Deletion protection refuses it as it refuses any other replacement of a slice."""
    guarded = inputs(deletionProtection=True)
    with pytest.raises(ConflictError, match="deletion_protection is on"):
        resource_diff(guarded, guarded, state(), END - 14400, new_host=True)
