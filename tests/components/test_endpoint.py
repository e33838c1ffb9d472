"""What the endpoint registers: everything it needs, nothing more, in an order that holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pulumi
import pytest

import tpuflex
from tests.components.pulumi_plan import Plan, run_program
from tests.unit.stack_sections import embedded, sections
from tpuflex.errors import WeightsError

Deploy = Callable[..., Plan]
Compare = Callable[[Plan, str], None]

SLICE = "tpuflex:tpu:QueuedResource vllm"
CANARY = "canary-weights-missing"


@pytest.mark.parametrize(
    ("inventory", "mapping"),
    [
        ("endpoint-embedded.yaml", embedded()),
        ("network-private.yaml", embedded()),
        (
            "network-open-to-clients.yaml",
            sections(
                {
                    "network": {"allowed_cidrs": ["203.0.113.0/24", "198.51.100.7/32"]},
                    "serving.port": 8001,
                }
            ),
        ),
        ("identity.yaml", sections({"secrets": {"hf_token_version": 2}})),
        ("weights-bucket.yaml", sections({"slice.zones": ["europe-west4-a"]})),
    ],
)
def test_registers_what_its_inventory_says(
    deployed: Deploy, matches: Compare, inventory: str, mapping: dict[str, object]
) -> None:
    """Each inventory lists the properties that one promise of the endpoint rests on."""
    matches(deployed(mapping), inventory)


def test_a_preview_knows_the_whole_slice(deployed: Deploy) -> None:
    """A preview shows names and configuration, and leaves only ids of other resources open."""
    inputs = deployed(embedded(), preview=True).inputs[SLICE]

    assert inputs["queuedResourceIdPrefix"] == "tpuflex-dev-vllm"
    assert json.loads(inputs["metadata"]["tpuflex-config"])["schema"] == 1


def test_the_slice_goes_before_everything_it_stands_on(deployed: Deploy) -> None:
    """Destroy goes against dependencies: network, NAT, firewall and grants outlive the slice."""
    plan = deployed(sections({"network": {"allowed_cidrs": ["203.0.113.0/24"]}}))

    needed = {
        address
        for address in plan.inputs
        if address.split(" ")[0]
        in {
            "gcp:compute/firewall:Firewall",
            "gcp:compute/routerNat:RouterNat",
            "gcp:compute/subnetwork:Subnetwork",
            "gcp:compute/network:Network",
            "gcp:projects/iAMMember:IAMMember",
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            "gcp:secretmanager/secretIamMember:SecretIamMember",
        }
    }
    assert needed <= plan.dependencies[SLICE]
    assert plan.order[-1] == SLICE


def test_the_apis_are_enabled_first(deployed: Deploy) -> None:
    """Nothing of Google's is made before its API is on."""
    plan = deployed(sections())

    enabled = [plan.order.index(item) for item in plan.order if "projects/service" in item]
    others = [
        plan.order.index(item)
        for item in plan.order
        if item.startswith("gcp:") and "projects/service" not in item
    ]
    assert max(enabled) < min(others)


def test_the_slice_is_had_and_given_up_as_the_stack_says(deployed: Deploy) -> None:
    """Strategy, deadlines, renewal and protection reach the provider, which keeps them apart; a
    replacement is made before the old one is deleted."""
    plan = deployed(
        sections(
            {
                "slice.zones": ["us-east5-a", "us-east5-b"],
                "slice.strategy": "ordered",
                "slice.timeouts": {"queue": "2h", "provisioning": "90m", "delete": "30m"},
                "slice.renew_before": "1h",
                "slice.rerun": "2",
                "slice.on_run_end": "delete",
                "slice.on_boot_change": "update",
                "slice.deletion_protection": True,
            }
        )
    )
    inputs, request = plan.inputs[SLICE], plan.requests[SLICE]

    assert inputs["zones"] == ["us-east5-a", "us-east5-b"]
    assert inputs["strategy"] == "ordered"
    assert inputs["queueTimeout"] == "7200s"
    assert inputs["provisioningTimeout"] == "5400s"
    assert inputs["deleteTimeout"] == "1800s"
    assert inputs["renewBefore"] == "3600s"
    assert inputs["rerun"] == "2"
    assert inputs["onRunEnd"] == "delete"
    assert inputs["onBootChange"] == "update"
    assert inputs["deletionProtection"] is True
    assert not request.customTimeouts.create
    assert not request.deleteBeforeReplace


def test_every_resource_has_an_explicit_provider(deployed: Deploy) -> None:
    """The default provider named tpuflex would be configured with every key of the stack file."""
    plan = deployed(embedded())

    for address, request in plan.requests.items():
        if request.custom and not address.startswith("pulumi:"):
            expected = "vllm-tpu" if address == SLICE else "vllm-gcp"
            assert f"::{expected}::" in request.provider, address


def test_the_same_settings_give_the_same_plan(deployed: Deploy) -> None:
    """There is nothing random in names or metadata."""
    assert deployed(embedded()).inputs == deployed(embedded()).inputs


def test_other_stacks_share_no_physical_name(deployed: Deploy) -> None:
    """Two stacks of one project live side by side."""
    names = [
        {
            value
            for inputs in deployed(embedded(), stack=stack).inputs.values()
            for key, value in inputs.items()
            if key in {"name", "secretId", "accountId", "queuedResourceIdPrefix"}
        }
        for stack in ("dev", "prod")
    ]

    assert names[0].isdisjoint(names[1])


class TestPrepare:
    """What happens between the bucket and the slice."""

    def test_runs_when_bucket_and_secrets_exist_and_before_the_slice(
        self, deployed: Deploy
    ) -> None:
        """Weights and key are in place before chips are asked for and paid."""
        calls: list[tuple[str, dict[str, str]]] = []

        async def prepare(bucket: str, secrets: Mapping[str, str]) -> None:
            calls.append((bucket, dict(secrets)))

        plan = deployed(embedded(), prepare=prepare)

        assert calls == [
            ("tpuflex-dev-vllm-weights-us-east5-a529e6", {"api-key": "tpuflex-dev-vllm-api-key"})
        ]
        assert plan.inputs[SLICE]["metadata"]["tpuflex-config"]

    def test_changes_nothing_about_the_slice(self, deployed: Deploy) -> None:
        """The command line and a plain `pulumi up` register the same slice."""

        async def prepare(_bucket: str, _secrets: Mapping[str, str]) -> None:
            return None

        with_it, without = deployed(embedded(), prepare=prepare), deployed(embedded())

        assert with_it.inputs == without.inputs

    def test_never_runs_in_a_preview(self, deployed: Deploy) -> None:
        """A preview pushes nothing."""

        async def prepare(_bucket: str, _secrets: Mapping[str, str]) -> None:
            raise AssertionError("prepare ran in a preview")

        deployed(embedded(), prepare=prepare, preview=True)

    def test_its_failure_fails_the_update_before_the_slice(self, deployed: Deploy) -> None:
        """Without weights no chips are asked for; the message is the error's own."""

        async def prepare(_bucket: str, _secrets: Mapping[str, str]) -> None:
            raise WeightsError(CANARY, hint="tpuflex weights push DIRECTORY")

        with pytest.raises(pulumi.RunError) as caught:
            deployed(embedded(), prepare=prepare)

        assert str(caught.value) == f"{CANARY}\ntpuflex weights push DIRECTORY"


class TestCloudGuard:
    """An embedded stack never reaches Google, and the other way round."""

    def test_embedded_stack_in_a_plain_shell(self, deployed: Deploy) -> None:
        """Nothing is registered; the message says how to enter the embedded cloud."""
        with pytest.raises(pulumi.RunError, match=r'eval "\$\(tpuflex emulator env\)"'):
            deployed(embedded(), environ={})

    def test_embedded_stack_without_the_attached_plugin(
        self, deployed: Deploy, embedded_environ: dict[str, str]
    ) -> None:
        """The published gcp plugin would go to Google whatever gcloud's variables say."""
        del embedded_environ["PULUMI_DEBUG_PROVIDERS"]

        with pytest.raises(pulumi.RunError, match="PULUMI_DEBUG_PROVIDERS"):
            deployed(embedded(), environ=embedded_environ)

    def test_embedded_stack_with_the_published_plugin_on_loopback(
        self, deployed: Deploy, embedded_environ: dict[str, str]
    ) -> None:
        """The published plugin may be used when it is told to talk to loopback."""
        embedded_environ["PULUMI_DEBUG_PROVIDERS"] = ""
        embedded_environ["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"] = "http://127.0.0.1:8470/compute/v1/"

        assert deployed(embedded(), environ=embedded_environ).outputs["lifecycle"] == "active"

    def test_google_stack_in_an_embedded_shell(
        self, deployed: Deploy, embedded_environ: dict[str, str]
    ) -> None:
        """Somebody who forgot the variables in their shell is told which cloud they point at."""
        with pytest.raises(pulumi.RunError, match="points to the embedded cloud"):
            deployed(sections(), environ=embedded_environ)

    def test_google_stack_beside_a_storage_emulator(self, deployed: Deploy) -> None:
        """Weights would go to the emulator while the chips are bought on Google."""
        with pytest.raises(pulumi.RunError, match=r"embedded cloud \(storage\)"):
            deployed(sections(), environ={"STORAGE_EMULATOR_HOST": "http://127.0.0.1:8470"})

    def test_half_an_embedded_environment(
        self, deployed: Deploy, embedded_environ: dict[str, str]
    ) -> None:
        """One API left on Google is enough to refuse."""
        del embedded_environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM"]

        with pytest.raises(pulumi.RunError, match="points to Google Cloud"):
            deployed(embedded(), environ=embedded_environ)


class TestLibraryUse:
    """The component in somebody else's Pulumi project."""

    def test_a_handful_of_lines(self, embedded_environ: dict[str, str]) -> None:
        """Sections as mappings, names from the surrounding project, providers of its own."""

        def program() -> None:
            endpoint = tpuflex.VllmEndpoint(
                "chat", tpuflex.VllmEndpointArgs(**embedded(), environ=embedded_environ)
            )
            pulumi.export("endpoint", endpoint.url)

        plan = run_program(program, project="acme", stack="prod")

        slice_ = plan.inputs["tpuflex:tpu:QueuedResource chat"]
        assert slice_["queuedResourceIdPrefix"] == "acme-prod-chat"
        assert plan.outputs["endpoint"] == "http://10.128.0.2:8000/v1"

    def test_the_callers_providers_are_used(self, embedded_environ: dict[str, str]) -> None:
        """Whoever passes providers gets no others."""
        from pulumi_gcp import Provider as GcpProvider

        from tpuflex.provider.resource import Provider

        def program() -> None:
            tpuflex.VllmEndpoint(
                "chat",
                tpuflex.VllmEndpointArgs(**embedded(), environ=embedded_environ),
                pulumi.ResourceOptions(
                    providers=[
                        GcpProvider("mine", project="acme-serving"),
                        Provider("my-tpu", project="acme-serving", embedded=True),
                    ]
                ),
            )

        plan = run_program(program, project="acme", stack="prod")

        assert plan.counts()["pulumi:providers:gcp"] == 1
        for address, request in plan.requests.items():
            if request.custom and not address.startswith("pulumi:"):
                expected = "my-tpu" if "QueuedResource" in address else "mine"
                assert f"::{expected}::" in request.provider, address

    def test_wrong_sections_fail_cleanly(self) -> None:
        """A library user gets the same findings as a stack file, not a traceback."""
        with pytest.raises(pulumi.RunError, match=r"tpuflex:slice\.max_run_duration"):
            tpuflex.VllmEndpointArgs(**sections({"slice.max_run_duration": "8d"}))
