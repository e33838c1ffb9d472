"""Alert policies, notification channels and dashboards over HTTP, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.core.projects import project_number
from tests.embedded_cloud.api import PROJECT, Api

POLICIES = f"v3/projects/{PROJECT}/alertPolicies"
CHANNELS = f"v3/projects/{PROJECT}/notificationChannels"
DASHBOARDS = f"v1/projects/{PROJECT}/dashboards"
TILE = {"width": 24, "height": 16, "widget": {"text": {"content": "x"}}}


def promql(**changes: Any) -> dict[str, Any]:
    """A condition by PromQL."""
    query = {"query": "workload_googleapis_com:vllm_up == 0", "disableMetricValidation": True}
    return {"displayName": "Down", "conditionPrometheusQueryLanguage": {**query, **changes}}


def policy(**changes: Any) -> dict[str, Any]:
    """An alert policy."""
    return {"displayName": "p/Down", "combiner": "OR", "conditions": [promql()], **changes}


def made(api: Api, path: str, body: Any) -> Any:
    """What is made of ``body``, which must be accepted."""
    answer = api.call("POST", path, body=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_google_names_a_policy_and_its_conditions(api: Api) -> None:
    """Two of one display name are two policies; a changed condition with its name keeps it."""
    first, second = made(api, POLICIES, policy()), made(api, POLICIES, policy())
    assert first["name"] != second["name"]
    assert first["enabled"] is True
    condition = first["conditions"][0]
    assert condition["name"].startswith(f"{first['name']}/conditions/")

    changed = [{**promql(duration="60s"), "name": condition["name"]}, promql()]
    answer = api.call(
        "PATCH", f"v3/{first['name']}", body={"conditions": changed}, updateMask="conditions"
    ).json()

    assert answer["displayName"] == "p/Down"
    kept, new = answer["conditions"]
    assert kept["name"] == condition["name"] != new["name"]
    listed = api.call("GET", POLICIES).json()
    assert listed["totalSize"] == 2
    assert api.call("DELETE", f"v3/{first['name']}").json() == {}
    assert [each["name"] for each in api.call("GET", POLICIES).json()["alertPolicies"]] == [
        second["name"]
    ]


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"conditions": []}, 400, "between 1 and 6 conditions"),
        ({"conditions": [promql()] * 7}, 400, "between 1 and 6 conditions"),
        ({"conditions": [promql(query="")]}, 400, "Missing required field"),
        ({"conditions": [promql(evaluationInterval="45s")]}, 400, "multiple of 30 seconds"),
        ({"conditions": [promql(duration="-1s")]}, 400, "must not be negative"),
        ({"conditions": [promql(duration="90000s")]}, 400, "at most a day"),
        ({"conditions": [promql(disableMetricValidation=False)]}, 404, "Cannot find metric"),
        ({"userLabels": {"Env": "x"}}, 400, "lower-case"),
        ({"documentation": {"content": "x" * 8193}}, 400, "at most 8192"),
        ({"notificationChannels": ["mail"]}, 400, "Name must begin with"),
        (
            {"notificationChannels": [f"projects/{PROJECT}/notificationChannels/1"]},
            404,
            "Notification channel not found",
        ),
        (
            {"conditions": [{"displayName": "x", "conditionMatchedLog": {"filter": "x"}}]},
            501,
            "conditionMatchedLog",
        ),
    ],
)
def test_a_policy_that_google_refuses_is_refused(
    api: Api, changes: dict[str, Any], status: int, words: str
) -> None:
    """Limits, channels that do not exist, and metrics that nobody has written."""
    answer = api.call("POST", POLICIES, body=policy(**changes))
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert "alertPolicies" not in api.call("GET", POLICIES).json()


def test_a_policy_may_name_a_channel_that_is_there(api: Api) -> None:
    """Channels are made by their users, and found by the name that Google gives them."""
    channel = made(api, CHANNELS, {"type": "email", "labels": {"email_address": "a@example.com"}})
    user = made(api, POLICIES, policy(notificationChannels=[channel["name"]]))

    assert user["notificationChannels"] == [channel["name"]]
    assert api.call("GET", f"v3/{channel['name']}").json() == channel


def test_a_dashboard_is_named_by_the_project_s_number(api: Api) -> None:
    """It is found by the project's id as well; its answers have Google's defaults, and a change
    of one that was changed since is refused."""
    body = {"displayName": "d", "mosaicLayout": {"columns": 48, "tiles": [{**TILE, "xPos": 0}]}}
    board = made(api, DASHBOARDS, body)
    root, _, name = board["name"].rpartition("/")
    assert root == f"projects/{project_number(PROJECT)}/dashboards"
    assert api.call("GET", f"{DASHBOARDS}/{name}").json() == board
    tile = board["mosaicLayout"]["tiles"][0]
    assert "xPos" not in tile
    assert tile["widget"]["text"]["format"] == "MARKDOWN"

    renamed = {**body, "displayName": "e", "etag": board["etag"]}
    assert api.call("PATCH", f"v1/{board['name']}", body=renamed).json()["displayName"] == "e"
    assert api.call("PATCH", f"v1/{board['name']}", body=renamed).status_code == 409
    assert [each["name"] for each in api.call("GET", DASHBOARDS).json()["dashboards"]] == [
        board["name"]
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"gridLayout": {"widgets": [{"text": {"content": "x"}}]}}, "display_name"),
        ({"displayName": "d"}, "exactly one layout"),
        (
            {"displayName": "d", "mosaicLayout": {"columns": 12, "tiles": [{**TILE, "xPos": 1}]}},
            "ends at column 25",
        ),
        (
            {
                "displayName": "d",
                "mosaicLayout": {"columns": 48, "tiles": [{"width": 1, "widget": {"title": "t"}}]},
            },
            "widget.content",
        ),
    ],
)
def test_a_dashboard_that_google_refuses_is_refused(
    api: Api, body: dict[str, Any], words: str
) -> None:
    """Without a name, without exactly one layout, beyond the columns, or with an empty tile."""
    answer = api.call("POST", DASHBOARDS, body=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
