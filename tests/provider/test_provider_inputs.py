"""What a program may say: defaults, refusals, diffs and the request body."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from provider_values import DISK, NOW, OTHER, RESERVATION, URN, changed, filled, given
from tpuflex.lifecycle import Lifecycle
from tpuflex.naming import LABEL_OWNER, LABEL_SPEC, Names
from tpuflex.provider.arguments import (
    DEFAULTS,
    QueuedResourceArgs,
    failures,
    input_properties,
    with_defaults,
)
from tpuflex.provider.codec import UNKNOWN, Properties
from tpuflex.provider.diff import LOCAL, PATCHABLE, Kind, diff, with_next_generation
from tpuflex.provider.request import BOOT_METADATA
from tpuflex.provider.values import moment

#: What the id is made of makes no difference while the id stays.
SETTABLE = sorted(set(OTHER) - {"queuedResourceIdPrefix"})
IN_PLACE = set(PATCHABLE) | LOCAL


@pytest.mark.parametrize("key", SETTABLE)
def test_exactly_the_immutable_inputs_replace(key: str) -> None:
    """An input replaces exactly when `nodes.patch` cannot change it, and it is in the request."""
    found = diff(filled(), filled(**OTHER[key]))

    assert found.changes
    assert found.replaces == (key not in IN_PLACE)


@pytest.mark.parametrize("key", sorted(BOOT_METADATA))
def test_boot_metadata_replaces(key: str) -> None:
    """What only takes effect at a boot replaces; other metadata does not."""
    found = diff(filled(metadata={key: "a", "x": "1"}), filled(metadata={key: "b", "x": "2"}))

    assert found.changes[f'metadata["{key}"]'].replaces
    assert not found.changes["metadata.x"].replaces


@pytest.mark.parametrize("key", sorted(BOOT_METADATA))
def test_boot_metadata_is_patched_on_request(key: str) -> None:
    """With onBootChange "update", what takes effect at a boot does not replace."""
    old = filled(metadata={key: "a"})

    assert not diff(old, filled(metadata={key: "b"}, onBootChange="update")).replaces
    assert diff({**old, "onBootChange": "update"}, filled(metadata={key: "b"})).replaces


def test_external_ips_of_several_networks_replace() -> None:
    """`nodes.patch` knows external IPs of the one network only."""
    networks = [{"network": "a", "externalIps": False}, {"network": "b"}]
    other = [{"network": "a", "externalIps": True}, {"network": "b"}]

    assert diff(filled(networkConfigs=networks), filled(networkConfigs=other)).replaces


@pytest.mark.parametrize("key", SETTABLE)
def test_unknown_values_pass_and_never_replace(key: str) -> None:
    """During a preview any input may be unknown: no refusal, no premature replacement."""
    new = {**filled(), key: UNKNOWN}

    assert failures(new) == []
    assert not diff(filled(), new).replaces


@pytest.mark.parametrize(
    ("stands", "change", "replaces"),
    [
        (None, False, False),
        (Lifecycle.ACTIVE, False, False),
        (Lifecycle.ENDED, False, False),
        (Lifecycle.WAITING, True, False),
        (Lifecycle.PROVISIONING, True, False),
        (Lifecycle.FAILED, True, True),
        (Lifecycle.LOST, True, True),
        (Lifecycle.DELETING, True, True),
    ],
)
def test_where_it_stands_decides(stands: Lifecycle | None, change: bool, replaces: bool) -> None:
    """Waiting goes on, failed and lost are replaced, ended is left alone."""
    found = diff(filled(), filled(), stands)

    assert bool(found.changes) is change
    assert found.replaces is replaces


def test_a_fixed_name_is_deleted_first() -> None:
    """Old and new cannot exist together under one name; under two names they can."""
    assert diff(filled(), filled(acceleratorType="v6e-8")).delete_before_replace
    assert not diff(filled(), filled(queuedResourceId="slice-g2")).delete_before_replace
    assert not diff(filled(), filled(zones=["us-east5-b"])).delete_before_replace


def made(**changes: Any) -> Properties:
    """Inputs of a request whose id the provider made."""
    return filled(queuedResourceId=None, **changes)


def test_a_name_made_by_us_is_not() -> None:
    """What replaces a request whose id we made gets the next id, and is made first."""
    found = diff(made(), made(acceleratorType="v6e-8"), Lifecycle.ACTIVE)

    assert found.replaces
    assert not found.delete_before_replace


def test_fixed_node_names_are_deleted_first() -> None:
    """Nodes that keep their names cannot exist together with those that they replace."""
    several = {"nodeCount": 2, "nodeIdPrefix": "np"}
    old = made(multiNode=several)

    assert diff(old, made(multiNode={**several, "nodeCount": 3})).delete_before_replace
    assert not diff(old, made(multiNode={"nodeCount": 3})).delete_before_replace


@pytest.mark.parametrize("stands", sorted(set(Lifecycle) - {Lifecycle.ACTIVE}))
def test_what_serves_nobody_is_deleted_first(stands: Lifecycle) -> None:
    """Where nothing runs there is nothing to hand over, and its quota is needed."""
    assert diff(made(), made(acceleratorType="v6e-8"), stands).delete_before_replace


def test_a_preview_shows_the_next_generation() -> None:
    """A replacement shows that its id changes; an update does not, nor a fixed id."""
    found = with_next_generation(diff(made(), made(acceleratorType="v6e-8")), made())
    assert found.changes["queuedResourceId"].replaces

    patched = with_next_generation(diff(made(), made(description="d")), made())
    assert "queuedResourceId" not in patched.changes

    fixed = with_next_generation(diff(filled(), filled(acceleratorType="v6e-8")), filled())
    assert "queuedResourceId" not in fixed.changes


def test_a_state_of_an_earlier_version_is_no_change() -> None:
    """An input that a state does not have yet stands for its default."""
    old = {key: value for key, value in filled().items() if key not in DEFAULTS}

    assert diff(old, filled()).changes == {}


def test_what_ids_are_made_of_makes_no_difference() -> None:
    """While the id stays, it does not matter how it came about."""
    assert diff(filled(), filled(queuedResourceIdPrefix="slice")).changes == {}


def test_networks_may_be_spelt_by_name_or_path() -> None:
    """A network's name and its full path are the same network; two paths must be equal."""
    path, other = "projects/p/global/networks/n", "projects/q/global/networks/n"

    assert not diff(filled(network="n"), filled(network=path)).changes
    assert not diff(filled(network=path), filled(network="n")).changes
    assert diff(filled(network=path), filled(network=other)).replaces
    assert diff(filled(network="n"), filled()).replaces


def test_kinds_are_told_apart() -> None:
    """Added, deleted and changed entries are shown as such."""
    found = diff(
        filled(labels={"a": "1", "b": "1", LABEL_OWNER: "x"}, description="d"),
        filled(labels={"b": "2", "c": "1", LABEL_OWNER: "x"}),
    )

    assert {path: change.kind for path, change in found.changes.items()} == {
        "labels.a": Kind.DELETE,
        "labels.b": Kind.UPDATE,
        "labels.c": Kind.ADD,
        "description": Kind.DELETE,
    }


_subsets = st.sets(st.sampled_from(SETTABLE))


@hypothesis_given(_subsets)
def test_nothing_changes_into_itself(keys: set[str]) -> None:
    """diff(x, x) is empty, whatever is set."""
    inputs = filled(**changed(*sorted(keys)))

    assert not diff(inputs, inputs).changes
    assert diff(inputs, input_properties(QueuedResourceArgs.model_validate(inputs))).changes == {}


#: Inputs whose other value is a change of themselves alone.
_single = st.sets(st.sampled_from(sorted(key for key in SETTABLE if set(OTHER[key]) == {key})))


@hypothesis_given(_single, _single)
def test_diff_is_the_union_of_single_changes(left: set[str], right: set[str]) -> None:
    """Two inputs replace together exactly when one of the differing ones replaces alone."""
    old, new = filled(**changed(*sorted(left))), filled(**changed(*sorted(right)))
    # Where there are several networks, the one network's external IPs cannot be patched.
    unpatched = {"externalIps"} if "networkConfigs" in right else set()

    assert diff(old, new).replaces == bool((left ^ right) - (IN_PLACE - unpatched))


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


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"zones": ["us-east5-a", "us-east5-a"]}, "zones", "named twice"),
        ({"zones": []}, "zones", "Write zones"),
        ({"zones": ["nowhere"]}, "zones[0]", "Write zones"),
        (
            {"zones": ["us-east5-a", "europe-west4-a"], "subnetwork": "s"},
            "zones",
            "europe-west4 and us-east5, but subnetwork",
        ),
        ({"renewBefore": "14400s"}, "renewBefore", "not shorter than maxRunDuration"),
        ({"strategy": "fastest"}, "strategy", "Write race or ordered"),
        ({"queueTimeout": "1d"}, "queueTimeout", "such as 86400s"),
        ({"onRunEnd": "buy"}, "onRunEnd", "Write keep or delete"),
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
