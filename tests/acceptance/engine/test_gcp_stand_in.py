"""The real engine with real pulumi-gcp classes, the stand-in and the embedded cloud."""

from __future__ import annotations

from dataclasses import replace

import pulumi
import pulumi_gcp as gcp
import pytest

from tests.embedded_cloud.gcp_plugin.calls import PROJECT, REGION
from tests.embedded_cloud.gcp_plugin.stacks import Deployment, Endpoint, deployment, workspace

__all__ = ["deployment", "workspace"]

pytestmark = pytest.mark.engine

#: Resources of :class:`Endpoint`, the stack and the provider among them.
ALL = 16


def test_a_program_lives_from_up_to_an_empty_cloud(deployment: Deployment) -> None:
    """Up, no changes, refresh, update in place, replace, destroy, and nothing is left."""
    first = Endpoint()
    assert deployment.preview(first) == {"create": ALL}
    assert deployment.up() == {"create": ALL}
    outputs = deployment.outputs()
    assert outputs["network"] == f"projects/{PROJECT}/global/networks/net"
    assert str(outputs["subnetwork"]).endswith(
        f"projects/{PROJECT}/regions/{REGION}/subnetworks/sub"
    )
    assert outputs["url"] == "gs://engine-test-weights"
    assert outputs["member"] == f"serviceAccount:hosts-sa@{PROJECT}.iam.gserviceaccount.com"
    assert outputs["secret"] == f"projects/{PROJECT}/secrets/api-key"

    assert deployment.preview() == {}
    assert deployment.refresh() == {}
    assert deployment.preview() == {}

    # Labels of bucket and secret, the account's display name, and a larger range.
    second = replace(first, env="prod", cidr="10.0.0.0/20")
    assert deployment.preview(second) == {"update": 4}
    assert deployment.up() == {"update": 4}
    assert deployment.preview() == {}

    # A bucket cannot move: it and its two members are replaced; so is the subnetwork.
    third = replace(second, location="us-central1", cidr="10.1.0.0/20")
    assert deployment.preview(third) == {"replace": 4}
    assert deployment.up() == {"replace": 4}
    assert deployment.preview() == {}
    assert deployment.refresh() == {}

    assert deployment.destroy() == {"delete": ALL}
    assert deployment.left() == []


def test_drift_is_shown_by_refresh_and_corrected_by_up(deployment: Deployment) -> None:
    """A firewall rule opened by hand shows in a refresh; the next up closes it again."""
    program = Endpoint().network
    deployment.up(program)
    rule = f"compute/v1/projects/{PROJECT}/global/firewalls/allow-serving"
    deployment.rest("PATCH", rule, {"sourceRanges": ["0.0.0.0/0"]})
    assert deployment.refresh() == {"update": 1}
    assert deployment.up() == {"update": 1}
    assert deployment.rest("GET", rule).json()["sourceRanges"] == ["10.0.0.0/8"]


def test_a_secret_property_stays_secret(deployment: Deployment) -> None:
    """A secret input is encrypted in the state wherever it appears."""

    def program(opts: pulumi.ResourceOptions) -> None:
        gcp.storage.Bucket(
            "bucket",
            name="secret-label",
            location="US",
            labels={"plain": "canary-a", "hidden": pulumi.Output.secret("canary-b")},
            opts=opts,
        )

    deployment.up(program)
    assert "canary-b" not in deployment.state()
    assert deployment.preview() == {}
    labels = deployment.rest("GET", "storage/v1/b/secret-label").json()["labels"]
    assert labels["hidden"] == "canary-b"
