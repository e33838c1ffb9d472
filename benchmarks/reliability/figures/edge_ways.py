"""How each edge of the state machine is taken: its starting point and its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reliability.edge_rig import FOR_EVER
from reliability.figures import edge_steps as at
from reliability.figures.edge_steps import Step
from tpuflex.request.edges import UNKNOWN_STATE


@dataclass(frozen=True, slots=True)
class Way:
    """One way along an edge.

    Attributes:
        start: brings the rig to where the edge begins.
        step: takes the edge.
    """

    start: Step
    step: Step


_NODE_WORDS = (
    *("PREEMPTED", "TERMINATED", "DELETING", "HIDING", "HIDDEN"),
    *("RESTARTING", "REIMAGING", "REPAIRING", "UNHIDING", "UNKNOWN", UNKNOWN_STATE),
)

#: Every way, by the name of the edge that it takes.
WAYS: Mapping[str, Way] = {
    "requested": Way(at.nothing, at.ask),
    "found valid": Way(at.creating, at.admit),
    "found valid, by the old name": Way(at.creating, at.admit_by_old_name),
    "rejected by its operation": Way(at.unsupported, at.pass_on),
    "found wrong late": Way(at.creating, at.find_wrong),
    "not granted while valid": Way(at.bounded, lambda rig: rig.pass_time(8000, never=True)),
    "not granted while valid, by the old name": Way(at.accepted, at.expire),
    "granted": Way(at.waiting, at.grant),
    "granted, by the old name": Way(at.accepted, at.grant),
    "hosts made": Way(at.provisioning, at.restart),
    "provisioning fails": Way(at.provisioning, at.fail_provisioning),
    "provisioning failed": Way(at.failing, at.settle),
    "a word of tomorrow while it waits": Way(
        at.waiting, at.covered("queuedResources", UNKNOWN_STATE)
    ),
    "run over": Way(at.active, lambda rig: rig.pass_time(at.RUN_S, suspending_s=FOR_EVER)),
    "run over and hosts gone": Way(at.over, at.settle),
    "preempted": Way(at.active, at.preempt),
    "preempted and hosts gone": Way(at.preempted, at.settle),
    "node deleted by its user": Way(at.active, at.delete_node),
    "node deleted by its user and gone": Way(at.robbed, at.settle),
    "reset": Way(at.active, at.reset),
    "node gone, queued resource not told": Way(at.active, lambda rig: rig.forget_node()),
    **{f"node {word}": Way(at.active, at.covered("nodes", word)) for word in _NODE_WORDS},
    "node repaired": Way(at.repairing, at.uncover),
    "node being stopped": Way(at.active, at.stop),
    "node stopped": Way(at.stopping, at.pass_on),
    "node being started": Way(at.stopped, at.start),
    "node started": Way(at.starting, at.restart),
    "host boots": Way(at.active, at.reports("weights")),
    "boot fails": Way(at.active, at.reports("weights", error="weights: the bucket is empty")),
    "server is started again": Way(at.active, at.says("degraded", reason="no token for 60 s")),
    "server serves again": Way(at.degraded, at.says("serving", restarts=1)),
    "server fails": Way(at.degraded, at.says("failed", reason="no token for 60 s again")),
    "host drains before the run ends": Way(at.active, at.says("draining", running=1)),
    "host drains for a deletion": Way(at.active, at.drain),
    "drain called off": Way(at.draining, at.keep),
    "replaced by one that serves": Way(at.active, at.replace),
    "replaced by one that boots": Way(at.active, at.begin_to_replace),
    "replaced by one that does not serve": Way(at.replacing, at.reports("image", error="gone")),
    "withdrawn by somebody": Way(at.waiting, at.delete),
    "withdrawn, by the old name": Way(at.accepted, at.delete),
    "deleted with its hosts": Way(at.active, at.delete),
    "leftover of a run deleted": Way(at.suspended, at.delete),
    "leftover of a failure deleted": Way(at.failed, at.delete),
    "stuck in DELETING": Way(at.deleting, at.nothing_happens),
    "deleted and gone": Way(at.deleting, at.pass_on),
    "queued resource gone, node not": Way(at.active, lambda rig: rig.forget_request()),
    "orphan being deleted": Way(at.orphaned, at.delete_node),
    "orphan deleted while CREATING": Way(at.orphan_made, at.delete_node),
    "orphan deleted while STOPPING": Way(at.orphan_stopping, at.delete_node),
    "orphan deleted while STOPPED": Way(at.orphan_stopped, at.delete_node),
    "orphan deleted while STARTING": Way(at.orphan_starting, at.delete_node),
    "orphan gone": Way(at.orphan_deleting, at.pass_on),
    "orphan being made": Way(at.gone, at.make_node),
    "orphan made": Way(at.orphan_made, at.pass_on),
    "orphan being stopped": Way(at.orphaned, at.stop),
    "orphan stopped": Way(at.orphan_stopping, at.pass_on),
    "orphan being started": Way(at.orphan_stopped, at.start),
    "orphan started": Way(at.orphan_starting, at.pass_on),
    "name taken by somebody else": Way(at.gone, at.take_name),
    "node's name taken": Way(at.gone, at.take_node_name),
}
