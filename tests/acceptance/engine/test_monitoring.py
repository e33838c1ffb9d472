"""Alert policies and the dashboard through the real engine, on the embedded cloud."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded_cloud.api import Api
from tests.engine.embedded import Embedded, embedded, pulumi_engine
from tests.engine.test_run import stack_run
from tpuflex.program import deploy
from tpuflex.settings.monitoring import AlertThresholds, MonitoringSettings

__all__ = ["embedded", "pulumi_engine"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

PROJECT = "tpuflex-dev"
POLICIES = f"v3/projects/{PROJECT}/alertPolicies"
DASHBOARDS = f"v1/projects/{PROJECT}/dashboards"


def policies(api: Api) -> dict[str, Any]:
    """The alert policies of the project by their display names."""
    listed = api.call("GET", POLICIES).json()["alertPolicies"]
    return {each["displayName"]: each for each in listed}


def test_policies_live_with_the_stack(embedded: Embedded) -> None:
    """They come with `up`, a second one changes nothing, another threshold is a change in place of
    the policies that have it, and nothing is left but the channel, which is the user's."""
    api = Api(embedded.cloud.url, PROJECT, token=embedded.cloud.token)
    channel = api.call("POST", f"v3/projects/{PROJECT}/notificationChannels", body={"type": "sms"})
    monitoring = MonitoringSettings(
        alert_policies=True, notification_channels=(channel.json()["name"],)
    )

    def program(watched: MonitoringSettings) -> Any:
        settings = embedded.settings.model_copy(update={"monitoring": watched})
        return lambda: deploy(settings, project="tpuflex", stack="dev", environ=embedded.environ)

    run = stack_run(embedded, program(monitoring))
    run.up()
    before = policies(api)
    assert "tpuflex-dev-vllm/TargetDown" in before
    for policy in before.values():
        assert policy["notificationChannels"] == [channel.json()["name"]]
        assert policy["userLabels"]["tpuflex-stack"] == "dev"
    (board,) = api.call("GET", DASHBOARDS).json()["dashboards"]
    assert board["labels"]["tpuflex-owner"] == policy["userLabels"]["tpuflex-owner"]
    assert len(board["mosaicLayout"]["tiles"]) > 1 + len(before)
    assert run.preview().changes == ()
    run.refresh()
    assert run.preview().changes == ()

    later = monitoring.model_copy(update={"thresholds": AlertThresholds(kv_use=0.9)})
    changed = stack_run(embedded, program(later))
    planned = {
        (step.operation, step.name)
        for step in changed.preview().changes
        if step.type.startswith("gcp:")
    }
    changed.up()

    assert planned == {
        ("update", "vllm-monitoring-KvCacheFull"),
        ("update", "vllm-monitoring"),
    }
    after = policies(api)
    assert {name: each["name"] for name, each in after.items()} == {
        name: each["name"] for name, each in before.items()
    }
    changed.destroy()
    assert embedded.remaining() == ["notificationChannels"]
