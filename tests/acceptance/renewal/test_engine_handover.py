"""A hand-over under the real engine: what serves is deleted once what takes over serves."""

from __future__ import annotations

import pytest
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, A, Rig, command, live, outputs, until
from tests.provider.reporting_hosts import ERROR, FIRST, SECOND, THIRD, Hosts, renew

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]


def patched(rig: Rig) -> list[str]:
    """The ids of the nodes that were patched."""
    return [call["path"].rpartition("/")[2] for call in rig.calls("PATCH", "nodes")]


def test_a_successor_takes_over_when_it_serves(rig: Rig, hosts: Hosts) -> None:
    """While its host boots the old slice stays and serves; once it is READY the old one goes."""
    rig.up()
    hosts.report(2, {"phase": "weights", "detail": "3 of 61 GB"})
    renew(rig, "again")

    running = rig.background(rig.up)
    until(lambda: "its host boots, weights: 3 of 61 GB" in "".join(rig.ephemeral))
    assert live(rig) == [FIRST, SECOND]
    assert not rig.calls("DELETE")
    hosts.report(2, {"phase": "READY"})
    running.result(60)

    assert live(rig) == [SECOND]
    assert f"it serves, and takes over from {FIRST}" in "".join(rig.lines)
    assert "takesOverFrom" not in outputs(rig)
    assert rig.preview() == {"same": 3}


@pytest.mark.parametrize("replace", ["create_first", "delete_first"])
def test_a_new_host_takes_over_and_is_kept(rig: Rig, hosts: Hosts, replace: str) -> None:
    """Nothing has changed but that it was asked for: it is handed over to, or comes after what was
    deleted first; the next `up`, which does not ask, has nothing to do."""
    rig.args["replace"] = replace
    rig.up()
    hosts.report(2, {"phase": "READY"})

    with rig.served(new_host=True):
        assert rig.preview() == {"same": 2, "replace": 1}
        rig.up()

    assert live(rig) == [SECOND]
    taken = f"it serves, and takes over from {FIRST}" in "".join(rig.lines)
    assert taken is (replace == "create_first")
    assert rig.preview() == {"same": 3}


def test_a_successor_that_fails_leaves_what_serves(rig: Rig, hosts: Hosts) -> None:
    """Its boot's reason is the error; the old slice is not touched; the next `up` goes on with the
    same successor, and ends when that serves."""
    rig.up()
    hosts.report(2, ERROR)
    renew(rig, "again")

    with pytest.raises(CommandError, match="the bucket has no manifest"):
        rig.up()
    said = "".join(rig.lines)
    assert f"{SECOND} does not serve: The host failed in phase weights" in said
    assert f"{FIRST} was not touched and serves on; both are billed." in said
    assert "[not-serving]" in said
    assert live(rig) == [FIRST, SECOND]
    assert not rig.calls("DELETE")
    assert rig.preview() == {"same": 2, "update": 1}
    hosts.report(2, {"phase": "READY"})
    rig.up()

    assert live(rig) == [SECOND]
    assert rig.preview() == {"same": 3}
    assert len(rig.calls("POST", "queuedResources")) == 2


def test_another_successor_takes_the_place_of_one_that_failed(rig: Rig, hosts: Hosts) -> None:
    """With another word at `rerun` the one that never served goes first, for its quota; what serves
    stays until the next one does."""
    rig.up()
    hosts.report(2, ERROR)
    renew(rig, "again")
    with pytest.raises(CommandError, match="no manifest"):
        rig.up()
    hosts.report(3, {"phase": "weights"})
    renew(rig, "once more")

    running = rig.background(rig.up)
    until(lambda: live(rig) == [FIRST, THIRD])
    until(lambda: "its host boots, weights" in "".join(rig.ephemeral))
    assert [call["path"].rpartition("/")[2] for call in rig.calls("DELETE")] == [
        SECOND.rpartition("/")[2]
    ]
    hosts.report(3, {"phase": "READY"})
    running.result(60)

    assert live(rig) == [THIRD]
    assert rig.preview() == {"same": 3}


def test_going_on_after_errors_deletes_nothing_that_serves(rig: Rig, hosts: Hosts) -> None:
    """With --continue-on-error the engine deletes what is replaced all the same: what serves is
    kept."""
    rig.up()
    hosts.report(2, ERROR)
    renew(rig, "again")

    with pytest.raises(CommandError):
        rig.stack.up(continue_on_error=True, on_event=rig.hear)

    assert live(rig) == [FIRST, SECOND]
    hosts.report(2, {"phase": "READY"})
    rig.up()
    assert live(rig) == [SECOND]


def test_an_up_calls_off_the_drain_of_a_destroy_that_was_stopped(rig: Rig, hosts: Hosts) -> None:
    """What stays is not to drain: the next `up` takes the key away again."""
    rig.up()
    hosts.serving(1, "serving", running=1)
    running = rig.background(rig.destroy)
    until(lambda: patched(rig))
    rig.engine().send_signal(2)
    with pytest.raises(CommandError):
        running.result(60)
    assert live(rig) == [FIRST]

    assert rig.preview() == {"same": 2, "update": 1}
    rig.up()

    node = rig.call("GET", FIRST.replace("queuedResources", "nodes"))
    assert node["metadata"] == {"startup-script": "exit 0", "tpuflex-config": "{}"}
    assert rig.preview() == {"same": 3}
    assert command(rig, "refresh", "--expect-no-changes")


def test_a_successor_whose_boot_failed_is_deleted_on_request(rig: Rig, hosts: Hosts) -> None:
    """With onBootFailure delete it is not kept, nor billed: the state holds what serves, as before,
    and the next `up` asks for another one."""
    rig.args["on_boot_failure"] = "delete"
    rig.up()
    hosts.report(2, ERROR)
    renew(rig, "again")

    with pytest.raises(CommandError, match="It was deleted, as onBootFailure says"):
        rig.up()

    assert live(rig) == [FIRST]
    assert outputs(rig)["name"] == FIRST
    assert rig.preview() == {"same": 2, "replace": 1}
    hosts.report(2, {"phase": "READY"})
    rig.up()
    assert live(rig) == [SECOND]


def test_deleting_first_hands_nothing_over(rig: Rig, hosts: Hosts) -> None:
    """Where quota is for one only and the program says so, what serves is drained and gone before
    capacity is asked for again, which nobody waits to serve; the preview has said so."""
    rig.args["replace"] = "delete_first"
    rig.up()
    hosts.serving(1, "serving", drained=True)
    renew(rig, "again")
    rig.preview()
    assert "nothing serves until that is granted" in "".join(rig.lines)

    rig.up()

    assert live(rig) == [SECOND]
    done = [call for call in rig.calls("POST") + rig.calls("DELETE") if call["status"] == 200]
    done.sort(key=lambda call: int(call["seq"]))
    assert [call["method"] for call in done] == ["POST", "DELETE", "POST"]
    assert rig.preview() == {"same": 3}


@pytest.mark.usefixtures("hosts")
def test_quota_for_one_only_names_the_way_out(rig: Rig) -> None:
    """Refused for quota while another slice serves, the error says that both need it, and what to
    write so that one is enough; what serves is not touched."""
    rig.up()
    rig.capacity(quota={A: 4})
    renew(rig, "again")

    with pytest.raises(CommandError, match=r"tpuflex:slice\.replace in a stack file"):
        rig.up()

    assert live(rig) == [FIRST]
