"""Cloud Monitoring: alert policies, notification channels and dashboards."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.clock import ManualClock, rfc3339
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, Api, error_of

V3 = f"v3/projects/{PROJECT}"
POLICIES, CHANNELS = f"{V3}/alertPolicies", f"{V3}/notificationChannels"
DASHBOARDS = f"v1/projects/{PROJECT}/dashboards"
OWN = 'metric.type="custom.googleapis.com/renewed" AND resource.type="global"'
THRESHOLD = {
    "filter": 'metric.type="tpu.googleapis.com/memory/usage" AND resource.type="tpu_worker"',
    "comparison": "COMPARISON_GT",
    "thresholdValue": 5,
    "duration": "120s",
    "aggregations": [{"alignmentPeriod": "60s", "perSeriesAligner": "ALIGN_MEAN"}],
}
CONDITION = {"displayName": "too much", "conditionThreshold": THRESHOLD}
POLICY = {"displayName": "memory", "combiner": "OR", "conditions": [CONDITION]}
LOGS = {"displayName": "a boot failed", "conditionMatchedLog": {"filter": "severity>=ERROR"}}
RATE = {"alertStrategy": {"notificationRateLimit": {"period": "300s"}}}
EMAIL = {"type": "email", "labels": {"email_address": "a@example.com"}, "displayName": "on call"}
DASHBOARD = {
    "displayName": "boots",
    "gridLayout": {"columns": 2, "widgets": [{"title": "t", "text": {"content": "c"}}]},
}


def test_a_policy_from_creation_to_deletion(api: Api, clock: ManualClock) -> None:
    """The service gives names, and says when and by whom; a mask changes what it names, its absence
    all, and conditions keep their names."""
    made = api.call("POST", POLICIES, body=POLICY).json()
    path = f"v3/{made['name']}"
    (condition,) = made["conditions"]
    assert condition["name"].startswith(f"{made['name']}/conditions/")
    assert made["enabled"] is True
    assert made["mutationRecord"] == made["creationRecord"]
    clock.advance(60)
    sent = {"enabled": False, "displayName": "other"}
    changed = api.call("PATCH", path, body=sent, updateMask="enabled").json()
    assert {**made, "enabled": False} | {"mutationRecord": changed["mutationRecord"]} == changed
    assert changed["mutationRecord"]["mutateTime"] == rfc3339(clock.now())
    whole = {**POLICY, "displayName": "other", "conditions": [condition, CONDITION]}
    replaced = api.call("PATCH", path, body=whole).json()
    assert replaced["conditions"][0] == condition
    assert (replaced["enabled"], replaced["displayName"]) == (False, "other")
    listed = api.call("GET", POLICIES).json()
    assert listed == {"alertPolicies": [replaced], "totalSize": 1}
    assert api.call("GET", path).json() == replaced
    assert api.call("DELETE", path).json() == {}
    for method in ("GET", "DELETE"):
        assert api.call(method, path).status_code == 404


def threshold(**change: Any) -> dict[str, Any]:
    """A policy with another threshold."""
    return {"conditions": [{**CONDITION, "conditionThreshold": {**THRESHOLD, **change}}]}


ABSENT = {"filter": OWN, "duration": "60s"}
NO_RESOURCE = 'metric.type="tpu.googleapis.com/memory/usage"'


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"displayName": ""}, 400, "alert_policy.display_name"),
        ({"combiner": "COMBINE_UNSPECIFIED"}, 400, "combiner must be specified"),
        ({"conditions": []}, 400, "from one to 6 conditions"),
        ({"conditions": [CONDITION] * 7}, 400, "from one to 6 conditions"),
        ({"conditions": [{"displayName": "a"}]}, 400, "Condition subtype"),
        ({"conditions": [{**CONDITION, **LOGS}]}, 400, "Condition subtype"),
        ({"conditions": [{"conditionThreshold": THRESHOLD}]}, 400, "conditions[0].display_name"),
        ({"conditions": [LOGS, CONDITION], **RATE}, 400, "log matching condition can only"),
        ({"conditions": [LOGS]}, 400, "notification_rate_limit"),
        ({"conditions": [{**CONDITION, "name": "x"}]}, 400, "no such condition"),
        (threshold(filter="a OR b"), 400, "condition_threshold.filter had an invalid value"),
        (threshold(filter=NO_RESOURCE), 400, 'must specify a restriction on "resource.type"'),
        (threshold(filter=OWN), 404, "Cannot find metric that matches type"),
        (threshold(duration="90s"), 400, "condition_threshold.duration"),
        (threshold(comparison="COMPARISON_EQ"), 400, "condition_threshold.comparison"),
        (threshold(aggregations=[{"alignmentPeriod": "30s"}]), 400, "at least 60 seconds"),
        ({"notificationChannels": ["projects/p/notificationChannels/1"]}, 400, "does not exist"),
    ],
)
def test_what_a_policy_may_not_be(
    api: Api, change: dict[str, Any], status: int, message: str
) -> None:
    """Refused by the name of the field, when it is made and when it is changed."""
    made = api.call("POST", POLICIES, body=POLICY).json()
    body = {**POLICY, **change}
    for refused in (
        api.call("POST", POLICIES, body=body),
        api.call("PATCH", f"v3/{made['name']}", body=body),
    ):
        assert refused.status_code == status, refused.text
        assert message in error_of(refused)[2]
    assert api.call("GET", POLICIES).json()["alertPolicies"] == [made]


def test_policies_on_logs_and_on_absence(api: Api) -> None:
    """A log matches by itself; an absence is two minutes at least, and its metric is there."""
    logs = {**POLICY, "conditions": [LOGS], **RATE}
    assert api.call("POST", POLICIES, body=logs).status_code == 200
    metric = {"type": "custom.googleapis.com/renewed", "metricKind": "GAUGE", "valueType": "INT64"}
    api.call("POST", f"{V3}/metricDescriptors", body=metric).raise_for_status()
    for duration, status in (("60s", 400), ("120s", 200)):
        absent = {"displayName": "a", "conditionAbsent": {**ABSENT, "duration": duration}}
        body = {**POLICY, "conditions": [absent]}
        assert api.call("POST", POLICIES, body=body).status_code == status


def test_a_channel_that_a_policy_uses(api: Api) -> None:
    """It is deleted by force only, and then the policy has lost it."""
    channel = api.call("POST", CHANNELS, body=EMAIL).json()
    path = f"v3/{channel['name']}"
    body = {**POLICY, "notificationChannels": [channel["name"]]}
    policy = api.call("POST", POLICIES, body=body).json()
    changed = api.call("PATCH", path, body={"enabled": False}, updateMask="enabled").json()
    assert (changed["enabled"], changed["labels"]) == (False, EMAIL["labels"])
    assert len(changed["mutationRecords"]) == 2
    assert api.call("GET", CHANNELS).json() == {"notificationChannels": [changed], "totalSize": 1}
    assert error_of(api.call("DELETE", path))[:2] == (400, "FAILED_PRECONDITION")
    assert api.call("GET", path).json() == changed
    assert api.call("DELETE", path, force="true").json() == {}
    assert api.call("GET", path).status_code == 404
    assert api.call("GET", f"v3/{policy['name']}").json()["notificationChannels"] == []


@pytest.mark.parametrize(
    "change",
    [
        {"type": "slack", "labels": {"auth_token": "x"}},
        {"labels": {}},
        {"labels": {"email_address": "a@b.c", "number": "1"}},
    ],
)
def test_what_a_channel_may_not_be(api: Api, change: dict[str, Any]) -> None:
    """Of a type that keeps a secret, or without just the label of its type."""
    assert api.call("POST", CHANNELS, body={**EMAIL, **change}).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", POLICIES, {"filter": 'display_name="a"'}),
        ("GET", CHANNELS, {"orderBy": "type"}),
        ("PATCH", "", {"updateMask": "documentation.content"}),
    ],
)
def test_what_is_not_spoken_is_refused(
    api: Api, method: str, path: str, query: dict[str, str]
) -> None:
    """Sorted and filtered lists, and masks of parts of fields."""
    made = api.call("POST", POLICIES, body=POLICY).json()
    body = POLICY if method == "PATCH" else None
    assert api.call(method, path or f"v3/{made['name']}", body=body, **query).status_code == 501


def test_a_dashboard_from_creation_to_deletion(api: Api) -> None:
    """Its etag tells whether somebody has changed it since; a dry run changes nothing."""
    assert api.call("POST", DASHBOARDS, body=DASHBOARD, validateOnly="true").status_code == 200
    assert api.call("GET", DASHBOARDS).json() == {}
    made = api.call("POST", DASHBOARDS, body=DASHBOARD).json()
    path = f"v1/{made['name']}"
    assert made["gridLayout"]["columns"] == "2"
    changed = api.call("PATCH", path, body={**made, "displayName": "other"}).json()
    assert changed["etag"] != made["etag"]
    stale = api.call("PATCH", path, body={**made, "displayName": "third"})
    assert error_of(stale)[:2] == (409, "ABORTED")
    assert api.call("GET", path).json() == changed
    named = {**DASHBOARD, "name": f"projects/{PROJECT}/dashboards/mine"}
    assert api.call("POST", DASHBOARDS, body=named).json()["name"] == named["name"]
    assert api.call("POST", DASHBOARDS, body=named).status_code == 409
    assert len(api.call("GET", DASHBOARDS).json()["dashboards"]) == 2
    assert api.call("DELETE", path).json() == {}
    assert api.call("GET", path).status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"displayName": ""},
        {"name": "projects/other-project/dashboards/a"},
        {"rowLayout": {}},
        {"tabLayout": {}},
    ],
)
def test_what_a_dashboard_may_not_be(api: Api, change: dict[str, Any]) -> None:
    """Without a title, elsewhere, of two layouts, or of one that there is not."""
    assert api.call("POST", DASHBOARDS, body={**DASHBOARD, **change}).status_code == 400


def test_the_api_is_enabled_and_roles_decide(cloud: EmbeddedCloud) -> None:
    """A strict cloud asks for the API, and for the permission of the method."""
    api = Api(cloud.url)
    apis = {"apis": {"enforced": True, "bare_projects": True}}
    api.call("POST", "_emulator/strictness", body=apis).raise_for_status()
    for path in (POLICIES, DASHBOARDS):
        assert "Cloud Monitoring API has not been used" in error_of(api.call("GET", path))[2]
    service = f"v1/projects/{PROJECT}/services/monitoring.googleapis.com"
    api.call("POST", f"{service}:enable", body={}).raise_for_status()
    missing = {
        "apis": {"enforced": False},
        "permissions": {"missing": ["monitoring.dashboards.list"]},
    }
    api.call("POST", "_emulator/strictness", body=missing).raise_for_status()
    assert "monitoring.dashboards.list" in error_of(api.call("GET", DASHBOARDS))[2]
    assert api.call("GET", POLICIES).status_code == 200
