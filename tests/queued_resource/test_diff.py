"""What a changed input means: nothing, a patch, or a replacement, and which goes first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from pulumi_plugin.changes import ChangeKind
from pulumi_plugin.values import UNKNOWN, Properties
from tests.queued_resource.inputs import OTHER, changed, filled
from tpuflex.naming import LABEL_OWNER
from tpuflex.queued_resource.body import BOOT_METADATA
from tpuflex.queued_resource.check import failures, input_properties
from tpuflex.queued_resource.diff import diff, with_next_generation
from tpuflex.queued_resource.fields import DEFAULTS, ROWS, RequestArgs
from tpuflex.queued_resource.rows import OnChange
from tpuflex.queued_resource.states import Lifecycle

#: What the id is made of makes no difference while the id stays.
SETTABLE = sorted(set(OTHER) - {"queuedResourceIdPrefix"})
_IN_PLACE = (OnChange.PATCHES, OnChange.STEERS)
IN_PLACE = {key for key, row in ROWS.items() if row.on_change in _IN_PLACE}


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


@pytest.mark.parametrize(("kept", "replaces"), [("replace", True), ("update", False)])
def test_secure_boot_does_what_on_boot_change_says(kept: str, replaces: bool) -> None:
    """No call changes it, so a change makes new hosts, or waits for the next ones."""
    change = diff(filled(secureBoot=True), filled(secureBoot=False, onBootChange=kept))

    assert change.changes["secureBoot"].replaces is replaces


@pytest.mark.parametrize("key", ["validUntilDuration", "validAfterDuration", "validInterval"])
@pytest.mark.parametrize("stands", [None, *Lifecycle])
def test_terms_of_the_queue_replace_what_is_in_it(stands: Lifecycle | None, key: str) -> None:
    """Another time to give up asks anew while the request waits; what runs goes on running."""
    granted = {Lifecycle.PROVISIONING, Lifecycle.ACTIVE, Lifecycle.ENDED}

    found = diff(filled(), filled(**OTHER[key]), stands)

    assert found.changes[key].replaces is (stands not in granted)


def test_external_ips_of_several_networks_replace() -> None:
    """`nodes.patch` knows external IPs of the one network only."""
    networks = [{"network": "a", "externalIps": False}, {"network": "b"}]
    other = [{"network": "a", "externalIps": True}, {"network": "b"}]

    assert diff(filled(networkConfigs=networks), filled(networkConfigs=other)).replaces


@pytest.mark.parametrize("key", sorted(SETTABLE))
def test_p5_an_unknown_value_replaces_what_a_known_one_would(key: str) -> None:
    """P5: during a preview any input may be unknown. It is no refusal, and the preview promises no
    less than the `up` that knows it. what hosts use cannot be deleted before they are."""
    new = {**filled(), key: UNKNOWN}

    assert failures(new) == []
    row = ROWS[key].on_change
    replaces = row in (OnChange.REPLACES, OnChange.BOOTS, OnChange.QUEUES) or key == "metadata"
    assert diff(filled(), new).replaces is replaces


def test_d2_an_unknown_part_of_what_hosts_use_replaces_them() -> None:
    """One of several networks that is being replaced counts like the only one."""
    networks = [{"network": "a"}, {"network": "b"}]
    new = [{"network": "a"}, {"network": "b", "subnetwork": UNKNOWN}]

    assert diff(filled(networkConfigs=networks), filled(networkConfigs=new)).replaces


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
    """Waiting continues, failed and lost are replaced, ended is left alone."""
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
    """An input that the state does not have yet counts as its default."""
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
        "labels.a": ChangeKind.DELETE,
        "labels.b": ChangeKind.UPDATE,
        "labels.c": ChangeKind.ADD,
        "description": ChangeKind.DELETE,
    }


_subsets = st.sets(st.sampled_from(SETTABLE))


@hypothesis_given(_subsets)
def test_nothing_changes_into_itself(keys: set[str]) -> None:
    """diff(x, x) is empty, whatever is set."""
    inputs = filled(**changed(*sorted(keys)))

    assert not diff(inputs, inputs).changes
    assert diff(inputs, input_properties(RequestArgs.model_validate(inputs))).changes == {}


#: Inputs whose other value is a change of themselves alone.
_single = st.sets(st.sampled_from(sorted(key for key in SETTABLE if set(OTHER[key]) == {key})))


@hypothesis_given(_single, _single)
def test_diff_is_the_union_of_single_changes(left: set[str], right: set[str]) -> None:
    """Two inputs replace together exactly when one of the differing ones replaces alone."""
    old, new = filled(**changed(*sorted(left))), filled(**changed(*sorted(right)))
    # Where there are several networks, the one network's external IPs cannot be patched.
    unpatched = {"externalIps"} if "networkConfigs" in right else set()

    assert diff(old, new).replaces == bool((left ^ right) - (IN_PLACE - unpatched))
