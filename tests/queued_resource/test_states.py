"""The table of states, row by row."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tpuflex.queued_resource.causes import Cause, classify, no_quota, remedy, short_reason
from tpuflex.queued_resource.states import Lifecycle, describe, is_settled, lifecycle


@pytest.mark.parametrize(
    ("queued", "node", "expected"),
    [
        ("CREATING", None, Lifecycle.WAITING),
        ("ACCEPTED", None, Lifecycle.WAITING),
        ("WAITING_FOR_RESOURCES", None, Lifecycle.WAITING),
        ("SOMETHING_NEW", None, Lifecycle.WAITING),
        ("STATE_UNSPECIFIED", None, Lifecycle.WAITING),
        ("PROVISIONING", "CREATING", Lifecycle.PROVISIONING),
        ("ACTIVE", "CREATING", Lifecycle.PROVISIONING),
        ("ACTIVE", "STARTING", Lifecycle.PROVISIONING),
        ("ACTIVE", "READY", Lifecycle.ACTIVE),
        ("ACTIVE", "REPAIRING", Lifecycle.ACTIVE),
        ("ACTIVE", "RESTARTING", Lifecycle.ACTIVE),
        ("ACTIVE", "STOPPED", Lifecycle.LOST),
        ("ACTIVE", "STOPPING", Lifecycle.LOST),
        ("ACTIVE", "SOMETHING_NEW", Lifecycle.ACTIVE),
        ("ACTIVE", None, Lifecycle.LOST),
        ("ACTIVE", "PREEMPTED", Lifecycle.LOST),
        ("ACTIVE", "TERMINATED", Lifecycle.LOST),
        ("ACTIVE", "DELETING", Lifecycle.LOST),
        ("SUSPENDING", "DELETING", Lifecycle.ENDED),
        ("SUSPENDED", None, Lifecycle.ENDED),
        ("FAILED", None, Lifecycle.FAILED),
        ("FAILED", "READY", Lifecycle.FAILED),
        ("DELETING", "READY", Lifecycle.DELETING),
        (None, None, Lifecycle.LOST),
        (None, "READY", Lifecycle.LOST),
    ],
)
def test_every_pair_of_states_has_one_meaning(
    queued: str | None, node: str | None, expected: Lifecycle
) -> None:
    """Google's two state words together have one meaning of ours."""
    assert lifecycle(queued, node) is expected


def test_hosts_that_go_too_early_are_waited_for() -> None:
    """SUSPENDING before any run can be over is not the end of a run: what it is shows later. Only
    the node's deletion by its user is recognised at once."""
    assert lifecycle("SUSPENDING", "DELETING", too_early=True) is Lifecycle.PROVISIONING
    assert lifecycle("SUSPENDING", None, too_early=True, cut_short=True) is Lifecycle.LOST
    assert lifecycle("SUSPENDED", None, too_early=True) is Lifecycle.ENDED
    assert lifecycle("ACTIVE", "READY", too_early=True) is Lifecycle.ACTIVE


def test_every_state_of_the_discovery_document_is_described() -> None:
    """Every state that Google documents is known."""
    spec = find_spec("googleapiclient")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "discovery_cache" / "documents"
    schemas = json.loads((folder / "tpu.v2alpha1.json").read_text())["schemas"]
    states = schemas["QueuedResourceState"]["properties"]["state"]["enum"]

    unknown = [state for state in states if "does not know" in describe(state)]

    assert unknown == ["STATE_UNSPECIFIED"]


def test_settled_states_are_those_without_a_way_to_active() -> None:
    """SUSPENDING is not settled: its outcome, with the cause, is still to come."""
    assert [s for s in ("SUSPENDING", "SUSPENDED", "FAILED", "DELETING") if is_settled(s)] == [
        "SUSPENDED",
        "FAILED",
        "DELETING",
    ]


@pytest.mark.parametrize(
    ("code", "message", "cause"),
    [
        (8, "There is no more capacity in the zone us-east5-a", Cause.STOCKOUT),
        (8, "GCE_STOCKOUT", Cause.STOCKOUT),
        (8, "ZONE_RESOURCE_POOL_EXHAUSTED", Cause.STOCKOUT),
        (8, "Quota 'TPUV6EPerProjectPerZoneForTPUAPI' exhausted. Limit 64", Cause.QUOTA),
        (13, "You have reached IN_USE_ADDRESSES limit", Cause.QUOTA),
        (3, "FLEX_START provisioning model is not supported for accelerator", Cause.UNSUPPORTED),
        (3, "accelerator v9-1 not found in zone", Cause.UNSUPPORTED),
        (7, "Permission 'tpu.nodes.create' denied", Cause.PERMISSION),
        (7, "Cloud TPU API has not been used in project 1 before", Cause.PERMISSION),
        (9, "This API method requires billing to be enabled.", Cause.BILLING),
        (7, "Billing account for project '1' is not found.", Cause.BILLING),
        (13, "an internal error has occurred", Cause.INTERNAL),
        (13, "", Cause.INTERNAL),
        (8, "", Cause.STOCKOUT),
    ],
)
def test_causes_are_told_apart(code: int, message: str, cause: Cause) -> None:
    """Each error text seen in the field has the cause by which it can be acted on."""
    assert classify(code, message) is cause
    assert remedy(cause)


@pytest.mark.parametrize(
    ("limit", "said", "none_at_all"),
    [("Limit 64 in zone z", "leftovers", False), ("Limit 0 in zone z", "another zone", True)],
)
def test_a_quota_of_nothing_is_not_one_that_is_used_up(
    limit: str, said: str, none_at_all: bool
) -> None:
    """Leftovers are named where deleting them helps, and only there."""
    message = f"Quota 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' exhausted. {limit}"
    assert classify(8, message) is Cause.QUOTA
    assert no_quota(message) is none_at_all
    assert short_reason(8, message) == ("no quota" if none_at_all else "quota 0 of 64")
    assert said in remedy(Cause.QUOTA, message)
    assert ("delete leftovers" in remedy(Cause.QUOTA, message)) is not none_at_all
