"""The real engine with real pulumi-gcp classes, the stand-in and the embedded cloud."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pulumi
import pulumi_gcp as gcp
import pytest
from pulumi import automation

from embedded_cloud.gcp_plugin.tables import TYPES
from embedded_cloud.json_types import JsonObject
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


def test_what_exists_can_be_imported(deployment: Deployment) -> None:
    """``import_`` adopts existing resources without a change to them."""
    compute = f"compute/v1/projects/{PROJECT}/global/networks"
    deployment.rest("POST", compute, {"name": "theirs", "autoCreateSubnetworks": False})
    bucket: JsonObject = {"name": "their-bucket", "location": "US"}
    deployment.rest("POST", f"storage/v1/b?project={PROJECT}", bucket)

    def program(opts: pulumi.ResourceOptions) -> None:
        def importing(identity: str) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(import_=identity))

        gcp.compute.Network(
            "network", name="theirs", auto_create_subnetworks=False, opts=importing("theirs")
        )
        gcp.storage.Bucket(
            "bucket",
            name="their-bucket",
            location="US",
            opts=importing("their-bucket"),
        )

    assert deployment.preview(program) == {"create": 2, "import": 2}
    assert deployment.up() == {"create": 2, "import": 2}
    assert deployment.preview() == {}
    # Attribution is put on what is created, not on what is adopted.
    assert "labels" not in deployment.rest("GET", "storage/v1/b/their-bucket").json()


def test_drift_is_shown_by_refresh_and_corrected_by_up(deployment: Deployment) -> None:
    """A firewall rule opened by hand shows in a refresh; the next up closes it again."""
    program = Endpoint().network
    deployment.up(program)
    rule = f"compute/v1/projects/{PROJECT}/global/firewalls/allow-serving"
    deployment.rest("PATCH", rule, {"sourceRanges": ["0.0.0.0/0"]})
    assert deployment.refresh() == {"update": 1}
    assert deployment.up() == {"update": 1}
    assert deployment.rest("GET", rule).json()["sourceRanges"] == ["10.0.0.0/8"]


def test_what_was_deleted_elsewhere_is_created_again(deployment: Deployment) -> None:
    """A refresh removes it from the state; the next up creates it."""
    deployment.up(Endpoint().network)
    deployment.rest("DELETE", f"compute/v1/projects/{PROJECT}/global/firewalls/allow-serving")
    assert deployment.refresh() == {"delete": 1}
    assert deployment.up() == {"create": 1}


def test_a_replaced_network_takes_its_dependents_along(deployment: Deployment) -> None:
    """The preview shows every replacement that follows from one, and up makes them."""

    def program(opts: pulumi.ResourceOptions, description: str = "one") -> None:
        network = gcp.compute.Network(
            "network",
            name="net",
            description=description,
            auto_create_subnetworks=False,
            opts=opts,
        )
        gcp.compute.Subnetwork(
            "subnetwork", name="sub", network=network.id, ip_cidr_range="10.0.0.0/24", opts=opts
        )

    deployment.up(program)
    assert deployment.preview(partial(program, description="two")) == {"replace": 2}
    assert deployment.up() == {"replace": 2}


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


def test_each_provider_gives_its_own_project(deployment: Deployment) -> None:
    """Two configured providers share one plugin process and are not mixed up."""

    def program(_opts: pulumi.ResourceOptions) -> None:
        for number in range(4):
            other = gcp.Provider(f"provider-{number}", project=f"project-{number}")
            for name in ("a", "b"):
                made = gcp.compute.Network(
                    f"net-{number}-{name}",
                    name=f"net-{name}",
                    auto_create_subnetworks=False,
                    opts=pulumi.ResourceOptions(provider=other),
                )
                pulumi.export(f"{number}-{name}", made.id)

    deployment.up(program)
    assert deployment.outputs() == {
        f"{number}-{name}": f"projects/project-{number}/global/networks/net-{name}"
        for number in range(4)
        for name in "ab"
    }


def test_resources_can_be_looked_up_by_id(deployment: Deployment) -> None:
    """``.get`` reads a resource that the program does not manage."""
    compute = f"compute/v1/projects/{PROJECT}/global/networks"
    deployment.rest("POST", compute, {"name": "theirs", "autoCreateSubnetworks": False})

    def program(opts: pulumi.ResourceOptions) -> None:
        network = gcp.compute.Network.get(
            "theirs", f"projects/{PROJECT}/global/networks/theirs", opts=opts
        )
        pulumi.export("auto", network.auto_create_subnetworks)

    deployment.up(program)
    assert deployment.outputs() == {"auto": False}


def test_without_an_explicit_provider_the_stack_configuration_counts(
    deployment: Deployment,
) -> None:
    """``gcp:project`` and ``gcp:region`` configure the default provider."""
    deployment.stack.set_config("gcp:project", automation.ConfigValue("from-config"))
    deployment.stack.set_config("gcp:region", automation.ConfigValue("us-west1"))

    def program(_opts: pulumi.ResourceOptions) -> None:
        network = gcp.compute.Network("network", name="n", auto_create_subnetworks=False)
        router = gcp.compute.Router("router", name="r", network=network.id)
        pulumi.export("router", router.id)

    deployment.up(program)
    assert deployment.outputs() == {"router": "projects/from-config/regions/us-west1/routers/r"}
    assert deployment.preview() == {}


def test_a_type_that_is_not_served_is_refused_with_those_that_are(deployment: Deployment) -> None:
    """The refusal names the type and the served ones, without a traceback of the plugin."""
    said = deployment.refused("other_type")
    assert "does not serve gcp:pubsub/topic:Topic; it serves: " in said
    assert all(token in said for token in TYPES)
    assert "embedded_cloud/gcp_plugin" not in said


def test_a_property_that_is_not_served_is_refused_by_name(deployment: Deployment) -> None:
    """No property of a program is silently ignored."""
    said = deployment.refused("other_property")
    assert "does not serve this property of gcp:storage/bucket:Bucket" in said
    assert "enableObjectRetention" in said


def test_an_import_that_does_not_match_is_refused(deployment: Deployment) -> None:
    """The engine compares the program with the existing resource, property by property."""
    bucket: JsonObject = {"name": "their-bucket", "location": "US"}
    deployment.rest("POST", f"storage/v1/b?project={PROJECT}", bucket)
    said = deployment.refused("mismatched_import")
    assert "location: {US} => {EU}" in said
