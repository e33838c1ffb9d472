"""What a program may say: defaults and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from pulumi_plugin.values import UNKNOWN, Properties
from tests.queued_resource.inputs import DISK, NOW, OTHER, URN, filled, given
from tpuflex.naming import Names
from tpuflex.queued_resource.check import failures, with_defaults
from tpuflex.queued_resource.rows import moment


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


def test_several_nodes_cannot_write_to_one_disk() -> None:
    """A disk of several nodes is READ_ONLY, or refused with both inputs named."""
    several = OTHER["multiNode"]
    shared = {"sourceDisk": DISK, "mode": "READ_ONLY"}
    found = failures(filled(**several, dataDisks=[shared, {"sourceDisk": DISK}]))

    assert [(path, "multiNode" in reason) for path, reason in found] == [
        ("dataDisks[1].mode", True)
    ]


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
