"""A hand-over that did not end, under the real engine: what serves is only to be deleted in the
state, and stays until what the state goes on with serves."""

from __future__ import annotations

import signal

import pytest
from pulumi import automation
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, TYPE, Rig, live, until
from tests.provider.reporting_hosts import (
    ERROR,
    FIRST,
    SECOND,
    THIRD,
    Hosts,
    fail_to_delete_the_first,
    half,
    renew,
)

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]


def deleted_by_hand(rig: Rig, request: str) -> None:
    """Have somebody delete ``request``."""
    left = [each for each in live(rig) if each != request]
    rig.call("DELETE", f"{request}?force=true")
    until(lambda: live(rig) == left)


def forget_living(rig: Rig) -> None:
    """Leave the state as a destroy does that was stopped when the successor was gone, and what
    serves was not: that is there as to be deleted, and nothing else."""
    exported = rig.stack.export_stack()
    deployment = dict(exported.deployment or {})
    kept = [r for r in deployment["resources"] if r["type"] != TYPE or r.get("delete")]
    deployment["resources"] = kept
    rig.stack.import_stack(automation.Deployment(exported.version, deployment))


def test_a_successor_that_was_deleted_by_hand_is_made_again(rig: Rig, hosts: Hosts) -> None:
    """A refresh leaves it in the state as lost, because of what it was to take over from: the next
    `up` makes another one, and what serves goes once that does."""
    half(rig, hosts)
    deleted_by_hand(rig, SECOND)
    rig.refresh()
    for generation in (2, 3):
        hosts.report(generation, {"phase": "weights"})

    running = rig.background(rig.up)
    until(lambda: "its host boots, weights" in "".join(rig.ephemeral))
    (heir,) = (each for each in live(rig) if each != FIRST)
    assert FIRST in live(rig)
    for generation in (2, 3):
        hosts.report(generation, {"phase": "READY"})
    running.result(60)

    assert live(rig) == [heir]
    assert rig.preview() == {"same": 3}


def test_what_serves_survives_a_state_that_has_it_only_as_to_be_deleted(
    rig: Rig, hosts: Hosts
) -> None:
    """The state has lost the id that it had made it with: the next `up` takes it for another
    state's and leaves it alone, that run and the next, and says how to take it back."""
    half(rig, hosts)
    deleted_by_hand(rig, SECOND)
    forget_living(rig)

    for _ in range(2):
        with pytest.raises(CommandError, match="`tpuflex recover --take-over`"):
            rig.up()
        assert live(rig) == [FIRST]


def test_so_does_what_serves_of_a_later_generation(rig: Rig, hosts: Hosts) -> None:
    """Its name is not found: another slice is made. It goes once that serves, and not before."""
    half(rig, hosts)
    hosts.report(2, {"phase": "READY"})
    rig.up()
    hosts.report(3, ERROR)
    renew(rig, "once more")
    with pytest.raises(CommandError):
        rig.up()
    deleted_by_hand(rig, THIRD)
    forget_living(rig)
    hosts.report(1, ERROR)

    for _ in range(2):
        with pytest.raises(CommandError, match=r"no manifest: .*g2 is not deleted"):
            rig.up()
        assert live(rig) == [FIRST, SECOND]
    hosts.report(1, {"phase": "READY"})
    rig.up()

    assert live(rig) == [FIRST]
    assert rig.preview() == {"same": 3}


def test_a_successor_that_has_failed_since_replaces_nothing(rig: Rig, hosts: Hosts) -> None:
    """What was to be deleted once it served, and could not be, is not deleted by a later run either
    when the successor's server has failed by then; what serves is told to go on."""
    rig.up()
    hosts.report(2, {"phase": "READY"})
    hosts.serving(1, "serving", drained=True)
    renew(rig, "again")
    fail_to_delete_the_first(rig)
    hosts.serving(1, "draining", drained=True)
    hosts.serving(2, "failed")

    with pytest.raises(CommandError, match=r"g2 does not serve: .*g1 is not deleted"):
        rig.up()
    assert live(rig) == [FIRST, SECOND]
    node = rig.call("GET", FIRST.replace("queuedResources", "nodes"))
    assert "tpuflex-drain" not in node["metadata"]
    hosts.report(3, {"phase": "READY"})
    renew(rig, "once more")
    rig.up()

    assert live(rig) == [THIRD]


def test_a_successor_that_alone_serves_is_handed_over(rig: Rig, hosts: Hosts) -> None:
    """An `up` that ended early left it beside what served, which is gone by now: a change replaces
    it once another one serves, and not before."""
    half(rig, hosts)
    hosts.report(2, {"phase": "READY"})
    deleted_by_hand(rig, FIRST)
    hosts.report(3, {"phase": "weights"})
    renew(rig, "once more")

    running = rig.background(rig.up)
    until(lambda: "its host boots, weights" in "".join(rig.ephemeral))
    assert live(rig) == [SECOND, THIRD]
    hosts.report(3, {"phase": "READY"})
    running.result(60)

    assert live(rig) == [THIRD]


def test_a_boot_that_fails_in_a_second_up_is_deleted_on_request(rig: Rig, hosts: Hosts) -> None:
    """The first `up` waited in the queue and was stopped; the next one sees the boot fail. The
    state keeps the successor as lost, so that the one after takes over from what serves."""
    rig.args["on_boot_failure"] = "delete"
    rig.up()
    hosts.report(2, ERROR)
    hosts.report(3, {"phase": "READY"})
    renew(rig, "again")
    rig.capacity(never=True)
    rig.lines.clear()
    running = rig.background(rig.up)
    until(lambda: "WAITING_FOR_RESOURCES" in "".join(rig.lines))
    rig.engine().send_signal(signal.SIGINT)
    with pytest.raises(CommandError):
        running.result(60)
    rig.capacity()

    with pytest.raises(CommandError, match="It was deleted, as onBootFailure says"):
        rig.up()
    assert live(rig) == [FIRST]
    hosts.report(2, {"phase": "READY"})
    rig.up()

    (heir,) = live(rig)
    assert heir != FIRST
