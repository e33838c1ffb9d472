"""What a program may say: defaults and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from pulumi_plugin.values import UNKNOWN, Properties
from tests.request.inputs import DISK, NOW, OTHER, RESERVATION, URN, changed, filled, given
from tpuflex.naming import LABEL_OWNER, LABEL_SPEC, Names
from tpuflex.request.check import failures, with_defaults
from tpuflex.request.rows import moment


@hypothesis_given(
    st.dictionaries(
        st.text(min_size=1, max_size=12),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
            max_leaves=6,
        ),
    )
)
def test_any_input_is_accepted_or_refused_by_name(given_inputs: dict[str, Any]) -> None:
    """Whatever a program sends, the answer is a list of named findings, never an accident."""
    inputs = with_defaults(given_inputs, urn=URN, project=None)

    for path, reason in failures(inputs):
        assert path
        assert reason


def test_defaults_are_deterministic_and_ours() -> None:
    """Id and owner labels are made of project, stack and logical name; given ones stay."""
    minimal: Properties = given(queuedResourceId=None, labels=None)
    names = Names(project="shop", stack="dev", name="slice")

    made = with_defaults({**minimal, "labels": {"team": "x"}}, urn=URN, project="p")

    assert made["queuedResourceId"] == names.queued_resource_id()
    assert made["labels"] == {"team": "x", **names.labels()}
    assert made["project"] == "cloud-project"
    assert made == with_defaults({**minimal, "labels": {"team": "x"}}, urn=URN, project="p")
    assert filled()["labels"] == given()["labels"]


@pytest.mark.parametrize("said", [None, True, False])
@pytest.mark.parametrize("before", [{}, {"secureBoot": True}, {"secureBoot": False}])
def test_a_request_keeps_its_secure_boot_unless_told(said: bool | None, before: Properties) -> None:
    """M1: off by default; what an older version made with it on is no reason for new hosts."""
    made = with_defaults(given(secureBoot=said), urn=URN, project=None, before=before)

    assert made["secureBoot"] is (before.get("secureBoot", False) if said is None else said)


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"zones": ["us-east5-a", "us-east5-a"]}, "zones", "named twice"),
        ({"zones": []}, "zones", "Write zones"),
        ({"zones": ["nowhere"]}, "zones[0]", "Write zones"),
        (
            {
                "zones": ["us-east5-a", "europe-west4-a"],
                "subnetwork": "projects/p/regions/us-east5/subnetworks/s",
            },
            "zones",
            "europe-west4 and us-east5, but subnetwork",
        ),
        ({"renewBefore": "14400s"}, "renewBefore", "not shorter than maxRunDuration"),
        ({"strategy": "fastest"}, "strategy", "Write race or ordered"),
        ({"queueTimeout": "1d"}, "queueTimeout", "such as 86400s"),
        ({"onRunEnd": "buy"}, "onRunEnd", "Write keep, delete or accept"),
        ({"maxRunDuration": "604801s"}, "maxRunDuration", "at most 604800s (7d)"),
        ({"maxRunDuration": "60s"}, "maxRunDuration", "at least 600s"),
        ({"maxRunDuration": "4h"}, "maxRunDuration", "such as 14400s"),
        ({"provisioningModel": "FLEX"}, "provisioningModel", "Write FLEX_START, STANDARD"),
        ({"onBootChange": "ignore"}, "onBootChange", "Write replace or update"),
        ({"terminationTime": "soon", "maxRunDuration": None}, "terminationTime", "RFC 3339"),
        ({"validUntilTime": "2026-12-01"}, "validUntilTime", "RFC 3339"),
        ({"validUntilTime": "2026-12-01T08:00:00"}, "validUntilTime", "RFC 3339"),
        ({"cidrBlock": "10.0.0.0/24"}, "cidrBlock", "such as 10.240.0.0/29"),
        ({"queueCount": 0}, "queueCount", "greater than or equal to 1"),
        ({"dataDisks": [{"mode": "READ_ONLY"}]}, "dataDisks[0].sourceDisk", "required"),
        ({"dataDisks": [{"sourceDisk": "d"}]}, "dataDisks[0].sourceDisk", "projects/P/zones/Z"),
        ({"bootDisk": {"diskSizeGb": 0}}, "bootDisk.diskSizeGb", "greater than or equal to 1"),
        ({"bootDisk": {"size": 1}}, "bootDisk.size", "no such input"),
        ({"networkConfigs": [{"queueCount": "x"}]}, "networkConfigs[0].queueCount", "integer"),
        ({"queuedResourceIdPrefix": "9"}, "queuedResourceIdPrefix", "letter first"),
        ({"labels": {"Team": "x", LABEL_OWNER: "1"}}, 'labels["Team"]', "lower-case"),
        ({"labels": {LABEL_SPEC: "x", LABEL_OWNER: "1"}}, "labels", "provider itself"),
        ({"metadata": {"k": "x" * 262145}}, "metadata", "262145 bytes"),
        ({"nodeCount": 2}, "nodeCount", "no such input"),
        ({"multiNode": {"nodeCount": "2"}}, "multiNode.nodeCount", "Write a number, 2 to 256"),
        ({"bootDisk": {"kmsKeyName": "k"}}, "bootDisk.kmsKeyName", "Write projects/P/locations"),
        ({"description": "x" * 513}, "description", "512"),
    ],
)
def test_refusals_name_the_input_and_the_remedy(
    changes: dict[str, Any], path: str, words: str
) -> None:
    """What cannot be honoured is refused before any call, with what to write instead."""
    assert [(where, words in why) for where, why in failures(filled(**changes))] == [(path, True)]


#: Two inputs that cannot be honoured together, and the one under which it is reported.
TOGETHER: list[tuple[dict[str, Any], str, str]] = [
    (changed("acceleratorConfig") | {"acceleratorType": "v6e-4"}, "acceleratorConfig", "Type"),
    ({"acceleratorType": None}, "acceleratorType", "acceleratorConfig"),
    ({"maxRunDuration": None}, "maxRunDuration", "terminationTime"),
    ({"terminationTime": "2026-12-01T08:00:00Z"}, "terminationTime", "maxRunDuration"),
    (changed("validUntilDuration", "validUntilTime"), "validUntilTime", "validUntilDuration"),
    (changed("validUntilTime", "validAfterTime"), "validAfterTime", "validUntilTime"),
    (changed("validInterval", "validAfterTime"), "validInterval", "validAfterTime"),
    ({"provisioningModel": "STANDARD"}, "maxRunDuration", "provisioningModel FLEX_START"),
    (
        changed("terminationTime") | {"provisioningModel": "SPOT"},
        "terminationTime",
        "provisioningModel FLEX_START",
    ),
    ({"reservationName": RESERVATION}, "reservationName", "provisioningModel RESERVATION_BOUND"),
    (
        {"provisioningModel": "RESERVATION_BOUND", "maxRunDuration": None},
        "reservationName",
        "provisioningModel RESERVATION_BOUND",
    ),
    ({"bestEffort": True}, "bestEffort", "provisioningModel STANDARD"),
    ({"guaranteed": {}}, "guaranteed", "provisioningModel STANDARD or RESERVATION_BOUND"),
    (changed("guaranteed", "bestEffort"), "guaranteed", "bestEffort and guaranteed cannot"),
    (changed("networkConfigs", "network"), "network", "networkConfigs"),
    (changed("networkConfigs", "subnetwork"), "subnetwork", "networkConfigs"),
    (changed("networkConfigs", "externalIps"), "externalIps", "networkConfigs"),
    (changed("networkConfigs", "queueCount"), "queueCount", "networkConfigs"),
    (changed("networkConfigs", "canIpForward"), "canIpForward", "networkConfigs"),
    (
        {"bootDisk": {"enableConfidentialCompute": True}},
        "bootDisk.enableConfidentialCompute",
        "bootDisk.kmsKeyName",
    ),
    (
        {"dataDisks": [{"sourceDisk": DISK}], "zones": ["us-east5-b"]},
        "dataDisks[0].sourceDisk",
        "zones has us-east5-b",
    ),
    (changed("reservationName") | {"zones": ["us-east5-b"]}, "reservationName", "zones has"),
    (
        {"bootDisk": {"storagePool": "zones/us-east5-a/storagePools/s"}, "zones": ["us-east5-b"]},
        "bootDisk.storagePool",
        "zones has us-east5-b",
    ),
    (
        {
            "validInterval": {
                "startTime": "2026-12-01T09:00:00Z",
                "endTime": "2026-12-01T08:00:00Z",
            }
        },
        "validInterval.endTime",
        "validInterval.startTime",
    ),
    ({"validInterval": {}}, "validInterval", "Write startTime, endTime"),
]


@pytest.mark.parametrize(("changes", "path", "other"), TOGETHER)
def test_what_cannot_be_honoured_together_is_refused_with_both_names(
    changes: dict[str, Any], path: str, other: str
) -> None:
    """A combination that Google would refuse, or drop, is refused before any call."""
    assert [(where, other in why) for where, why in failures(filled(**changes))] == [(path, True)]


def test_several_nodes_cannot_write_to_one_disk() -> None:
    """A disk of several nodes is READ_ONLY, or refused with both inputs named."""
    several = OTHER["multiNode"]
    shared = {"sourceDisk": DISK, "mode": "READ_ONLY"}
    found = failures(filled(**several, dataDisks=[shared, {"sourceDisk": DISK}]))

    assert [(path, "multiNode" in reason) for path, reason in found] == [
        ("dataDisks[1].mode", True)
    ]


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"terminationTime": "2026-12-06T08:00:00Z"}, "terminationTime", "more than 7 days"),
        ({"terminationTime": "2026-11-27T08:00:00Z"}, "terminationTime", "has passed"),
        ({"terminationTime": "2026-11-28T09:30:00+02:00"}, "terminationTime", "has passed"),
        (
            {"terminationTime": "2026-12-01T08:00:00Z", "validUntilTime": NOW},
            "validUntilTime",
            "has passed",
        ),
    ],
)
def test_times_are_held_against_the_clock(changes: dict[str, Any], path: str, words: str) -> None:
    """A time that has passed, or an end beyond the longest run, is refused."""
    inputs = filled(maxRunDuration=None, **changes)

    assert [(where, words in why) for where, why in failures(inputs, now=moment(NOW))] == [
        (path, True)
    ]
    assert failures(inputs) == []


def test_a_time_that_has_passed_since_is_no_mistake() -> None:
    """What was good when it was applied does not fail a later run for having grown old."""
    inputs = filled(maxRunDuration=None, terminationTime="2026-11-27T08:00:00Z")

    assert failures(inputs, before=inputs, now=moment(NOW)) == []


@pytest.mark.parametrize("key", ["maxRunDuration", "terminationTime"])
def test_unknown_values_fill_a_need(key: str) -> None:
    """What is required may be there and not known yet."""
    assert failures({**filled(maxRunDuration=None), key: UNKNOWN}) == []


def test_metadata_values_never_show_in_refusals() -> None:
    """A refusal about metadata does not print the metadata."""
    ((_, reason),) = failures(filled(metadata={"k": "canary" * 50000}))

    assert "canary" not in reason


def test_secret_values_never_show_in_refusals() -> None:
    """A refusal of a secret says what to write, and not what was written."""
    ((path, reason),) = failures(
        filled(description={"k": "canary"}), secrets=frozenset({"description"})
    )

    assert (path, "canary" in reason) == ("description", False)
    assert "at most 512 characters" in reason


def test_long_values_are_cut_in_refusals() -> None:
    """A refusal shows the beginning of a long value."""
    ((_, reason),) = failures(filled(description="x" * 5000))

    assert len(reason) < 300


def test_missing_inputs_are_all_named() -> None:
    """Everything that is missing is reported at once."""
    found = failures(with_defaults({}, urn=URN, project=None))

    assert {path for path, _ in found} == {
        "project",
        "zones",
        "acceleratorType",
        "runtimeVersion",
        "serviceAccount",
        "maxRunDuration",
    }
