"""Starting points and steps for the edges of the state machine, on an :class:`EdgeRig`.

Most ways begin with an `up`, after which the cloud is steered; Pulumi's state knows only what
that `up` saw.
"""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.tpu.records import Initiator, QueuedState
from reliability.edge_rig import FOR_EVER, NAMES, EdgeRig
from reliability.figures.figure import TPU, Call
from reliability.figures.kills import kill
from reliability.servicer_rig import ZONE
from tpuflex.host.report import READY

Step = Callable[[EdgeRig], None]

#: No state changes while it is observed.
STILL = {
    "admission_s": FOR_EVER,
    "never": True,
    "provisioning_s": FOR_EVER,
    "suspending_s": FOR_EVER,
    "deleting_s": FOR_EVER,
}
GUEST = f"{TPU}nodes.getGuestAttributes"
_SERVICE = Initiator.SERVICE
#: The length of a run, and a moment more.
RUN_S = 14_410.0


# -- where edges begin -------------------------------------------------------------------------


def nothing(rig: EdgeRig) -> None:
    """An empty cloud and no state."""
    rig.reset(0)


def _asked(rig: EdgeRig, **rule: object) -> None:
    """Run an `up` that gives up waiting under this rule."""
    nothing(rig)
    rig.direct.capacity(**rule)
    rig.run("up")


def creating(rig: EdgeRig) -> None:
    _asked(rig, admission_s=FOR_EVER)


def waiting(rig: EdgeRig) -> None:
    _asked(rig, never=True)


def bounded(rig: EdgeRig) -> None:
    """A waiting request that is valid for two hours."""
    nothing(rig)
    assert rig.arguments is not None
    rig.arguments["validUntilDuration"] = "7200s"
    rig.direct.capacity(never=True)
    rig.run("up")


def accepted(rig: EdgeRig) -> None:
    waiting(rig)
    rig.cover("queuedResources", "ACCEPTED")


def provisioning(rig: EdgeRig) -> None:
    _asked(rig, provisioning_s=FOR_EVER)


def active(rig: EdgeRig) -> None:
    _asked(rig)
    rig.serve()


# -- what happens ------------------------------------------------------------------------------


def pass_on(rig: EdgeRig) -> None:
    """Let a moment pass in which everything proceeds."""
    rig.pass_time(10)


def settle(rig: EdgeRig) -> None:
    rig.pass_time(10, suspending_s=0)


def ask(rig: EdgeRig) -> None:
    _asked(rig, admission_s=FOR_EVER)


def admit(rig: EdgeRig) -> None:
    rig.pass_time(10, never=True)


def admit_by_old_name(rig: EdgeRig) -> None:
    admit(rig)
    rig.cover("queuedResources", "ACCEPTED")


def find_wrong(rig: EdgeRig) -> None:
    error = ("INVALID_ARGUMENT", "The accelerator is not supported in this network.")
    rig.put(QueuedState.FAILED, _SERVICE, error=error)


def expire(rig: EdgeRig) -> None:
    error = ("DEADLINE_EXCEEDED", "The request was not fulfilled while it was valid.")
    rig.put(QueuedState.FAILED, _SERVICE, error=error)


def grant(rig: EdgeRig) -> None:
    rig.pass_time(10, provisioning_s=FOR_EVER)


def fail_provisioning(rig: EdgeRig) -> None:
    failure = {"code": "INTERNAL", "message": "the service took the capacity back"}
    # So that it ends now, not counted from when it was granted.
    lasted = rig.direct.clock.now() - rig.there().since
    rig.pass_time(10, failure=failure, provisioning_s=lasted + 5, suspending_s=FOR_EVER)


def preempt(rig: EdgeRig) -> None:
    rig.direct.capacity(**STILL)
    rig.put(QueuedState.SUSPENDING, _SERVICE)


def delete(rig: EdgeRig) -> None:
    rig.direct.capacity(**STILL)
    rig.by_api(lambda client, name: client.delete_queued_resource(name, request_id="theirs"))


def delete_node(rig: EdgeRig) -> None:
    rig.direct.capacity(**STILL)
    rig.by_api(lambda client, name: client.delete_node(name.node(name.id)))


def stop(rig: EdgeRig) -> None:
    rig.direct.capacity(**STILL)
    rig.on_node("stop")


def start(rig: EdgeRig) -> None:
    rig.direct.capacity(**STILL)
    rig.on_node("start")


def restart(rig: EdgeRig) -> None:
    rig.pass_time(10)
    rig.serve()


def reset(rig: EdgeRig) -> None:
    rig.direct.capacity(**STILL)
    rig.on_request("reset")


def make_node(rig: EdgeRig) -> None:
    rig.direct.capacity(**{**STILL, "never": False})
    rig.make_node(NAMES.labels())


def take_node_name(rig: EdgeRig) -> None:
    rig.make_node({})
    rig.pass_time(10)


def take_name(rig: EdgeRig) -> None:
    rig.take_name()
    rig.pass_time(10)


def covered(kind: str, state: str) -> Step:
    """The same state under another name."""

    def cover(rig: EdgeRig) -> None:
        rig.direct.capacity(**STILL)
        rig.cover(kind, state)

    return cover


def uncover(rig: EdgeRig) -> None:
    rig.masks.clear()


def nothing_happens(rig: EdgeRig) -> None:
    """The state does not change."""
    rig.pass_time(10, **STILL)


def unsupported(rig: EdgeRig) -> None:
    """A request that waits for admission and will be rejected."""
    _asked(rig, admission_s=FOR_EVER, unsupported_zones=[ZONE])


# -- what its host reports -----------------------------------------------------------------------


def reports(phase: str, **more: object) -> Step:
    """Its host says that its boot is in this phase."""
    return lambda rig: rig.report({"phase": phase, **more})


def says(phase: str, **more: object) -> Step:
    """Its host, which was READY, says this of serving."""
    return lambda rig: rig.report({"phase": READY}, {"phase": phase, **more})


def drain(rig: EdgeRig) -> None:
    """A `down` is stopped once it has asked the host to drain."""
    rig.run("down", rules=[kill("cli", "after-response", Call(GUEST, 2), "INT")])


def keep(rig: EdgeRig) -> None:
    rig.run("up")


def replace(rig: EdgeRig) -> None:
    """Another slice takes its place."""
    _again(rig)
    rig.run("up")


def begin_to_replace(rig: EdgeRig) -> None:
    """An `up` is stopped while the host of what takes its place boots."""
    _again(rig)
    # The first two are asked whether what is replaced serves.
    rig.run("up", rules=[kill("cli", "after-response", Call(GUEST, 3), "INT")])


def _again(rig: EdgeRig) -> None:
    assert rig.arguments is not None
    rig.direct.capacity()
    rig.arguments["rerun"] = "again"


# -- where edges begin, in several steps ---------------------------------------------------------


def run_out(rig: EdgeRig) -> None:
    rig.pass_time(RUN_S, suspending_s=FOR_EVER)


def _in_turn(*steps: Step) -> Step:
    def take(rig: EdgeRig) -> None:
        for step in steps:
            step(rig)

    return take


#: Pulumi's state has an ACTIVE request that somebody has deleted.
gone = _in_turn(active, delete, pass_on)
failing = _in_turn(provisioning, fail_provisioning)
failed = _in_turn(failing, settle)
over = _in_turn(active, run_out)
suspended = _in_turn(over, settle)
preempted = _in_turn(active, preempt)
robbed = _in_turn(active, delete_node)
deleting = _in_turn(active, delete)
repairing = _in_turn(active, lambda rig: rig.cover("nodes", "REPAIRING"))
stopping = _in_turn(active, stop)
stopped = _in_turn(stopping, pass_on)
starting = _in_turn(stopped, start)
degraded = _in_turn(active, says("degraded"))
draining = _in_turn(active, drain)
replacing = _in_turn(active, begin_to_replace)
orphaned = _in_turn(active, EdgeRig.forget_request)
orphan_stopping = _in_turn(orphaned, stop)
orphan_stopped = _in_turn(orphan_stopping, pass_on)
orphan_starting = _in_turn(orphan_stopped, start)
orphan_made = _in_turn(gone, make_node)
orphan_deleting = _in_turn(orphaned, delete_node)
