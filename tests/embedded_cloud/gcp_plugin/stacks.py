"""Stacks of real pulumi-gcp classes on the gcp stand-in and the real engine, for tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pulumi
import pulumi_gcp as gcp
import pytest
import requests
from pulumi import automation

from embedded_cloud.json_types import JsonObject
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.gcp_plugin.calls import PROJECT, REGION, embedded
from tests.engine.quick_stack import QuickStack, StackInitMode
from tpuflex.engine.find import Engine, search
from tpuflex.engine.process import EngineProcess

ROOT = Path(__file__).parents[3]
HOME = Path(os.environ.get("TPUFLEX_HOME") or ROOT / ".tpuflex")

Program = Callable[[pulumi.ResourceOptions], None]


@dataclass
class Deployment:
    """One stack of the module's engine workspace, on an embedded cloud of its own."""

    stack: automation.Stack
    cloud: EmbeddedCloud
    environ: dict[str, str]
    program: Program = lambda _: None
    output: list[str] = field(default_factory=list)

    def up(self, program: Program | None = None) -> dict[str, int]:
        """Deploy ``program``; how many resources had which operation."""
        self._use(program)
        result = self.stack.up(on_output=self.output.append)
        return counts(result.summary.resource_changes)

    def preview(self, program: Program | None = None) -> dict[str, int]:
        """What deploying ``program`` would do."""
        self._use(program)
        return counts(self.stack.preview(on_output=self.output.append).change_summary)

    def refresh(self) -> dict[str, int]:
        """Read everything back."""
        result = self.stack.refresh(on_output=self.output.append)
        return counts(result.summary.resource_changes)

    def destroy(self) -> dict[str, int]:
        """Take everything down."""
        result = self.stack.destroy(on_output=self.output.append)
        return counts(result.summary.resource_changes)

    def outputs(self) -> dict[str, object]:
        """The stack's outputs."""
        return {name: found.value for name, found in self.stack.outputs().items()}

    def state(self) -> str:
        """The checkpoint file's text."""
        backend = Path(self.environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
        (path,) = backend.glob(f".pulumi/stacks/*/{self.stack.name}.json")
        return path.read_text()

    def left(self) -> list[str]:
        """What exists in the cloud."""
        return [
            f"{service}/{kind}/{one['name']}"
            for service, kinds in self.cloud.cloud.inventory().items()
            for kind, resources in kinds.items()
            for one in resources
        ]

    def rest(self, method: str, path: str, body: JsonObject | None = None) -> requests.Response:
        """A call by another client."""
        headers = {"Authorization": f"Bearer {self.cloud.token}"}
        url = f"{self.cloud.url}/{path}"
        answer = requests.request(method, url, json=body, headers=headers, timeout=60)
        answer.raise_for_status()
        return answer

    def _use(self, program: Program | None) -> None:
        self.program = program or self.program
        self.output.clear()

        def run() -> None:
            provider = gcp.Provider("google", project=PROJECT, region=REGION)
            self.program(pulumi.ResourceOptions(provider=provider))

        self.stack.workspace.program = run


def counts(changes: object) -> dict[str, int]:
    """Operations and their counts, without what stayed the same."""
    assert isinstance(changes, dict)
    names = {str(getattr(key, "value", key)): int(count) for key, count in changes.items()}
    return {key: count for key, count in names.items() if key != "same" and count}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, dict[str, str]]]:
    """An engine, and the environment of one workspace of it: backend, home, engine on PATH."""
    engine = search(HOME, os.environ).engine
    if engine is None:
        pytest.skip(
            f"no Pulumi engine at {HOME}/engine nor on PATH; `tpuflex engine --install` builds one"
        )
    root = tmp_path_factory.mktemp("engine")
    (root / "backend").mkdir()
    path = f"{engine.path.parent}{os.pathsep}{os.environ['PATH']}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        patch.setenv("PULUMI_SKIP_UPDATE_CHECK", "true")
        yield (
            engine,
            {
                "PATH": path,
                "PULUMI_BACKEND_URL": f"file://{root / 'backend'}",
                "PULUMI_CONFIG_PASSPHRASE": "x",
                "PULUMI_HOME": str(root / "home"),
                "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            },
        )


@pytest.fixture
def deployment(
    workspace: tuple[Engine, dict[str, str]], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Deployment]:
    """A stack without a program yet, on a cloud of its own."""
    engine, environ = workspace
    with embedded(tmp_path / "state") as (cloud, plugin):
        variables = environ | {"PULUMI_DEBUG_PROVIDERS": f"gcp:{plugin.port}"}
        (tmp_path / "Pulumi.yaml").write_text("name: gcp-stand-in\nruntime: python\n")
        space = automation.LocalWorkspace(
            str(tmp_path),
            pulumi_home=environ["PULUMI_HOME"],
            program=lambda: None,
            env_vars=variables,
            pulumi_command=EngineProcess(engine.path, engine.version, os.environ),
        )
        name = request.node.name.replace("[", "-").rstrip("]")
        stack = QuickStack(name, space, StackInitMode.CREATE)
        yield Deployment(stack, cloud, variables)


@dataclass(frozen=True)
class Endpoint:
    """The resources that a tpuflex program creates around its queued resource."""

    env: str = "dev"
    cidr: str = "10.0.0.0/24"
    location: str = REGION
    project: str = PROJECT

    def __call__(self, opts: pulumi.ResourceOptions) -> None:
        """Network, identity, bucket, secret, and IAM members."""
        self.network(opts)
        gcp.projects.Service("tpu", service="tpu.googleapis.com", opts=opts)
        account = gcp.serviceaccount.Account(
            "account", account_id="hosts-sa", display_name=f"Hosts of {self.env}", opts=opts
        )
        bucket = gcp.storage.Bucket(
            "bucket",
            name="engine-test-weights",
            location=self.location,
            labels={"env": self.env},
            force_destroy=True,
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning=gcp.storage.BucketVersioningArgs(enabled=True),
            soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
            opts=opts,
        )
        secret = gcp.secretmanager.Secret(
            "secret",
            secret_id="api-key",
            labels={"env": self.env},
            replication=gcp.secretmanager.SecretReplicationArgs(
                auto=gcp.secretmanager.SecretReplicationAutoArgs()
            ),
            opts=opts,
        )
        for role in ("roles/storage.objectViewer", "roles/storage.legacyBucketReader"):
            gcp.storage.BucketIAMMember(
                f"bucket-{role}", bucket=bucket.name, role=role, member=account.member, opts=opts
            )
        gcp.secretmanager.SecretIamMember(
            "secret-accessor",
            secret_id=secret.id,
            role="roles/secretmanager.secretAccessor",
            member=account.member,
            opts=opts,
        )
        for role in ("roles/logging.logWriter", "roles/monitoring.metricWriter"):
            gcp.projects.IAMMember(
                role, project=self.project, role=role, member=account.member, opts=opts
            )
        pulumi.export("url", bucket.url)
        pulumi.export("member", account.member)
        pulumi.export("secret", secret.id)

    def network(self, opts: pulumi.ResourceOptions) -> None:
        """Network, subnetwork, router, NAT and firewall rule."""
        network = gcp.compute.Network(
            "network", name="net", auto_create_subnetworks=False, opts=opts
        )
        subnetwork = gcp.compute.Subnetwork(
            "subnetwork",
            name="sub",
            network=network.id,
            ip_cidr_range=self.cidr,
            private_ip_google_access=True,
            opts=opts,
        )
        router = gcp.compute.Router("router", name="router", network=network.id, opts=opts)
        gcp.compute.RouterNat(
            "nat",
            name="nat",
            router=router.name,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            log_config=gcp.compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=opts,
        )
        gcp.compute.Firewall(
            "firewall",
            name="allow-serving",
            network=network.id,
            allows=[gcp.compute.FirewallAllowArgs(protocol="tcp", ports=["8000"])],
            source_ranges=["10.0.0.0/8"],
            target_tags=["serving"],
            opts=opts,
        )
        pulumi.export("network", network.id)
        pulumi.export("subnetwork", subnetwork.self_link)
