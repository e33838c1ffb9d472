"""Every type that the gcp stand-in serves, from create to delete, against the embedded cloud."""

from __future__ import annotations

import grpc
import pytest

from embedded_cloud.core.projects import project_number
from embedded_cloud.server import EmbeddedCloud
from pulumi_plugin.serve import RunningPlugin
from pulumi_plugin.values import UNKNOWN, Properties, Value
from tests.embedded_cloud.gcp_plugin.calls import (
    EMAIL,
    NETWORK_ID,
    POOL_ID,
    PROJECT,
    REGION,
    RING_ID,
    SAMPLES,
    SUBNETWORK_ID,
    TOKENS,
    Calls,
    dashboard,
    make,
)

ROUTER_ID = f"projects/{PROJECT}/regions/{REGION}/routers/router"
# Google names it by the project's number.
DASHBOARD_ID = f"projects/{project_number(PROJECT)}/dashboards/3a8dc21c-fc0d-52a0-9ea8-e8665d94f07c"

IDS = {
    "Account": f"projects/{PROJECT}/serviceAccounts/{EMAIL}",
    "Bucket": "plugin-bucket-1",
    "BucketIAMMember": f"b/plugin-bucket-1/roles/storage.objectViewer/serviceAccount:{EMAIL}",
    "Firewall": f"projects/{PROJECT}/global/firewalls/fw",
    "IAMMember": (
        f"{PROJECT}/roles/logging.logWriter/serviceAccount:{EMAIL}"
        "/soon//request.time < timestamp('2030-01-01')"
    ),
    "ManagedZone": f"projects/{PROJECT}/managedZones/zone",
    "Network": NETWORK_ID,
    "RecordSet": f"projects/{PROJECT}/managedZones/zone/rrsets/*.example.com./A",
    "Router": ROUTER_ID,
    "RouterNat": f"{PROJECT}/{REGION}/router/nat",
    "Secret": f"projects/{PROJECT}/secrets/api-key",
    "SecretIamMember": (
        f"projects/{PROJECT}/secrets/api-key"
        f"/roles/secretmanager.secretAccessor/serviceAccount:{EMAIL}"
    ),
    "Service": f"{PROJECT}/tpu.googleapis.com",
    "AccountIAMMember": (
        f"projects/{PROJECT}/serviceAccounts/{EMAIL}/roles/iam.workloadIdentityUser"
        f"/serviceAccount:{EMAIL}"
    ),
    "CryptoKey": f"{RING_ID}/cryptoKeys/state",
    "CryptoKeyIAMMember": (
        f"{RING_ID}/cryptoKeys/state/roles/cloudkms.cryptoKeyDecrypter/serviceAccount:{EMAIL}"
    ),
    "IAMCustomRole": f"projects/{PROJECT}/roles/reader",
    "KeyRing": RING_ID,
    "AlertPolicy": f"projects/{PROJECT}/alertPolicies/3350249360902907106",
    "Dashboard": DASHBOARD_ID,
    "WorkloadIdentityPool": POOL_ID,
    "WorkloadIdentityPoolProvider": f"{POOL_ID}/providers/github",
    "Subnetwork": SUBNETWORK_ID,
}

#: Ids to import: the canonical form and the documented short ones.
IMPORTS = [
    ("Account", IDS["Account"]),
    ("Account", EMAIL),
    ("Bucket", "plugin-bucket-1"),
    ("Bucket", f"{PROJECT}/plugin-bucket-1"),
    (
        "BucketIAMMember",
        f"b/plugin-bucket-1 roles/storage.objectViewer serviceAccount:{EMAIL}",
    ),
    ("Firewall", IDS["Firewall"]),
    ("Firewall", "fw"),
    ("ManagedZone", IDS["ManagedZone"]),
    ("ManagedZone", f"{PROJECT}/zone"),
    ("ManagedZone", "zone"),
    ("Network", IDS["Network"]),
    ("Network", f"{PROJECT}/net"),
    ("Network", "net"),
    ("RecordSet", IDS["RecordSet"]),
    ("RecordSet", f"{PROJECT}/zone/*.example.com./A"),
    ("RecordSet", "zone/*.example.com./A"),
    ("Router", IDS["Router"]),
    ("Router", f"{REGION}/router"),
    ("RouterNat", IDS["RouterNat"]),
    ("RouterNat", f"{ROUTER_ID}/nat"),
    ("RouterNat", "router/nat"),
    ("Secret", IDS["Secret"]),
    ("Secret", "api-key"),
    (
        "SecretIamMember",
        f"projects/{PROJECT}/secrets/api-key roles/secretmanager.secretAccessor "
        f"serviceAccount:{EMAIL}",
    ),
    ("Service", IDS["Service"]),
    ("CryptoKey", IDS["CryptoKey"]),
    ("IAMCustomRole", IDS["IAMCustomRole"]),
    ("KeyRing", IDS["KeyRing"]),
    ("AlertPolicy", IDS["AlertPolicy"]),
    ("AlertPolicy", f"{PROJECT} {IDS['AlertPolicy']}"),
    ("KeyRing", f"{REGION}/states"),
    ("WorkloadIdentityPool", IDS["WorkloadIdentityPool"]),
    ("WorkloadIdentityPool", "deploys"),
    ("WorkloadIdentityPoolProvider", IDS["WorkloadIdentityPoolProvider"]),
    ("Subnetwork", IDS["Subnetwork"]),
    ("Subnetwork", f"{PROJECT}/{REGION}/sub"),
    ("Subnetwork", "sub"),
]


def condition(query: str) -> Value:
    """A condition of an alert policy."""
    promql: Value = {"query": query, "duration": "60s", "disableMetricValidation": True}
    return {"displayName": "Other", "conditionPrometheusQueryLanguage": promql}


@pytest.mark.parametrize("kind", TOKENS)
def test_a_resource_lives_from_create_to_delete(calls: Calls, kind: str) -> None:
    """Create returns the published id, a diff then shows nothing, and delete removes it."""
    held = make(calls, kind)
    assert held.id == IDS[kind]
    assert not calls.diff(held, SAMPLES[kind]).detailedDiff
    refreshed = calls.read(held)
    assert refreshed == held
    calls.delete(held)
    if kind not in ("KeyRing", "CryptoKey"):  # Google deletes neither.
        assert calls.read(held) is None
    if kind != "Bucket":  # The published plugin fails on one that is gone.
        calls.delete(held)


@pytest.mark.parametrize(("kind", "identity"), IMPORTS)
def test_an_import_finds_the_resource_and_nothing_to_change(
    calls: Calls, kind: str, identity: str
) -> None:
    """Every documented form of an id imports what a create would have returned.

    of labels and annotations only all that there are, and none as the program's own."""
    # What only the program knows cannot be read from the API.
    made = make(calls, kind, **({"disableOnDestroy": False} if kind == "Service" else {}))
    imported = calls.import_(kind, identity)
    assert imported is not None
    assert imported.id == made.id
    news = SAMPLES[kind] | ({"disableOnDestroy": False} if kind == "Service" else {})
    owned = {"labels", "annotations", "pulumiLabels"} & set(made.state)
    assert {path.partition(".")[0] for path in calls.diff(imported, news).detailedDiff} <= owned
    assert {name for name, value in made.state.items() if value not in ("", {}, [], False)} <= set(
        imported.state
    )
    for name in owned:
        assert imported.state[name] == {}
    for name in owned - {"pulumiLabels"}:
        effective = f"effective{name.capitalize()}"
        assert imported.state[effective] == made.state[effective]


def test_a_grant_on_a_condition_is_imported_by_the_condition_s_title(calls: Calls) -> None:
    """The last part of the id tells it from another grant of the role to the same member."""
    plain = make(calls, "BucketIAMMember")
    condition: Value = {"title": "cache_only", "expression": "resource.name.startsWith('x')"}
    inputs = SAMPLES["BucketIAMMember"] | {"condition": condition}
    made = calls.create("BucketIAMMember", inputs)
    identity = f"b/plugin-bucket-1 roles/storage.objectViewer serviceAccount:{EMAIL}"
    imported = calls.import_("BucketIAMMember", f"{identity} cache_only")
    assert imported is not None
    assert (imported.id, imported.state) == (made.id, made.state)
    assert not calls.diff(imported, inputs).detailedDiff
    assert imported.id != plain.id
    assert calls.import_("BucketIAMMember", f"{identity} other") is None
    elsewhere = identity.replace("plugin-bucket-1", "no-such-bucket")
    assert calls.import_("BucketIAMMember", f"{elsewhere} cache_only") is None


@pytest.mark.parametrize("kind", TOKENS)
def test_a_preview_shows_what_is_known_and_creates_nothing(
    calls: Calls, world: tuple[EmbeddedCloud, RunningPlugin], kind: str
) -> None:
    """It returns the inputs, and as unknown what only the cloud can tell."""
    before = world[0].cloud.inventory()
    planned = calls.create(kind, SAMPLES[kind], preview=True)
    assert planned.id == ""
    for name, value in planned.inputs.items():
        assert planned.state[name] == value
    assert UNKNOWN in planned.state.values() or kind in (
        "Dashboard",
        "KeyRing",
        "RecordSet",
        "Service",
    )
    assert world[0].cloud.inventory() == before


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Account", {"displayName": "Other", "description": "why"}),
        ("Account", {"disabled": True}),
        ("Bucket", {"labels": {"env": "prod", "team": "x"}}),
        ("Bucket", {"labels": {}}),
        ("Bucket", {"lifecycleRules": [], "versioning": {"enabled": False}}),
        ("Bucket", {"storageClass": "NEARLINE", "forceDestroy": True}),
        ("Firewall", {"sourceRanges": ["172.16.0.0/12"], "disabled": True, "priority": 900}),
        ("Firewall", {"allows": [{"protocol": "udp", "ports": ["53"]}], "logConfig": None}),
        ("ManagedZone", {"labels": {"team": "x"}, "description": "why", "forceDestroy": True}),
        ("RecordSet", {"ttl": 60, "rrdatas": ["10.0.0.3"]}),
        ("Network", {"routingMode": "GLOBAL"}),
        ("Router", {"bgp": {"asn": 64515}, "description": "changed"}),
        ("RouterNat", {"minPortsPerVm": 128, "logConfig": {"enable": True, "filter": "ALL"}}),
        ("Secret", {"labels": {"env": "prod"}, "annotations": {"note": "y", "more": "z"}}),
        ("Secret", {"labels": None}),
        ("Subnetwork", {"ipCidrRange": "10.0.0.0/20"}),
        ("CryptoKey", {"labels": {"team": "x"}}),
        ("AlertPolicy", {"userLabels": {"team": "x"}, "severity": "WARNING", "enabled": False}),
        ("AlertPolicy", {"conditions": [condition("absent(up)")], "documentation": None}),
        ("Dashboard", {"dashboardJson": dashboard("Other")}),
        ("IAMCustomRole", {"permissions": ["tpu.nodes.get"], "title": "Less"}),
        ("WorkloadIdentityPool", {"displayName": "Other", "disabled": True}),
        ("WorkloadIdentityPoolProvider", {"attributeCondition": "assertion.repository_id == '2'"}),
        ("Subnetwork", {"privateIpGoogleAccess": False, "logConfig": None}),
    ],
)
def test_a_mutable_change_is_made_in_place_and_stays(
    calls: Calls, kind: str, change: Properties
) -> None:
    """After an update the cloud has the program's values, and a refresh shows no change."""
    held = make(calls, kind)
    merged = SAMPLES[kind] | change
    news: Properties = {k: v for k, v in merged.items() if v is not None}
    answer = calls.diff(held, news)
    assert answer.diffs
    assert not answer.replaces
    updated = calls.update(held, news)
    assert not calls.diff(updated, news).detailedDiff
    assert calls.read(updated) == updated


def test_a_deleted_role_is_restored(calls: Calls) -> None:
    """Its id stays taken for weeks, so a create gives it back, with the program's permissions."""
    calls.delete(make(calls, "IAMCustomRole"))

    again = calls.create(
        "IAMCustomRole", SAMPLES["IAMCustomRole"] | {"permissions": ["tpu.nodes.get"]}
    )

    assert again.state["permissions"] == ["tpu.nodes.get"]
    assert calls.read(again) == again


def test_a_deleted_pool_is_gone_and_keeps_its_id(calls: Calls) -> None:
    """As in the published plugin: it is not restored by a create."""
    calls.delete(make(calls, "WorkloadIdentityPool"))

    with pytest.raises(grpc.RpcError, match="already exists"):
        make(calls, "WorkloadIdentityPool")


def test_a_dashboard_is_imported_by_the_project_s_id(calls: Calls) -> None:
    """Its own answers name it by the project's number; both are the same dashboard."""
    make(calls, "Dashboard")
    imported = calls.import_("Dashboard", DASHBOARD_ID.replace(project_number(PROJECT), PROJECT))
    assert imported is not None
    assert imported.state["project"] == PROJECT
    assert not calls.diff(imported, SAMPLES["Dashboard"]).detailedDiff


def test_a_dashboard_that_names_what_google_leaves_out_differs_for_ever(calls: Calls) -> None:
    """Zeros and empty objects are in no answer (terraform-provider-google#16173): a program that
    has them in its JSON sees a change in every preview."""
    zero = dashboard("Load").replace('"width": 24', '"width": 24, "xPos": 0')
    held = calls.create("Dashboard", {"dashboardJson": zero})
    assert calls.diff(held, {"dashboardJson": zero}).diffs == ["dashboardJson"]
