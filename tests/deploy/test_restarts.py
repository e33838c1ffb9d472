"""`tpuflex restart` and `reboot`, over the answers of the TPU API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.cli.typing import NOON
from tests.operate.test_slice_status import NAMES, PARENT, Tpu, node, request
from tpuflex.deploy.restarts import reboot, restart
from tpuflex.errors import (
    BootError,
    CapacityError,
    ConflictError,
    InterruptedByUser,
    WeightsError,
)
from tpuflex.google.timing import Timing
from tpuflex.queued_resource.model import Operation
from tpuflex.queued_resource.name import RequestName
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import Question, agree
from tpuflex.stack.stack import Stack
from tpuflex.weights.stack_weights import StackWeights

_ID = NAMES.queued_resource_id()
_NODE = f"{PARENT}/nodes/{_ID}"
_AT = NOON.timestamp()


def booted(at: float, phase: str = "READY", **more: str) -> dict[str, str]:
    """A boot that began at a second of this test, and took 30 s without its weights."""
    names = ("config", "fetch", "container", "READY")
    times = zip(names, (at, at + 5, at + 65, at + 90), strict=True)
    return {"phase": phase, "timeline": json.dumps(dict(times)), **more}


def serving(phase: str = "serving", **more: object) -> str:
    return json.dumps({"phase": phase, "since": _AT, "at": _AT, **more})


class Host(Tpu):
    """A slice whose host says the one after the other of what it was given, for a poll each, once
    it was asked for something; the last for good."""

    def __init__(self, *then: tuple[dict[str, str], str], state: str = "ACTIVE") -> None:
        nodes = {_NODE: node(metadata={"ssh-keys": "me"})} if state == "ACTIVE" else {}
        super().__init__([request(state, _ID)], nodes)
        self.first = (booted(_AT - 900), serving(running=2))
        self.then = [*then]
        self.now = 0.0
        self.patched: list[Mapping[str, str]] = []
        self.reset: list[RequestName] = []

    def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
        assert (node, namespace) == (_NODE, "tpuflex")
        found = self.first
        if (self.patched or self.reset) and self.then:
            found = self.then[0]
            if len(self.then) > 1:
                del self.then[0]
        report, said = found
        return ({"report": json.dumps(report), **({"serving": said} if said else {})},)

    def patch_node(self, node: str, body: Mapping[str, Any], *, mask: list[str]) -> Operation:
        assert (node, mask) == (_NODE, ["metadata"])
        self.patched.append(body["metadata"])
        return Operation()

    def reset_queued_resource(self, name: RequestName) -> Operation:
        self.reset.append(name)
        return Operation(name="op", done=False)

    def get_operation(self, name: str) -> Operation:
        return Operation(name=name, done=True)

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        return False


def reached(stack: Stack, host: Host) -> Connection:
    """The cloud of ``stack``, in which ``host`` is its slice."""
    cloud = Connection(stack, {}, now=lambda: NOON)
    vars(cloud)["tpu"] = host
    vars(cloud)["timing"] = Timing(lambda: host.now, lambda: _AT, host.pause, lambda: 0.5)
    return cloud


_DRAINS = (booted(_AT - 900), serving("draining", running=1))
_AGAIN = (booted(_AT + 30, "health"), "")
_SERVES = (booted(_AT + 30), serving())


def test_a_restart_is_told_before_and_ends_when_a_completion_was_served(stack: Stack) -> None:
    """Before the question it is said what happens and for how long; then the drain is shown. READY
    of the boot before does not end it."""
    host, told, asked = Host(_DRAINS, _AGAIN, _SERVES), list[str](), list[str]()

    def consent(question: Question) -> bool:
        asked.extend(told)
        return not host.patched and question.text == "Go ahead?"

    found = restart(reached(stack, host), lambda told_: told.append(str(told_)), consent=consent)

    text = "\n".join(asked)
    assert "once 2 requests have ended, in 10 min at most" in text
    assert "about 30 s, as in its last boot" in text
    assert "  host     takes nothing new: 1 request running" in told
    (metadata,) = host.patched
    assert metadata["ssh-keys"] == "me"
    assert metadata["tpuflex-restart"].endswith(" 600")
    assert found.slice.host is not None
    assert found.slice.host.began == _AT + 30
    assert found.seconds == host.now


def test_now_gives_requests_in_flight_no_time(stack: Stack) -> None:
    """With --now they are cut off at once, and how many these are is said."""
    host, told = Host(_AGAIN, _SERVES), list[str]()
    cloud = reached(stack, host)
    restart(cloud, lambda told_: told.append(str(told_)), consent=agree, drains=False)
    assert host.patched[0]["tpuflex-restart"].endswith(" 0")
    assert "2 requests in flight cut off" in "\n".join(told)


def test_a_host_that_does_not_react_is_not_asked_any_more(stack: Stack) -> None:
    """Where the watch is older, or hangs, the metadata key is taken back; what helps is named."""
    host = Host((booted(_AT - 900), serving()))
    with pytest.raises(BootError, match="does not react, 2 min after it was asked") as caught:
        restart(reached(stack, host), consent=agree)
    assert "tpuflex reboot" in str(caught.value.hint)
    assert "tpuflex up --new-host" in str(caught.value.hint)
    assert host.patched[-1] == {"ssh-keys": "me"}


def test_a_restart_that_is_stopped_while_requests_end_is_called_off(stack: Stack) -> None:
    """Ctrl-C before the server was stopped changes nothing."""
    host = Host(_DRAINS)

    def told(line: object) -> None:
        if "takes nothing new" in str(line):
            raise KeyboardInterrupt

    with pytest.raises(InterruptedByUser, match="called off"):
        restart(reached(stack, host), told, consent=agree)
    assert host.patched[-1] == {"ssh-keys": "me"}


def _says(report: dict[str, str], said: str = "") -> Callable[[], Host]:
    def make() -> Host:
        host = Host()
        host.first = (report, said)
        return host

    return make


@pytest.mark.parametrize(
    ("made", "kind", "message", "hint"),
    [
        (lambda: Host(state="WAITING_FOR_RESOURCES"), CapacityError, "WAITING", "keeps waiting"),
        (lambda: Host(state="SUSPENDED"), BootError, "SUSPENDED", "tpuflex up"),
        (_says(booted(_AT, "health")), ConflictError, "boots", "`tpuflex up` waits"),
        (
            _says(booted(_AT, "weights", error="weights-404: none")),
            *(ConflictError, "its boot has failed", "tpuflex reboot"),
        ),
        (_says(booted(_AT)), ConflictError, "or not yet", "only just become READY"),
        (
            _says(booted(_AT), serving("draining", reason="the run ends")),
            *(ConflictError, "drains: the run ends", "tpuflex:slice.renew_before"),
        ),
        (
            _says(booted(_AT), json.dumps({"phase": "serving", "at": _AT - 3600})),
            *(ConflictError, "has said nothing for 1 h", "tpuflex reboot"),
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_helps(
    stack: Stack, made: Callable[[], Host], kind: type[Exception], message: str, hint: str
) -> None:
    """Each is refused before a question, and before anything is asked of the host."""
    host = made()
    with pytest.raises(kind, match=message) as caught:
        restart(reached(stack, host), consent=lambda _: pytest.fail("asked"))
    assert hint in str(getattr(caught.value, "hint", ""))
    assert host.patched == []


def test_a_reboot_ends_when_the_next_boot_has_served(stack: Stack) -> None:
    """What the boot before has said does not count, not even its error; a host whose watch says
    nothing can be rebooted, too."""
    host = Host((booted(_AT - 900), serving()), _AGAIN, _SERVES)
    host.first = (booted(_AT - 900, "health", error="container-died: it died"), "")
    found = reboot(reached(stack, host), consent=agree)
    assert [str(name) for name in host.reset] == [f"{PARENT}/queuedResources/{_ID}"]
    assert found.slice.host is not None
    assert found.slice.host.began == _AT + 30


def test_a_machine_whose_weights_are_gone_is_not_rebooted(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its boot would wait for them, and what serves would be gone: nothing is asked or reset."""
    monkeypatch.setattr(StackWeights, "found", None)
    host = Host((booted(_AT - 900), serving()))
    with pytest.raises(WeightsError, match="holds no weights"):
        reboot(reached(stack, host), consent=lambda _: pytest.fail("asked"))
    assert host.reset == []


def test_a_slice_without_a_machine_is_not_rebooted(stack: Stack) -> None:
    """A run that is over is refused with what starts the next one; one that waits, as `up` does."""
    for state, kind in (("SUSPENDED", BootError), ("WAITING_FOR_RESOURCES", CapacityError)):
        host = Host(state=state)
        with pytest.raises(kind, match=state):
            reboot(reached(stack, host), consent=lambda _: pytest.fail("asked"))
        assert host.reset == []
