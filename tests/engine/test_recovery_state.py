"""Changes to an exported state keep it valid: pure, no engine."""

from __future__ import annotations

from typing import Any

import pytest

from pulumi_plugin.values import UNKNOWN_STRING as UNKNOWN
from tests.components.pulumi_plan import run_program
from tests.loopback import overrides
from tests.unit.stack_sections import embedded
from tpuflex.engine.state import (
    adopted,
    external_paths,
    known_ids,
    missing_parents,
    referenced,
    state_ids,
    with_asked_inputs,
    without_pending,
)
from tpuflex.google.transport import JsonObject
from tpuflex.inventory.kinds import KINDS, Kind, of_type
from tpuflex.inventory.resource_ids import ids_of, unknown
from tpuflex.naming import STATE_ID, Names
from tpuflex.program import deploy
from tpuflex.recovery.import_state import with_predecessors
from tpuflex.recovery.look import LookResult, Presence, best, judged
from tpuflex.settings.load import parse

NETWORK = "gcp:compute/network:Network"
BUCKET = "gcp:storage/bucket:Bucket"
SLICE = "tpuflex:tpu:QueuedResource"
STACK = "urn:pulumi:dev::p::pulumi:pulumi:Stack::p-dev"


def kind_of(type_: str) -> Kind:
    kind = of_type(type_)
    assert kind is not None
    return kind


def resource(type_: str, name: str, **more: Any) -> dict[str, Any]:
    """A cloud resource as the engine stores it."""
    urn = f"urn:pulumi:dev::p::{type_}::{name}"
    return {"urn": urn, "custom": True, "type": type_, "id": f"{name}-id", "parent": STACK, **more}


def state(*resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    stack = {"urn": STACK, "custom": False, "type": "pulumi:pulumi:Stack"}
    return {"resources": [stack, *resources], **more}


def urns(deployment: dict[str, Any]) -> list[str]:
    return [r["urn"].rpartition("::")[2] for r in deployment["resources"]]


def test_which_states_are_known() -> None:
    """The id of a state is that of its StateId; nothing else in it counts, nor another form."""
    own = resource("tpuflex:tpu:StateId", "id", id="0123456789abcdef0123")
    other = resource("tpuflex:tpu:StateId", "other", id="someone's")
    network = resource(NETWORK, "net", id="0123456789abcdef9999")

    assert state_ids(state(own, other, network)) == {"0123456789abcdef0123"}
    assert state_ids(state(network)) == frozenset()


class TestAdopted:
    def test_comes_after_what_it_needs(self) -> None:
        """An import stands after its dependencies and before what depends on it."""
        network = resource(NETWORK, "net")
        bucket = resource(BUCKET, "late", dependencies=[network["urn"]])

        found = adopted(state(bucket), [network])

        assert urns(found) == ["p-dev", "net", "late"]

    def test_the_one_that_it_replaces_is_to_be_deleted(self) -> None:
        """A replacement that exists leaves the old one marked for deletion."""
        found = adopted(state(resource(SLICE, "s")), [resource(SLICE, "s", id="new")])

        marks = {r["id"]: r.get("delete", False) for r in found["resources"] if "id" in r}
        assert marks == {"s-id": True, "new": False}

    @pytest.mark.parametrize("id_", ["p roles/r user:u", "p/roles/r/user:u"])
    def test_twice_is_once(self, id_: str) -> None:
        """What an earlier recovery had begun to import is imported anew, not replaced."""
        member = resource("gcp:projects/iAMMember:IAMMember", "m", id=id_)

        found = adopted(state(member), [{**member, "id": "p roles/r user:u"}])

        assert urns(found) == ["p-dev", "m"]
        assert "delete" not in found["resources"][1]

    def test_reminder_of_a_replacement_goes(self) -> None:
        """An entry that only says "was deleted to be replaced" makes room."""
        old = resource(NETWORK, "net", pendingReplacement=True)

        found = adopted(state(old), [resource(NETWORK, "net", id="other")])

        assert [r.get("id") for r in found["resources"]] == [None, "other"]


def test_pending_operations_are_cleared_but_for_what_is_left() -> None:
    """Clearing keeps the operations that could not be settled."""
    one, two = resource(NETWORK, "one"), resource(NETWORK, "two")
    operations = [{"resource": begun, "type": "creating"} for begun in (one, two)]
    deployment = state(pending_operations=operations)

    left = without_pending(deployment, {two["urn"]})

    assert "pending_operations" not in without_pending(deployment)
    assert left["pending_operations"] == operations[1:]


def test_what_only_the_program_knows_is_put_back() -> None:
    """After an import, the program's inputs and client-side flags are in the state."""
    bucket = resource(BUCKET, "b", inputs={"name": "b"}, outputs={"name": "b", "url": "gs://b"})
    asked = {bucket["urn"]: {"name": "b", "forceDestroy": True}}

    found = with_asked_inputs(state(bucket), asked)["resources"][1]

    assert found["inputs"] == {"name": "b", "forceDestroy": True}
    assert found["outputs"] == {"name": "b", "url": "gs://b", "forceDestroy": True}


def test_what_was_adopted_takes_over_from_what_is_to_be_deleted() -> None:
    """A killed run has waited for nothing: the next one waits until what it made serves, before it
    deletes what serves. What has replaced nothing, or was in the state before, is as it was."""
    old = resource(SLICE, "a", id="g1", delete=True, outputs={"requests": ["g1", "g1-elsewhere"]})
    older = resource(SLICE, "a", id="g0", delete=True, outputs={})
    new = resource(SLICE, "a", id="g2", outputs={"requests": ["g2"]})
    alone = resource(SLICE, "b", outputs={"requests": ["b-id"]})
    gone = resource(SLICE, "c", pendingReplacement=True)
    again = resource(SLICE, "c", id="c2", outputs={"requests": ["c2"]})
    network = [
        resource(NETWORK, "n", delete=True),
        resource(NETWORK, "n", id="n2", outputs={"a": 1}),
    ]
    before = state(old, older, new, alone, gone, again, *network)

    after = with_predecessors(before, {each["urn"] for each in (new, alone, again, network[0])})

    changed = [each for each in after["resources"] if each not in before["resources"]]
    assert [(each["id"], taken_over_names(each)) for each in changed] == [
        ("g2", ["g1", "g1-elsewhere", "g0"])
    ]
    assert with_predecessors(after, {new["urn"]}) == after
    assert with_predecessors(before, set()) == before


def taken_over_names(resource: dict[str, Any]) -> Any:
    return resource["outputs"]["takesOverFrom"]


def test_references_by_id_and_by_name() -> None:
    """Dependencies are read off ids and names among the inputs, at any depth."""
    network = resource(NETWORK, "net", outputs={"name": "n1"})
    other = resource(NETWORK, "other", outputs={"name": "n2"})
    imported = resource(BUCKET, "b", inputs={"deep": [{"network": "net-id"}], "x": "n2x"})

    assert referenced(imported, [network, other, imported]) == [network["urn"]]


def test_missing_provider_is_noticed() -> None:
    """A resource whose provider is not in the state is not imported."""
    provider = "urn:pulumi:dev::p::pulumi:providers:gcp::g"

    assert missing_parents(resource(NETWORK, "net", provider=f"{provider}::uuid"), state()) == [
        provider
    ]


#: By type: inputs, and the id that they lead to.
IDS: dict[str, tuple[dict[str, Any], str]] = {
    NETWORK: ({"name": "n"}, "projects/p/global/networks/n"),
    "gcp:compute/firewall:Firewall": ({"name": "n"}, "projects/p/global/firewalls/n"),
    "gcp:compute/subnetwork:Subnetwork": (
        {"name": "n", "region": "r"},
        "projects/p/regions/r/subnetworks/n",
    ),
    "gcp:compute/router:Router": (
        {"name": "n", "region": "r"},
        "projects/p/regions/r/routers/n",
    ),
    "gcp:compute/routerNat:RouterNat": (
        {"name": "n", "region": "r", "router": "o"},
        "projects/p/regions/r/routers/o/n",
    ),
    "gcp:dns/managedZone:ManagedZone": ({"name": "z"}, "projects/p/managedZones/z"),
    "gcp:dns/recordSet:RecordSet": (
        {"name": "n.", "managedZone": "z", "type": "A"},
        "projects/p/managedZones/z/rrsets/n./A",
    ),
    "gcp:serviceaccount/account:Account": (
        {"accountId": "a"},
        "projects/p/serviceAccounts/a@p.iam.gserviceaccount.com",
    ),
    BUCKET: ({"name": "b"}, "b"),
    "gcp:storage/bucketIAMMember:BucketIAMMember": (
        {"bucket": "b", "role": "R", "member": "m"},
        "b/b R m",
    ),
    "gcp:secretmanager/secret:Secret": ({"secretId": "s"}, "projects/p/secrets/s"),
    "gcp:secretmanager/secretIamMember:SecretIamMember": (
        {"secretId": "s", "role": "R", "member": "m"},
        "projects/p/secrets/s R m",
    ),
    "gcp:projects/iAMMember:IAMMember": ({"role": "R", "member": "m"}, "p R m"),
    "gcp:projects/service:Service": ({"service": "x.googleapis.com"}, "p/x.googleapis.com"),
    SLICE: ({"queuedResourceId": "q", "zones": ["z"]}, "projects/p/locations/z/queuedResources/q"),
}
TYPES = [kind.type for kind in KINDS if kind.type and not kind.named_by_google]
#: Types whose ids Google chooses.
NAMED_BY_GOOGLE = [kind.type for kind in KINDS if kind.named_by_google]


class TestTable:
    @pytest.mark.parametrize("type_", TYPES)
    def test_id(self, type_: str) -> None:
        """Every type's id is a function of its inputs."""
        inputs, id_ = IDS[type_]

        assert [place.id for place in ids_of(type_, {"project": "p", **inputs})] == [id_]

    @pytest.mark.parametrize("type_", NAMED_BY_GOOGLE)
    def test_no_id(self, type_: str) -> None:
        """What Google names is not looked for by an id."""
        assert ids_of(type_, {"project": "p", "displayName": "n"}) == ()

    def test_a_condition_is_part_of_the_id(self) -> None:
        """Of two grants of a role to one member, the condition's title tells which it is."""
        inputs = {"bucket": "b", "role": "R", "member": "m", "condition": {"title": "t"}}
        (place,) = ids_of("gcp:storage/bucketIAMMember:BucketIAMMember", inputs)
        assert place.id == "b/b R m t"

    @pytest.mark.parametrize("type_", TYPES)
    def test_unknown_part(self, type_: str) -> None:
        """A name of which part is not known yet is not guessed."""
        inputs, _ = IDS[type_]
        for key in inputs:
            value = [UNKNOWN] if key == "zones" else UNKNOWN
            assert ids_of(type_, {"project": "p", **inputs, key: value}) == ()

    def test_one_place_for_each_zone(self) -> None:
        """A request may be in any of its zones."""
        found = ids_of(SLICE, {"project": "p", "queuedResourceId": "q", "zones": ["a", "b"]})

        assert [place.id.split("/")[3] for place in found] == ["a", "b"]

    def test_the_components_use_no_other_type(self) -> None:
        """Each type that the components make has its row."""
        environ = {"PULUMI_DEBUG_PROVIDERS": "gcp:1", **overrides("http://127.0.0.1:1")}
        settings = parse(embedded({"monitoring": {"alert_policies": True}}), "test")

        def program() -> None:
            deploy(settings, project="tpuflex", stack="s", environ=environ)

        plan = run_program(program)
        made = {t for t in plan.counts() if not t.startswith(("tpuflex:index:", "pulumi:"))}
        made.remove(STATE_ID)  # it is in the state alone

        assert made <= {*TYPES, *NAMED_BY_GOOGLE}

    def test_masked_secrets_are_unknown(self) -> None:
        """A blanked value is not taken for the value."""
        assert unknown({"a": ["[secret]"]})
        assert not unknown({"a": ["b"], "c": 1})


OURS, THEIRS = (Names("p", stack, "vllm").description("0" * 20) for stack in ("ours", "theirs"))


class TestJudged:
    @pytest.mark.parametrize(
        ("asked", "has", "presence"),
        [
            (OURS, OURS, Presence.OURS),
            (OURS, THEIRS, Presence.FOREIGN),
            (OURS, f"not {OURS}", Presence.FOREIGN),
            (OURS, "", Presence.FOREIGN),
            ("", "", Presence.UNKNOWN),
        ],
    )
    def test_by_marker(self, asked: str, has: str, presence: Presence) -> None:
        """Only what carries the marker that was asked for is ours."""
        (place,) = ids_of(NETWORK, {"project": "p", "name": "n"})

        answer: JsonObject = {"name": "n", "description": has}
        found = judged(kind_of(NETWORK), {"description": asked}, answer, place, "", ())

        assert found.presence is presence

    def test_node_labels(self) -> None:
        """A queued resource carries its marker in the node that it asks for."""
        inputs = {"project": "p", "queuedResourceId": "q", "zones": ["z"]}
        labels = {"tpuflex-owner": "me"}
        spec: JsonObject = {"multiNodeParams": {"nodeCount": 2}, "node": {"labels": {**labels}}}
        (place,) = ids_of(SLICE, inputs)
        answered: JsonObject = {"name": place.id, "tpu": {"nodeSpec": [spec]}}

        found = judged(kind_of(SLICE), {**inputs, "labels": labels}, answered, place, "", ())

        assert found.presence is Presence.OURS

    def test_any_zone_counts(self) -> None:
        """What is ours in one zone outweighs that nothing is in another."""
        found = best([LookResult(Presence.ABSENT, "a"), LookResult(Presence.OURS, "b")])

        assert found.id == "b"


class TestKnown:
    def test_has_and_may_have(self) -> None:
        """Known are a state's ids, and the names of what is pending in it."""
        inputs = {"project": "p", "role": "R", "member": "m"}
        member = {"resource": resource("gcp:projects/iAMMember:IAMMember", "m", inputs=inputs)}
        del member["resource"]["id"]

        found = known_ids(state(resource(NETWORK, "net"), pending_operations=[member]))

        assert found == {"net-id", "p/R/m"}

    def test_not_what_is_only_read(self) -> None:
        """An existing network is in the state as external: nothing of it is the stack's."""
        existing = resource(NETWORK, "existing", external=True)

        assert known_ids(state(resource(NETWORK, "net"), existing)) == {"net-id"}

    def test_what_is_only_read_is_used(self) -> None:
        """`down` names it as kept: the network, whose URL a subnetwork has, and the subnetwork."""
        link = {"network": "https://www.googleapis.com/compute/v1/projects/h/global/networks/team"}
        type_ = "gcp:compute/subnetwork:Subnetwork"
        own = resource(type_, "own", outputs=link)
        existing = resource(type_, "existing", outputs=link, external=True)

        assert external_paths(state(own, existing, resource(NETWORK, "net"))) == (
            "projects/h/global/networks/team",
            "existing-id",
        )

    def test_an_account_that_is_only_read_is_used(self) -> None:
        """It is named as kept, too, and the stack's own is not."""
        type_ = "gcp:serviceaccount/account:Account"
        found = state(resource(type_, "own"), resource(type_, "existing", external=True))

        assert external_paths(found) == ("existing-id",)
        assert known_ids(found) == {"own-id"}

    def test_zones_of_a_request(self) -> None:
        """A request is legitimate in all of its zones, and where the state remembers one."""
        inputs = {"project": "p", "queuedResourceId": "q", "zones": ["a", "b"]}
        form = "projects/p/locations/{}/queuedResources/q"
        outputs = {"requests": [form.format("c")]}

        found = known_ids(
            state(resource(SLICE, "s", id=form.format("a"), inputs=inputs, outputs=outputs))
        )

        assert found == {form.format(zone) for zone in ("a", "b", "c")}
