"""Check and Diff of the gcp stand-in: what is refused, what changes, what replaces."""

from __future__ import annotations

import pytest

from embedded_cloud.gcp_plugin.diff import diff
from embedded_cloud.gcp_plugin.fields import Group, Groups
from embedded_cloud.gcp_plugin.provider import check
from embedded_cloud.gcp_plugin.resource_type import InvalidIdError, ResourceType
from embedded_cloud.gcp_plugin.settings import ProviderSettings
from embedded_cloud.gcp_plugin.states import known_after
from embedded_cloud.gcp_plugin.tables import TYPES
from embedded_cloud.gcp_plugin.types import Flag, Number, PropertyType, TextMap, Texts
from pulumi_plugin.changes import Diff
from pulumi_plugin.values import SIGNATURE_KEY, UNKNOWN, Properties, Value
from tests.embedded_cloud.gcp_plugin.calls import (
    NETWORK_ID,
    PROJECT,
    REGION,
    SAMPLES,
    SUBNETWORK_ID,
    TOKENS,
)

SETTINGS = ProviderSettings(project=PROJECT, region=REGION)
SEED = b"seed"
ASSET = "c44067f5952c0a294b673a41bacd8c17"


def row(kind: str) -> ResourceType:
    """The row of a sample's type."""
    return TYPES[TOKENS[kind]]


def checked(kind: str, **changes: Value) -> Properties:
    """The checked sample of ``kind``."""
    news: Properties = {k: v for k, v in (SAMPLES[kind] | changes).items() if v is not None}
    inputs, invalid = check(row(kind), news, {}, "it", SEED)
    assert invalid == []
    return inputs


def state(kind: str) -> Properties:
    """The state after a create of the sample, without outputs of the cloud."""
    one, values = row(kind), checked(kind)
    scoped = one.scoped(values, SETTINGS)
    return scoped | known_after(one, {}, scoped, SETTINGS)


def difference(kind: str, **changes: Value) -> Diff:
    """The diff between the sample's state and the changed sample."""
    return diff(row(kind), state(kind), checked(kind, **changes), SETTINGS)


def refusals(kind: str, **changes: Value) -> dict[str, str]:
    """The reasons of the refusals of a changed sample, by path."""
    news: Properties = {k: v for k, v in (SAMPLES[kind] | changes).items() if v is not None}
    return {error.path: error.reason for error in check(row(kind), news, {}, "it", SEED)[1]}


@pytest.mark.parametrize(
    ("kind", "change", "path", "reason"),
    [
        ("Network", {"autoCreateSubnets": True}, "autoCreateSubnets", "has no such property"),
        ("Network", {"params": {}}, "params", "does not serve this property"),
        ("Network", {"selfLink": "x"}, "selfLink", "computes this property"),
        ("Network", {"mtu": "big"}, "mtu", "expected a number, got a string"),
        ("Network", {"mtu": 1460.5}, "mtu", "expected a whole number"),
        ("Network", {"autoCreateSubnetworks": "yes"}, "autoCreateSubnetworks", "a boolean"),
        ("Network", {"description": []}, "description", "expected a string, got a list"),
        ("Subnetwork", {"network": None}, "network", "missing required property"),
        ("Router", {"bgp": {}}, "bgp.asn", "missing required property"),
        ("Router", {"bgp": {"asn": 1, "x": 1}}, "bgp.x", "no such property is served"),
        ("Router", {"bgp": 3}, "bgp", "expected an object"),
        ("Firewall", {"allows": [{"ports": []}]}, "allows[0].protocol", "missing required"),
        ("Firewall", {"allows": {}}, "allows", "expected a list"),
        ("Firewall", {"sourceTags": "a"}, "sourceTags", "expected a list, got a string"),
        ("Firewall", {"sourceRanges": None}, "sourceRanges", "one of sourceTags"),
        ("Firewall", {"denies": [{"protocol": "all"}]}, "allows", "exactly one of allows"),
        ("Bucket", {"labels": {"a": {}}}, "labels.a", "expected a string, got an object"),
        ("Bucket", {"labels": "a"}, "labels", "expected an object, got a string"),
        ("Bucket", {"website": {SIGNATURE_KEY: ASSET}}, f"website.{SIGNATURE_KEY}", "no such"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    kind: str, change: Properties, path: str, reason: str
) -> None:
    """A refusal names the property and says what is wrong with it."""
    refused = refusals(kind, **change)
    assert list(refused) == [path]
    assert reason in refused[path]


@pytest.mark.parametrize("kind", TOKENS)
def test_every_unserved_property_is_refused(kind: str) -> None:
    """Properties of the published class that the stand-in does not serve are not ignored."""
    for name in row(kind).unserved:
        assert "does not serve this property" in refusals(kind, **{name: True})[name]


def test_an_egress_rule_needs_no_source() -> None:
    """The rule about sources applies to ingress only."""
    assert refusals("Firewall", direction="EGRESS", sourceRanges=None) == {}


def test_defaults_are_filled_at_every_level() -> None:
    """Inputs carry the published plugin's defaults, also inside objects."""
    inputs = checked("Subnetwork", logConfig={"flowSampling": "0.25"})
    assert inputs["logConfig"] == {
        "aggregationInterval": "INTERVAL_5_SEC",
        "filterExpr": "true",
        "flowSampling": 0.25,
        "metadata": "INCLUDE_ALL_METADATA",
    }
    assert checked("Network", autoCreateSubnetworks=None)["autoCreateSubnetworks"] is True


def test_strings_are_taken_for_other_scalars_as_the_published_plugin_does() -> None:
    """Configuration values are strings; the published plugin converts them."""
    inputs = checked("Network", mtu="1500", autoCreateSubnetworks="false", description=7)
    assert (inputs["mtu"], inputs["autoCreateSubnetworks"]) == (1500, False)
    assert inputs["description"] == "7"


def test_unknown_values_have_every_type() -> None:
    """A preview with values that are not known yet is not refused."""
    for kind, sample in SAMPLES.items():
        inputs, invalid = check(row(kind), dict.fromkeys(sample, UNKNOWN), {}, "it", SEED)
        assert invalid == []
        assert all(inputs[name] == UNKNOWN for name in sample)


def test_a_name_is_generated_once() -> None:
    """Without a name, the logical name and some digits are used, and kept on updates."""
    news: Properties = {"autoCreateSubnetworks": False}
    first, _ = check(row("Network"), news, {}, "My_net", SEED)
    assert str(first["name"]).startswith("my-net-")
    assert len(str(first["name"])) == len("my-net-") + 7
    again, _ = check(row("Network"), news, first, "My_net", b"other")
    assert again["name"] == first["name"]


@pytest.mark.parametrize("kind", TOKENS)
def test_the_same_inputs_are_no_change(kind: str) -> None:
    """The diff of a resource with its own inputs is empty."""
    assert difference(kind).changes == {}


def other(type_: PropertyType, value: Value) -> Value:
    """A value of ``type_`` that is not ``value``."""
    if isinstance(type_, Flag):
        return not value
    if isinstance(type_, Number):
        return 77
    if isinstance(type_, Texts):
        return ["something-else"]
    if isinstance(type_, TextMap):
        return {"something": "else"}
    if isinstance(type_, Group):
        before = value if isinstance(value, dict) else {}
        inner: Properties = {
            item.name: other(item.type, before.get(item.name))
            for item in type_.fields
            if item.is_input
        }
        return inner
    if isinstance(type_, Groups):
        return [other(Group(type_.fields), None)]
    return "something-else"


@pytest.mark.parametrize("kind", TOKENS)
def test_a_change_replaces_exactly_when_the_property_is_immutable(kind: str) -> None:
    """For every property, changed alone."""
    one = row(kind)
    for item in one.inputs:
        news = checked(kind) | {item.name: other(item.type, state(kind).get(item.name))}
        changes = diff(one, state(kind), news, SETTINGS)
        assert item.name in changes.changed, item.name
        replaces = item.immutable or item.name in one.replaces_when
        assert (item.name in changes.replacing) is replaces, item.name


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Subnetwork", {"network": "net"}),
        ("Subnetwork", {"network": f"https://www.googleapis.com/compute/v1/{NETWORK_ID}"}),
        ("Subnetwork", {"region": f"projects/{PROJECT}/regions/{REGION}"}),
        ("Firewall", {"sourceRanges": ["192.168.0.0/16", "10.0.0.0/8"]}),
        (
            "Firewall",
            {"allows": [{"protocol": "ICMP"}, {"protocol": "TCP", "ports": ["22", "8000"]}]},
        ),
        ("Bucket", {"location": REGION.upper()}),
        ("Bucket", {"requesterPays": False, "cors": []}),
        ("BucketIAMMember", {"bucket": "b/plugin-bucket-1"}),
        ("SecretIamMember", {"secretId": "api-key"}),
        (
            "RouterNat",
            {
                "subnetworks": [
                    {
                        "name": f"https://host/compute/v1/{SUBNETWORK_ID}",
                        "sourceIpRangesToNats": ["ALL_IP_RANGES"],
                    }
                ]
            },
        ),
    ],
)
def test_another_spelling_is_no_change(kind: str, change: Properties) -> None:
    """Links and names, order in sets, letter case."""
    assert difference(kind, **change).changes == {}


@pytest.mark.parametrize(
    ("cidr", "replaces"),
    [("10.0.0.0/20", False), ("10.0.0.0/25", True), ("10.1.0.0/24", True), (UNKNOWN, False)],
)
def test_a_subnetwork_grows_in_place_and_is_replaced_otherwise(cidr: str, replaces: bool) -> None:
    """A range can be expanded; everything else needs a new subnetwork."""
    changes = difference("Subnetwork", ipCidrRange=cidr)
    assert bool(changes.replacing) is replaces


def test_an_unknown_immutable_value_is_a_replacement() -> None:
    """When the network is replaced, a preview shows that its subnetworks will be, too."""
    assert difference("Subnetwork", network=UNKNOWN).replacing == ("network",)


def test_d5_a_resource_whose_name_the_program_gives_is_deleted_first() -> None:
    """Whether its id stays the same, as with another description, or not, as in another region
    or under another name; the published plugin looks at the name being given and no further."""
    replaced = {"description": "x"}, {"name": "other"}
    for changes in (difference("Network", **change) for change in replaced):
        assert changes.replaces
        assert changes.delete_before_replace
    moved = difference("Subnetwork", region="us-west1")
    assert (moved.replacing, moved.delete_before_replace) == (("region",), True)
    assert not difference("Network", routingMode="GLOBAL").delete_before_replace


def test_d5_a_resource_with_a_generated_name_is_created_first() -> None:
    """Two generated names differ, so that both can exist; the check says which were made."""
    generated = checked("Subnetwork", name=None)
    assert generated["__defaults"] == ["name"]
    assert "__defaults" not in checked("Subnetwork")

    moved = diff(
        row("Subnetwork"),
        state("Subnetwork"),
        generated | {"region": "us-west1"},
        SETTINGS,
        defaults=["name"],
    )

    assert moved.replaces
    assert not moved.delete_before_replace


def test_another_project_of_the_provider_replaces() -> None:
    """A resource with the provider's default project is replaced when that changes."""
    changes = diff(row("Network"), state("Network"), checked("Network"), ProviderSettings("other"))
    assert changes.replacing == ("project",)


def test_ignored_changes_are_left_out() -> None:
    """``ignore_changes`` covers a property and what is inside it."""
    news = checked("Bucket", labels={"env": "prod"}, storageClass="NEARLINE")
    changes = diff(row("Bucket"), state("Bucket"), news, SETTINGS, ["labels"])
    assert changes.changed == ("storageClass",)


def test_changes_inside_objects_and_maps_are_named_one_by_one() -> None:
    """The detailed diff says which label and which inner property changes."""
    changed = difference("Bucket", labels={"env": "prod", "a-b": "x"})
    assert changed.changes.keys() == {"labels.env", 'labels["a-b"]'}
    changed = difference("RouterNat", logConfig={"enable": True, "filter": "ALL"})
    assert changed.changes.keys() == {"logConfig.filter"}


def test_an_id_without_an_accepted_form_is_refused() -> None:
    """The refusal lists the forms."""
    with pytest.raises(InvalidIdError, match=r"accepted form: projects/\{project\}/secrets"):
        row("Secret").identity.parse("a/b/c/d", SETTINGS)
