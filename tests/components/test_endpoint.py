"""What the endpoint registers: all that it needs, nothing more, in a working order."""

from __future__ import annotations

import json
from collections.abc import Callable

import pulumi
import pytest

import tpuflex
from tests.components.preparation import Prepared
from tests.components.pulumi_plan import Plan, run_program
from tests.unit.stack_sections import PIN, embedded, sections
from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import CatalogRows
from tpuflex.errors import WeightsError

Deploy = Callable[..., Plan]
Compare = Callable[[Plan, str], None]

SLICE = "tpuflex:tpu:QueuedResource vllm"
CANARY = "canary-weights-missing"
UNPINNED = {"model.weights.manifest_sha256": None}


def served(plan: Plan) -> str:
    """The hash of the weights that the slice of ``plan`` may serve."""
    config = json.loads(plan.inputs[SLICE]["metadata"]["tpuflex-config"])
    return str(config["weights"]["manifest_sha256"])


@pytest.mark.parametrize(
    ("inventory", "mapping"),
    [
        ("endpoint-embedded.yaml", embedded()),
        ("network-private.yaml", embedded()),
        ("network-internet.yaml", sections({"network": {"egress": "internet"}})),
        (
            "images-elsewhere.yaml",
            sections({"serving.image": f"gcr.io/others/vllm@sha256:{'ab' * 32}"}),
        ),
        (
            "network-open-to-clients.yaml",
            sections(
                {
                    "network": {"allowed_cidrs": ["203.0.113.0/24", "198.51.100.7/32"]},
                    "serving.port": 8001,
                }
            ),
        ),
        ("identity.yaml", sections({"secrets": {"tls_certificate_version": 2}})),
        ("weights-bucket.yaml", sections({"slice.zones": ["europe-west4-a"]})),
    ],
)
def test_registers_what_its_inventory_says(
    deployed: Deploy, matches: Compare, inventory: str, mapping: dict[str, object]
) -> None:
    """Each inventory lists the properties behind one promise of the endpoint."""
    matches(deployed(mapping), inventory)


def test_hosts_that_write_no_metrics_may_not(deployed: Deploy) -> None:
    """Without ``monitoring.export_metrics`` they are not told to, and have no role for it."""
    plan = deployed(sections({"monitoring": {"export_metrics": False}}))

    config = json.loads(plan.inputs[SLICE]["metadata"]["tpuflex-config"])
    assert config["monitoring"] == {"every_s": 0}
    roles = {each.get("role") for each in plan.inputs.values()}
    assert "roles/logging.logWriter" in roles
    assert "roles/monitoring.metricWriter" not in roles


def test_hosts_cannot_read_the_token_of_the_hub(deployed: Deploy) -> None:
    """The token of the Hub has a container, no host may read it, and none is told of it."""
    plan = deployed(sections({"secrets": {"hf_token_version": 1}}))

    about = [name for name in plan.inputs if "hf-token" in name]
    assert about == ["gcp:secretmanager/secret:Secret vllm-secrets-hf-token"]
    assert "hf-token" not in json.dumps(plan.inputs[SLICE])


def test_a_preview_knows_the_whole_slice(deployed: Deploy) -> None:
    """A preview knows names and configuration; only ids of other resources are open."""
    inputs = deployed(embedded(), preview=True).inputs[SLICE]

    assert inputs["queuedResourceIdPrefix"] == "tpuflex-dev-vllm"
    assert json.loads(inputs["metadata"]["tpuflex-config"])["schema"] == 1


@pytest.mark.parametrize("egress", ["google", "internet"])
def test_the_slice_is_deleted_before_everything_it_depends_on(
    deployed: Deploy, egress: str
) -> None:
    """Destroy reverses dependencies: network, zones or NAT, firewall and grants are there before
    the slice and outlive it."""
    network = {"allowed_cidrs": ["203.0.113.0/24"], "egress": egress}
    plan = deployed(sections({"network": network}))

    needed = {
        address
        for address in plan.inputs
        if address.split(" ")[0]
        in {
            "gcp:compute/firewall:Firewall",
            "gcp:compute/routerNat:RouterNat",
            "gcp:compute/subnetwork:Subnetwork",
            "gcp:compute/network:Network",
            "gcp:dns/managedZone:ManagedZone",
            "gcp:dns/recordSet:RecordSet",
            "gcp:projects/iAMMember:IAMMember",
            "gcp:storage/bucketIAMMember:BucketIAMMember",
            "gcp:secretmanager/secretIamMember:SecretIamMember",
        }
    }
    assert needed <= plan.dependencies[SLICE]
    assert plan.order[-1] == SLICE


def test_the_apis_are_enabled_first(deployed: Deploy) -> None:
    """No Google resource is created before its API is enabled."""
    plan = deployed(sections())

    enabled = [plan.order.index(item) for item in plan.order if "projects/service" in item]
    others = [
        plan.order.index(item)
        for item in plan.order
        if item.startswith("gcp:") and "projects/service" not in item
    ]
    assert max(enabled) < min(others)


def test_every_setting_of_the_slice_reaches_the_provider(deployed: Deploy) -> None:
    """Strategy, deadlines, renewal and protection; the provider decides what replaces first."""
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
                "slice.give_up_after": "6h",
                "slice.secure_boot": True,
            }
        )
    )
    request = plan.requests[SLICE]

    assert (
        plan.inputs[SLICE].items()
        >= {
            "strategy": "ordered",
            "queueTimeout": "7200s",
            "provisioningTimeout": "5400s",
            "deleteTimeout": "1800s",
            "renewBefore": "3600s",
            "rerun": "2",
            "onRunEnd": "delete",
            "onBootChange": "update",
            "deletionProtection": True,
            "validUntilDuration": "21600s",
            "secureBoot": True,
        }.items()
    )
    assert plan.inputs[SLICE]["zones"] == ["us-east5-a", "us-east5-b"]
    assert not request.customTimeouts.create
    assert not request.deleteBeforeReplace


def test_what_the_stack_does_not_say_is_left_to_the_provider(deployed: Deploy) -> None:
    """Without give_up_after a slice keeps what it has."""
    plan = deployed(sections())

    assert not {"validUntilDuration", "bootDisk"} & plan.inputs[SLICE].keys()


def test_every_resource_has_an_explicit_provider(deployed: Deploy) -> None:
    """The default provider named tpuflex would be configured with every key of the stack file."""
    plan = deployed(embedded())

    for address, request in plan.requests.items():
        if request.custom and not address.startswith("pulumi:"):
            expected = "vllm-tpu" if address.startswith("tpuflex:") else "vllm-gcp"
            assert f"::{expected}::" in request.provider, address


def test_the_same_settings_give_the_same_plan(deployed: Deploy) -> None:
    """Names and metadata contain nothing random."""
    assert deployed(embedded()).inputs == deployed(embedded()).inputs


def test_other_stacks_share_no_physical_name(deployed: Deploy) -> None:
    """Two stacks of one project can exist at the same time."""
    names = [
        {
            value
            for address, inputs in deployed(embedded(), stack=stack).inputs.items()
            # A record set's name is within its zone, which has a name of its own.
            if not address.startswith("gcp:dns/recordSet:")
            for key, value in inputs.items()
            if key in {"name", "secretId", "accountId", "queuedResourceIdPrefix"}
        }
        for stack in ("dev", "prod")
    ]

    assert names[0].isdisjoint(names[1])


COMPONENTS = {
    "tpuflex:index:ApiServices vllm-apis",
    "tpuflex:index:HostIdentity vllm-host",
    "tpuflex:index:Network vllm-network",
    "tpuflex:index:ServingSecrets vllm-secrets",
    "tpuflex:index:VllmEndpoint vllm",
    "tpuflex:index:WeightsBucket vllm-weights",
}


def test_p10_what_components_were_made_with_stands_in_the_state(
    deployed: Deploy, matches: Compare
) -> None:
    """A policy pack reads of each component what it was given, and of the endpoint the sections of
    the stack file with their defaults."""
    plan = deployed(embedded({"serving.env": {"VLLM_CPU_KVCACHE_SPACE": "1"}}))

    assert {name for name in plan.inputs if name.startswith("tpuflex:index:")} == COMPONENTS
    matches(plan, "component-inputs.yaml")


def test_p10_components_wait_for_nothing(deployed: Deploy) -> None:
    """What a component has as inputs makes it wait for no resource, and is known in a preview."""
    plan = deployed(embedded(), preview=True)

    for address in COMPONENTS - {"tpuflex:index:VllmEndpoint vllm"}:
        above = {name.split(" ")[0] for name in plan.dependencies[address]}
        assert above <= {"tpuflex:index:ApiServices", "gcp:projects/service:Service"}, address
        assert "04da6b54-80e4-46f7-96ec-b56ff0331ba9" not in json.dumps(plan.inputs[address])


@pytest.mark.parametrize(
    ("lifecycle", "addresses", "preview", "expected"),
    [
        ("active", ["10.128.0.2"], False, "http://10.128.0.2:8000/v1"),
        ("active", ["10.128.0.2"], True, "http://10.128.0.2:8000/v1"),
        ("active", [], False, None),
        ("ended", [], False, None),
        ("lost", ["10.128.0.2"], False, None),
        ("failed", [], False, None),
        ("ended", [], True, "unknown"),
        ("lost", ["10.128.0.2"], True, "unknown"),
        ("waiting", [], True, "unknown"),
    ],
)
def test_p10_the_url_of_what_does_not_serve(
    deployed: Deploy, lifecycle: str, addresses: list[str], preview: bool, expected: str | None
) -> None:
    """A URL that reaches nothing is never given: a preview does not know it, after an update there
    is none. A program that needs one sees None, and no text that is empty."""
    seen = {"lifecycle": lifecycle, "ipAddresses": addresses}
    plan = deployed(embedded(), preview=preview, slice_=seen)

    found = plan.outputs.get("endpoint")
    assert ("unknown" if isinstance(found, pulumi.output.Unknown) else found) == expected


def test_no_api_is_enabled_where_others_do_that(deployed: Deploy) -> None:
    """Nothing else changes: what waited for the APIs is made as before, and the state says why."""
    before = deployed(embedded()).counts()
    plan = deployed(embedded({"manage_apis": False}))

    assert before.pop("gcp:projects/service:Service") > 1
    assert before.pop("tpuflex:index:ApiServices") == 1
    assert plan.counts() == before
    assert plan.inputs["tpuflex:index:VllmEndpoint vllm"]["manage_apis"] is False


class TestPrepare:
    """What happens between the bucket and the slice."""

    def test_runs_when_bucket_and_secrets_exist_and_before_the_slice(
        self, deployed: Deploy
    ) -> None:
        """Weights and key are in place before chips are requested and billed."""
        prepare = Prepared()

        plan = deployed(embedded(), prepare=prepare)

        secrets = {role: f"tpuflex-dev-vllm-{role}" for role in ("api-key", "programs-key")}
        assert prepare.calls == [("tpuflex-dev-vllm-weights-us-east5-a529e6", secrets)]
        assert served(plan) == prepare.sha256

    def test_changes_nothing_else_about_the_slice(self, deployed: Deploy) -> None:
        """The command line and a plain `pulumi up` with the same pin register the same slice."""
        with_it, without = deployed(embedded(), prepare=Prepared(PIN)), deployed(embedded())

        assert with_it.inputs == without.inputs
        assert served(without) == PIN

    def test_a_preview_only_looks(self, deployed: Deploy) -> None:
        """A preview pushes nothing, and plans with the hash that it finds."""
        prepare = Prepared()

        plan = deployed(embedded(UNPINNED), prepare=prepare, preview=True)

        assert prepare.calls == []
        assert served(plan) == prepare.sha256

    def test_a_pinned_hash_is_what_a_preview_shows(self, deployed: Deploy) -> None:
        """Whatever lies in the bucket: an update goes on with the pinned weights or not at all."""
        assert served(deployed(embedded(), prepare=Prepared(), preview=True)) == PIN

    def test_without_it_a_hash_must_be_pinned(self, deployed: Deploy) -> None:
        """A program that nobody prepares says which key to write, before it registers anything."""
        with pytest.raises(pulumi.RunError, match=r"model\.weights\.manifest_sha256") as caught:
            deployed(embedded(UNPINNED))

        assert "tpuflex weights hash" in str(caught.value)

    def test_its_failure_fails_the_update_before_the_slice(self, deployed: Deploy) -> None:
        """Without weights no chips are requested; the message is the error's own."""
        error = WeightsError(CANARY, hint="tpuflex weights push DIRECTORY")

        with pytest.raises(pulumi.RunError) as caught:
            deployed(embedded(), prepare=Prepared(error=error))

        assert str(caught.value) == f"{CANARY}\ntpuflex weights push DIRECTORY"


class TestCloudGuard:
    """An embedded stack never reaches Google, and the other way round."""

    def test_embedded_stack_in_a_plain_shell(self, deployed: Deploy) -> None:
        """Nothing is registered; the message says how to enter the embedded cloud."""
        with pytest.raises(pulumi.RunError, match=r'eval "\$\(tpuflex emulator env\)"'):
            deployed(embedded(), environ={})

    @pytest.mark.parametrize(
        ("removed", "reason"),
        [
            ("PULUMI_DEBUG_PROVIDERS", "PULUMI_DEBUG_PROVIDERS"),
            ("CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM", "points to Google Cloud"),
        ],
    )
    def test_half_an_embedded_environment(
        self, deployed: Deploy, embedded_environ: dict[str, str], removed: str, reason: str
    ) -> None:
        """One API, or the gcp plugin, left on Google is enough to refuse."""
        del embedded_environ[removed]

        with pytest.raises(pulumi.RunError, match=reason):
            deployed(embedded(), environ=embedded_environ)

    def test_google_stack_in_an_embedded_shell(
        self, deployed: Deploy, embedded_environ: dict[str, str]
    ) -> None:
        """The error names the cloud that the shell's variables point to."""
        with pytest.raises(pulumi.RunError, match="points to the embedded cloud"):
            deployed(sections(), environ=embedded_environ)

    def test_google_stack_beside_a_storage_emulator(self, deployed: Deploy) -> None:
        """Weights would go to the emulator while the chips are bought on Google."""
        with pytest.raises(pulumi.RunError, match=r"embedded cloud \(storage\)"):
            deployed(sections(), environ={"STORAGE_EMULATOR_HOST": "http://127.0.0.1:8470"})


class TestLibraryUse:
    """The component in somebody else's Pulumi project."""

    def test_a_handful_of_lines(self, embedded_environ: dict[str, str]) -> None:
        """Sections as mappings, names from the surrounding project, providers of its own."""

        def program() -> None:
            endpoint = tpuflex.VllmEndpoint(
                "chat", tpuflex.VllmEndpointArgs(**embedded(), environ=embedded_environ)
            )
            pulumi.export("endpoint", endpoint.url)
            parts = {
                "network": endpoint.network,
                "subnetwork": endpoint.subnetwork,
                "service_account": endpoint.service_account,
                "queued_resource": endpoint.queued_resource.id,
                "lifecycle": endpoint.lifecycle,
            }
            pulumi.export("parts", parts)

        plan = run_program(program, project="acme", stack="prod")

        slice_ = plan.inputs["tpuflex:tpu:QueuedResource chat"]
        assert slice_["queuedResourceIdPrefix"] == "acme-prod-chat"
        assert plan.outputs["endpoint"] == "http://10.128.0.2:8000/v1"
        project = "projects/acme-serving"
        assert plan.outputs["parts"] == {
            "network": f"{project}/global/networks/acme-prod-chat-net",
            "subnetwork": f"{project}/regions/us-east5/subnetworks/acme-prod-chat-subnet",
            "service_account": "acme-prod-chat-host@acme-serving.iam.gserviceaccount.com",
            "queued_resource": f"{project}/locations/us-east5-a/queuedResources/acme-prod-chat-g1",
            "lifecycle": "active",
        }

    def test_what_it_was_called_by_is_kept(self, embedded_environ: dict[str, str]) -> None:
        """With the bucket's suffix of now; the state keeps what the names are made of."""
        given = embedded({"model.weights.bucket_suffix": "abcdef"})
        names = tpuflex.Names("shop", "dev", "old")

        def program() -> None:
            tpuflex.VllmEndpoint(
                "chat",
                tpuflex.VllmEndpointArgs(**given, names=names, environ=embedded_environ),
            )

        plan = run_program(program, project="acme", stack="prod")

        assert plan.inputs["tpuflex:tpu:QueuedResource chat"]["queuedResourceIdPrefix"] == (
            "shop-dev-old"
        )
        made_as = {"project": "shop", "stack": "dev", "name": "old"}
        assert plan.inputs["tpuflex:tpu:StateId chat-state"]["names"] == made_as
        (bucket,) = [i for name, i in plan.inputs.items() if ":Bucket " in name]
        assert bucket["name"].startswith("shop-dev-old-weights-")
        assert bucket["name"].endswith("-abcdef")

    def test_rows_of_the_catalog_decide(self, embedded_environ: dict[str, str]) -> None:
        """A row of the caller's own names the runtime of the request."""
        row = builtin().accelerators["v6e-1"].model_copy(update={"runtime_version": "v3-beta"})

        def program() -> None:
            tpuflex.VllmEndpoint(
                "chat",
                tpuflex.VllmEndpointArgs(
                    **embedded(),
                    catalog=CatalogRows(accelerators=(row,)),
                    environ=embedded_environ,
                ),
            )

        plan = run_program(program, project="acme", stack="prod")

        assert plan.inputs["tpuflex:tpu:QueuedResource chat"]["runtimeVersion"] == "v3-beta"

    def test_the_callers_providers_are_used(self, embedded_environ: dict[str, str]) -> None:
        """A caller who passes providers gets no others."""
        from pulumi_gcp import Provider as GcpProvider

        from tpuflex.tpu import Provider

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
                expected = "my-tpu" if address.startswith("tpuflex:") else "mine"
                assert f"::{expected}::" in request.provider, address

    def test_wrong_sections_fail_cleanly(self) -> None:
        """A library user gets the same findings as a stack file, not a traceback."""
        with pytest.raises(pulumi.RunError, match=r"tpuflex:slice\.max_run_duration"):
            tpuflex.VllmEndpointArgs(**sections({"slice.max_run_duration": "8d"}))
