"""What is read from the cloud: imports of all kinds, drift, and whose what is."""

from __future__ import annotations

from typing import Any

import pytest

from pulumi_plugin.changes import Change, ChangeKind
from pulumi_plugin.values import UNKNOWN, Properties
from pulumi_plugin.wire import decode, encode
from tests.provider.fakes import (
    INPUTS,
    NAME,
    Cloud,
    FakeTime,
    args,
    missing,
    node,
    only,
    queued,
    scripted,
    sequence,
)
from tests.queued_resource.inputs import at, filled
from tpuflex.errors import ConflictError
from tpuflex.provider.diff import refuse_replacement, resource_diff
from tpuflex.provider.operations import delete_resource, refuse_deletion
from tpuflex.provider.queued_resource import previewed_creation
from tpuflex.provider.read import names_of
from tpuflex.queued_resource.body import imported_inputs, request_body
from tpuflex.queued_resource.model import Node, QueuedResource
from tpuflex.queued_resource.name import Nodes, RequestName
from tpuflex.queued_resource.outputs import observed_inputs
from tpuflex.queued_resource.snapshot import Snapshot

HERE = RequestName.parse(NAME)
LABELS: dict[str, str] = INPUTS["labels"]


def test_a_node_alone_is_imported_by_what_it_says() -> None:
    """Without the queued resource its terms are unknown; the rest is known."""
    found = imported_inputs(HERE, None, only(Node.model_validate(node())))

    assert found.pop("scopes") == ["https://www.googleapis.com/auth/cloud-platform"]
    assert found.pop("labels") == LABELS
    assert found == {
        "queuedResourceId": "slice-g1",
        "project": "cloud-project",
        "zones": ["us-east5-a"],
        "acceleratorType": "v6e-4",
        "runtimeVersion": "v2-alpha-tpuv6e",
        "serviceAccount": "host@cloud-project.iam.gserviceaccount.com",
        "externalIps": False,
        "secureBoot": False,
        "metadata": {},
    }


@pytest.mark.parametrize(
    ("keys", "until"),
    [
        (("2027-01-15T08:26:40Z",), "2027-01-15T08:26:40Z"),
        (("2027-01-15T08:26:40Z", "2027-01-15T11:00:00.5+02:00"), "2027-01-15T09:00:00Z"),
        (("2027-01-15T08:26:40Z", "z" * 100_000), "2027-01-15T08:26:40Z"),
        (("\x1b[2J",), "unknown"),
        (("9999-12-31T23:59:59-23:59",), "unknown"),
        (("",), ""),
        ((), ""),
    ],
)
def test_until_when_hosts_drain_is_a_time(keys: tuple[str, ...], until: str) -> None:
    """Whoever can change metadata may write anything there: a state shows the time, or that there
    is none."""
    nodes = tuple(
        Node.model_validate(node(of=args(metadata={"tpuflex-drain": key}))) for key in keys
    )

    seen = Snapshot(HERE, nodes=Nodes(HERE.node_ids, nodes))

    assert seen.drains_until == until


@pytest.mark.parametrize("request_there", [True, False])
def test_keys_of_other_people_are_not_imported(request_there: bool) -> None:
    """What `gcloud … tpu-vm ssh` wrote into a node never ends in the state, where the next `up`
    would take it for ours, and away."""
    asked = args(metadata={"note": "1"})
    there = Node.model_validate(node(of=asked, metadata={"note": "1", "ssh-keys": "me:ssh-rsa A"}))
    request = QueuedResource.model_validate(queued("ACTIVE", of=asked)) if request_there else None

    assert imported_inputs(HERE, request, only(there))["metadata"] == {"note": "1"}


def test_a_shape_is_imported_as_a_shape() -> None:
    """A request by generation and topology is not turned into an accelerator type."""
    config = {"type": "V6E", "topology": "2x4"}
    of = args(acceleratorType=None, acceleratorConfig=config)
    there = Node.model_validate(node(of=of, acceleratorType="v6e-8"))

    found = imported_inputs(
        HERE, QueuedResource.model_validate(queued("ACTIVE", of=of)), only(there)
    )

    assert found["acceleratorConfig"] == config
    assert "acceleratorType" not in found


@pytest.mark.parametrize(
    ("tier", "model"), [({}, "STANDARD"), ({"spot": {}}, "SPOT"), ({"bestEffort": {}}, "STANDARD")]
)
def test_requests_from_before_there_were_models(tier: dict[str, Any], model: str) -> None:
    """In an older request the tier gives the provisioning model."""
    body = {key: value for key, value in queued("ACTIVE").items() if key != "provisioningModel"}

    found = imported_inputs(HERE, QueuedResource.model_validate({**body, **tier}), Nodes())

    assert found["provisioningModel"] == model
    assert found.get("bestEffort") == (tier == {"bestEffort": {}} or None)


def seen(**changed: Any) -> Snapshot:
    """An active request, whose node was ``changed``."""
    found = QueuedResource.model_validate(queued("ACTIVE"))
    return Snapshot(HERE, found, only(Node.model_validate(node(**changed))))


KNOWN = filled(metadata={"a": "1", "b": "2"}, tags=["t"], labels={**LABELS, "team": "x"})


@pytest.mark.parametrize(
    ("changed", "drift"),
    [
        ({"labels": {**LABELS, "team": "y", "goog": "z"}}, {"labels": {**LABELS, "team": "y"}}),
        ({"labels": LABELS}, {"labels": LABELS}),
        ({"metadata": {"a": "1", "b": "3", "ssh-keys": "k"}}, {"metadata": {"a": "1", "b": "3"}}),
        ({"tags": ["t", "u"]}, {"tags": ["t", "u"]}),
        ({"description": "theirs"}, {"description": "theirs"}),
        ({"networkConfig": {"enableExternalIps": True}}, {"externalIps": True}),
        ({"acceleratorType": "v6e-8", "runtimeVersion": "other"}, {}),
    ],
)
def test_drift_is_what_could_have_been_patched(
    changed: dict[str, Any], drift: dict[str, Any]
) -> None:
    """Only what `nodes.patch` can change is compared, and of maps only what the program says."""
    as_asked = {"metadata": KNOWN["metadata"], "tags": ["t"], "labels": KNOWN["labels"]}

    assert observed_inputs(KNOWN, seen(**{**as_asked, **changed})) == {**KNOWN, **drift}


def test_a_description_that_was_taken_away_shows() -> None:
    """The program says one and the node has none; of several networks no addresses are compared;
    without a node nothing is."""
    several = [{"network": "a"}, {"network": "b"}]
    known = filled(description="ours", networkConfigs=several)
    bare = Snapshot(HERE, QueuedResource.model_validate(queued("WAITING_FOR_RESOURCES")))

    found = observed_inputs(known, seen(networkConfig={"enableExternalIps": True}))

    assert found["description"] == ""
    assert found["externalIps"] == known["externalIps"]
    assert observed_inputs(known, bare) == known
    assert observed_inputs({}, seen(tags=["x"]))["tags"] == ["x"]


@pytest.mark.parametrize(
    ("said", "timeout", "limit"),
    [("100s", 0, 100), ("100s", 50, 50), (None, 0, 10800), ("soon", 0, 10800)],
)
def test_a_deletion_has_its_time(said: str | None, timeout: float, limit: float) -> None:
    """The engine's time, else that of the inputs, else three hours."""
    time = FakeTime()
    call, *_ = scripted(
        Cloud(
            request=sequence(queued("ACTIVE")),
            node=sequence(node()),
            operation=sequence({"name": "operations/2"}),
        ),
        time,
    )

    with pytest.raises(ConflictError, match="is not gone"):
        delete_resource(call, NAME, {**INPUTS, "deleteTimeout": said}, {}, timeout=timeout)

    assert time.now == pytest.approx(1000 + limit)


def test_protection_names_every_reason() -> None:
    """A replacement is refused with all that asks for it, in order."""
    active: Properties = {"lifecycle": "active", "name": "N"}

    with pytest.raises(ConflictError) as refused:
        refuse_replacement({"deletionProtection": True}, active, ["zones", "acceleratorType"])

    assert refused.value.message == (
        "N is ACTIVE and deletion_protection is on: it is not replaced for acceleratorType, zones"
    )
    refuse_replacement({"deletionProtection": False}, active, ["zones"])
    refuse_replacement({"deletionProtection": True}, {**active, "lifecycle": "waiting"}, ["zones"])


@pytest.mark.parametrize("prefix", ["slice", None])
@pytest.mark.parametrize(
    ("successor", "refused"),
    [(queued("ACTIVE"), False), (queued("WAITING_FOR_RESOURCES"), True), (missing(), True)],
)
def test_the_endpoint_is_protected_not_each_run(successor: Any, refused: bool, prefix: Any) -> None:
    """A protected run may be deleted once the next generation serves, and not before."""
    next_ = NAME.replace("-g1", "-g2")

    def answer(sent: Any) -> Any:
        there = queued("ACTIVE") if sent.path == NAME else successor if sent.path == next_ else None
        if there is not None:
            return there
        return node() if sent.path.split("/")[-1] in ("slice-g1", "slice-g2") else missing()

    call, *_ = scripted(answer)
    inputs = {"deletionProtection": True, "queuedResourceIdPrefix": prefix}

    if refused:
        with pytest.raises(ConflictError, match="it is not deleted"):
            refuse_deletion(call, inputs, [HERE], LABELS)
    else:
        refuse_deletion(call, inputs, [HERE], LABELS)
    refuse_deletion(call, {**inputs, "deletionProtection": False}, [HERE], LABELS)
    refuse_deletion(call, inputs, [HERE], {"tpuflex-owner": "ffff"})


@pytest.mark.parametrize(
    ("state", "owner", "refused"),
    [
        ("ACTIVE", "theirs", False),
        ("ACTIVE", "another", True),
        ("WAITING_FOR_RESOURCES", "theirs", True),
    ],
)
def test_a_protected_run_may_go_once_its_heir_serves(state: str, owner: str, refused: bool) -> None:
    """After a rename, what takes over has another name and owner: both must be those of the
    successor, which is never the run itself."""
    labels = {**INPUTS["labels"], "tpuflex-owner": "theirs"}
    successor = {**INPUTS, "queuedResourceId": "again-g1", "labels": labels}
    found = queued(state, args(labels={**labels, "tpuflex-owner": owner}))

    def answer(sent: Any) -> Any:
        if sent.path == NAME.replace("slice-g1", "again-g1"):
            return found
        there = {NAME: queued("ACTIVE")}.get(sent.path)
        return there or (node() if "/nodes/" in sent.path else missing())

    call, *_ = scripted(answer)
    inputs = {**INPUTS, "deletionProtection": True}

    with pytest.raises(ConflictError, match="it is not deleted"):
        refuse_deletion(call, inputs, [HERE], LABELS, successor=inputs)
    if refused:
        with pytest.raises(ConflictError, match="it is not deleted"):
            refuse_deletion(call, inputs, [HERE], LABELS, successor=successor)
    else:
        refuse_deletion(call, inputs, [HERE], LABELS, successor=successor)


def test_every_name_counts_once() -> None:
    """The one that the state shows, those that it remembers, those that the inputs make; what is
    no name is passed over."""
    other = NAME.replace("us-east5-a", "us-east5-c")
    known: Properties = {"requests": [NAME, other, "none", 7]}

    def zones(inputs: Properties, outputs: Properties) -> list[str]:
        return [name.zone for name in names_of(NAME, inputs, outputs)]

    several: Properties = {"zones": ["us-east5-b", "us-east5-a", 7]}
    assert zones(several, known) == ["us-east5-a", "us-east5-c", "us-east5-b"]
    assert zones({"zones": ["us-east5-b"]}, known) == ["us-east5-a", "us-east5-c"]
    assert zones({}, {"requests": None}) == ["us-east5-a"]


def test_a_preview_of_a_creation_names_what_it_can() -> None:
    """With one zone the name is known; with several, or an unknown one, it is not."""
    one = decode(previewed_creation(encode(INPUTS)))
    several = decode(previewed_creation(encode({**INPUTS, "zones": ["us-east5-a", "us-east5-b"]})))
    unknown = decode(previewed_creation(encode({**INPUTS, "zones": UNKNOWN})))

    assert one == {**INPUTS, "name": NAME, "zone": "us-east5-a", "nodeId": "slice-g1"}
    for later in (several, unknown):
        assert not {"name", "zone", "nodeId"} & later.keys()


def test_a_boot_disk_says_only_what_was_said() -> None:
    """What is left out of it is left to Google."""
    body = request_body(args(bootDisk={"storagePool": "zones/us-east5-a/storagePools/s"}))

    assert at(body, "tpu.nodeSpec.node.bootDiskConfig") == {
        "storagePool": "zones/us-east5-a/storagePools/s"
    }


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ({}, {"rerun": "1"}, ChangeKind.ADD),
        ({"rerun": "1"}, {}, ChangeKind.DELETE),
        ({"rerun": "1"}, {"rerun": "2"}, ChangeKind.UPDATE),
    ],
)
def test_steering_is_added_deleted_or_changed(
    old: Properties, new: Properties, kind: ChangeKind
) -> None:
    """Each is shown as what it is; only another word asks for a new run."""
    found = resource_diff(filled(**old), filled(**new), {"lifecycle": "active"}, 0).diff.changes

    assert found == {"rerun": Change(kind, replaces=kind is not ChangeKind.DELETE)}
