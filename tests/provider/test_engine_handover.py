"""A hand-over under the real engine: what serves is deleted once what takes over serves."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from pulumi import automation
from pulumi.automation.errors import CommandError

from embedded_cloud.faults.rule import parse_rule
from embedded_cloud.hosts.guest_attributes import GuestAttributes
from tests.provider.deployment import TYPE, A, Rig, command, live, name, outputs, until
from tpuflex.engine.state import doubles

pytestmark = [
    pytest.mark.engine,
    pytest.mark.usefixtures("served"),
    # Pulumi's SDK abandons the event loop of an inline program whose engine failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
Json = dict[str, Any]
FIRST, SECOND, THIRD = (name(A, generation) for generation in (1, 2, 3))
ERROR = {"phase": "weights", "error": "weights: the bucket has no manifest"}


class Hosts:
    """What hosts report, by the generation of their slice."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, str]] = {}

    def report(self, generation: int, report: dict[str, str]) -> None:
        """Have the host of ``generation`` report that."""
        self._say(generation, "report", report)

    def serving(self, generation: int, phase: str, **more: Any) -> None:
        """Have it say that of serving."""
        self._say(generation, "serving", {"phase": phase, **more})

    def query(self, owner: str) -> list[tuple[str, str, str]]:
        """The guest attributes of ``owner``."""
        return [("tpuflex", key, text) for key, text in self._said.get(owner, {}).items()]

    def _say(self, generation: int, key: str, value: dict[str, Any]) -> None:
        owner = name(A, generation).replace("queuedResources", "nodes")
        self._said.setdefault(owner, {})[key] = json.dumps(value)


@pytest.fixture
def hosts(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Hosts that report what the test says, of slices that boot with our script; the first is
    READY."""
    rig.args["metadata"] = {"startup-script": "exit 0", "tpuflex-config": "{}"}
    made = Hosts()
    monkeypatch.setattr(GuestAttributes, "query", lambda _self, owner, *_: made.query(owner))
    made.report(1, {"phase": "READY"})
    return made


def renew(rig: Rig, word: str) -> None:
    """Ask for a new run."""
    rig.args["rerun"] = word


def patched(rig: Rig) -> list[str]:
    """The ids of the nodes that were patched."""
    return [call["path"].rpartition("/")[2] for call in rig.calls("PATCH", "nodes")]


def settle(rig: Rig) -> None:
    """As `tpuflex recover` does."""
    exported = rig.stack.export_stack()
    deployment = dict(exported.deployment or {})
    (double,) = doubles(deployment)
    deployment["resources"].remove(double)
    rig.stack.import_stack(automation.Deployment(exported.version, deployment))


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


def test_down_takes_both(rig: Rig, hosts: Hosts) -> None:
    """A successor that does not serve, and what serves, are both gone after a destroy."""
    rig.up()
    hosts.report(2, ERROR)
    renew(rig, "again")
    with pytest.raises(CommandError):
        rig.up()

    rig.destroy()

    assert rig.tpu() == {}


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


def test_a_first_up_does_not_wait(rig: Rig, hosts: Hosts) -> None:
    """Where nothing serves yet, creation ends when the hosts run, and so does the replacement of
    what never served."""
    hosts.report(1, {"phase": "weights"})
    rig.up()
    renew(rig, "again")

    rig.up()

    assert live(rig) == [SECOND]


def test_a_slow_successor_is_waited_for_again(rig: Rig, hosts: Hosts) -> None:
    """After `readyTimeout` it is kept, and the next `up` waits again."""
    rig.args["ready_timeout"] = "2s"
    rig.up()
    hosts.report(2, {"phase": "health", "detail": "the server is starting"})
    renew(rig, "again")

    with pytest.raises(CommandError, match="still in phase health"):
        rig.up()

    assert live(rig) == [FIRST, SECOND]
    hosts.report(2, {"phase": "READY"})
    rig.up()
    assert live(rig) == [SECOND]


def test_what_serves_is_drained_before_it_goes(rig: Rig, hosts: Hosts) -> None:
    """A destroy asks the host to drain, and deletes once it has."""
    rig.up()
    hosts.serving(1, "serving", running=1)

    running = rig.background(rig.destroy)
    until(lambda: patched(rig))
    hosts.serving(1, "draining", running=1)
    until(lambda: "1 request running" in "".join(rig.ephemeral))
    assert not rig.calls("DELETE")
    hosts.serving(1, "draining", drained=True)
    running.result(60)

    assert rig.tpu() == {}
    assert "drained after" in "".join(rig.lines)


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


def half(rig: Rig, hosts: Hosts) -> None:
    """Have the first slice serve, and its successor not come to."""
    rig.up()
    hosts.report(2, ERROR)
    renew(rig, "again")
    with pytest.raises(CommandError):
        rig.up()
    assert live(rig) == [FIRST, SECOND]
    rig.ephemeral.clear()


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
    """The next `up` finds it and goes on with it, and does not delete what it goes on with: not in
    that run, and not in the next. After a `recover` all is well."""
    half(rig, hosts)
    deleted_by_hand(rig, SECOND)
    forget_living(rig)

    for _ in range(2):
        with pytest.raises(CommandError, match="`tpuflex recover`"):
            rig.up()
        assert live(rig) == [FIRST]

    settle(rig)
    rig.up()
    assert live(rig) == [FIRST]
    rig.destroy()
    assert rig.tpu() == {}


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
    denied: Json = {
        "kind": "answer",
        "status": 403,
        "message": "denied",
        "code": "PERMISSION_DENIED",
    }
    where: Json = {"method": "DELETE", "path": "slice-g1"}
    rig.cloud.cloud.faults.book.add(parse_rule({"where": where, "times": 0, "effect": denied}))
    with pytest.raises(CommandError, match="denied"):
        rig.up()
    rig.cloud.cloud.faults.forget()
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
