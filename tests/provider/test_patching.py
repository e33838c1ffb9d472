"""Changes in place: what is sent, what is left alone, and what cannot be patched."""

from __future__ import annotations

from typing import Any

import pytest

from pulumi_plugin.changes import Change, ChangeKind
from pulumi_plugin.values import UNKNOWN, Properties
from tests.provider.fakes import (
    INPUTS,
    NAME,
    Cloud,
    JsonObject,
    args,
    missing,
    node,
    only,
    queued,
    scripted,
    sequence,
)
from tests.queued_resource.inputs import filled
from tpuflex.naming import LABEL_SPEC, Names
from tpuflex.provider.diff import resource_diff
from tpuflex.provider.operations import update
from tpuflex.provider.patch import node_patch, patch
from tpuflex.provider.read import read
from tpuflex.queued_resource.body import spec_hash
from tpuflex.queued_resource.diff import diff
from tpuflex.queued_resource.model import Node, QueuedResource
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import Snapshot

HERE = RequestName.parse(NAME)
SEVERAL = [{"network": "a"}, {"network": "b"}]


def there(**changed: Any) -> Node:
    return Node.model_validate(node(**changed))


def test_of_several_networks_no_addresses_are_patched() -> None:
    """They can only be patched if there is one interface."""
    wanted = args(networkConfigs=SEVERAL, tags=["x"])
    asked = there(of=args(networkConfigs=SEVERAL))
    addressed = there(of=args(networkConfigs=SEVERAL), networkConfig={"enableExternalIps": True})

    assert node_patch(wanted, {}, asked, addressed) == {"tags": ["x"]}


@pytest.mark.parametrize("key", ["labels", "metadata"])
@pytest.mark.parametrize("ours", ["asked for at first", "applied last"])
def test_an_entry_that_was_ours_goes_and_googles_stays(key: str, ours: str) -> None:
    """What the program had and no longer has is removed; what somebody else added is
    kept."""
    entries = {**(INPUTS["labels"] if key == "labels" else {}), "old": "1"}
    asked = there(of=args(**{key: entries}) if ours == "asked for at first" else args())
    found = there(**{key: {**getattr(asked, key), "old": "1", "theirs": "2"}})
    last: Properties = {key: {**entries}} if ours == "applied last" else {}

    patched: Any = node_patch(args(), last, asked, found)

    assert list(patched) == [key]
    assert "old" not in patched[key]
    assert patched[key]["theirs"] == "2"


KEYS = "me:ssh-ed25519 AAAA me"


@pytest.mark.parametrize("last", [{}, {"note": "1"}])
def test_keys_that_gcloud_adds_stay(last: dict[str, str]) -> None:
    """m7: `gcloud … tpu-vm ssh` adds the user's key to the node's metadata. No patch of ours takes
    it away."""
    asked = there(of=args(metadata={"note": "1"}))
    found = there(metadata={"note": "1", "ssh-keys": KEYS})

    patched: Any = node_patch(args(metadata={"note": "2"}), {"metadata": {**last}}, asked, found)

    assert patched["metadata"] == {"note": "2", "ssh-keys": KEYS}


def test_a_key_that_was_asked_for_is_ours_to_take_away() -> None:
    """A program that sets ssh-keys itself changes and removes them as any other entry."""
    asked = there(of=args(metadata={"ssh-keys": KEYS}))

    patched: Any = node_patch(args(), {"metadata": {"ssh-keys": KEYS}}, asked, asked)

    assert patched["metadata"] == {}


def test_what_was_written_since_the_look_stays() -> None:
    """A patch of metadata replaces all of it, so that the node is looked at right before."""
    before = node(of=args(metadata={"note": "1"}))
    since: JsonObject = {"note": "1", "ssh-keys": KEYS}
    request = queued("ACTIVE", of=args(metadata={"note": "1"}))
    cloud = Cloud(request=sequence(request), node=sequence({**before, "metadata": since}))
    call, script, _ = scripted(cloud)
    seen = Snapshot(HERE, QueuedResource.model_validate(request), only(Node.model_validate(before)))

    patch(call, args(metadata={"note": "2"}), {}, seen, deadline=1e9)

    (sent,) = [request for request in script.sent if request.method == "PATCH"]
    assert sent.body is not None
    assert sent.body["metadata"] == {"note": "2", "ssh-keys": KEYS}


@pytest.mark.parametrize("mark", Names("shop", "dev", "slice").labels("0123456789abcdef0123"))
def test_a_mark_that_a_node_has_lost_is_put_back(mark: str) -> None:
    """The request still says whose it is, and so does the state: the next update writes it."""
    marks = Names("shop", "dev", "slice").labels("0123456789abcdef0123")
    asked = {**INPUTS, "labels": marks}
    labels = {key: value for key, value in marks.items() if key != mark}
    call, script, _ = scripted(
        Cloud(
            request=sequence(queued("ACTIVE", args(labels=marks))),
            node=sequence(node(of=args(labels=marks), labels={**labels})),
        )
    )

    found = read(call, NAME, asked, {})
    assert found is not None
    assert found.inputs["labels"] == marks
    planned = resource_diff(found.inputs, asked, found.outputs, 1.8e9).diff
    update(call, NAME, found.inputs, asked, found.outputs, timeout=0)

    assert list(planned.changes) == ["nodes"]
    (sent,) = [sent for sent in script.sent if sent.method == "PATCH"]
    assert sent.body is not None
    assert sent.body["labels"] == {**marks, LABEL_SPEC: spec_hash(args(labels=marks))}


def test_what_is_not_whole_is_not_patched() -> None:
    """Without its node, or its queued resource, there is nothing to bring in line."""
    call, script, _ = scripted(Cloud())
    request = QueuedResource.model_validate(queued("ACTIVE"))

    for seen in (Snapshot(HERE, request), Snapshot(HERE, None, only(there()))):
        assert patch(call, args(tags=["x"]), {}, seen, deadline=1e9) is seen

    assert script.sent == []


def test_a_change_whose_operation_was_forgotten_is_looked_at() -> None:
    """Google forgets operations; the node itself shows the result."""
    cloud = Cloud(
        request=sequence(queued("ACTIVE")),
        node=sequence(node(tags=["x"])),
        patch=sequence({"name": "operations/4"}),
        operation=sequence({"name": "operations/4"}, missing("operations/4")),
    )
    call, script, _ = scripted(cloud)
    seen = Snapshot(HERE, QueuedResource.model_validate(queued("ACTIVE")), only(there()))

    found = patch(call, args(tags=["x"]), {}, seen, deadline=1e9)

    assert found.nodes.first is not None
    assert list(found.nodes.first.tags) == ["x"]
    polls = [sent.path for sent in script.sent if "operations" in sent.path]
    assert polls == ["operations/4"] * 2


@pytest.mark.parametrize("key", ["labels", "metadata"])
def test_an_unknown_map_changes_as_a_whole(key: str) -> None:
    """Its entries are not known yet: it changes, and may hold those that hosts boot by (P5)."""
    found = diff(filled(metadata={"startup-script": "x"}), {**filled(), key: UNKNOWN})

    assert found.changes[key] == Change(ChangeKind.UPDATE, replaces=key == "metadata")
    assert not any(path.startswith(f"{key}.") for path in found.changes)


def test_a_map_that_was_not_there_is_added_entry_by_entry() -> None:
    """Also in a state that knows nothing of it."""
    old = {k: v for k, v in filled().items() if k != "metadata"}

    found = diff(old, filled(metadata={"a": "1", "startup-script": "x"})).changes

    assert found == {
        "metadata.a": Change(ChangeKind.ADD, replaces=False),
        'metadata["startup-script"]': Change(ChangeKind.ADD, replaces=True),
    }
