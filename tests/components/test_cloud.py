"""The program, and the gcp plugin, reach the stack's cloud and no other (D12)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pulumi
import pulumi_gcp as gcp
import pytest
from pulumi.runtime.config import set_all_config

import tpuflex
from embedded_cloud.core.environment import client_environment
from tests.components.pulumi_plan import Plan, run_program
from tests.loopback import overrides
from tests.unit.stack_sections import embedded, sections
from tpuflex.components.cloud import PLUGIN_ENDPOINTS, require_matching_cloud, runs_embedded
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.google.endpoints import OVERRIDES, REHEARSAL_VARIABLE
from tpuflex.program import _FIRST_CLASSES

Deploy = Callable[..., Plan]

#: What only the program of `tpuflex bootstrap` uses, which is not loaded beforehand.
BOOTSTRAP = {"iam", "kms"}
#: What few endpoints have, and is loaded by those.
OPTIONAL = {"monitoring"}
#: The endpoints for the resources of each module of pulumi-gcp that the components use.
ENDPOINTS = {
    "compute": "COMPUTE",
    "dns": "DNS",
    "iam": "IAM",
    "kms": "KMS",
    "monitoring": "MONITORING",
    "projects": "SERVICE_USAGE RESOURCE_MANAGER",
    "secretmanager": "SECRET_MANAGER",
    "serviceaccount": "IAM IAM_BETA",
    "storage": "STORAGE",
}


LOCAL = overrides("http://127.0.0.1:1")
#: Every API and the published plugin on this machine: nobody listens, and nobody is a stranger.
EMBEDDED = LOCAL | dict.fromkeys(PLUGIN_ENDPOINTS, "http://127.0.0.1:1/v1/")
REHEARSAL = EMBEDDED | {REHEARSAL_VARIABLE: "1"}


@pytest.fixture(autouse=True)
def _no_configuration_left() -> Iterator[None]:
    """The engine's configuration is the process's: the next test has none."""
    yield
    set_all_config({}, [])


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The variables of `tpuflex emulator env` for the published plugin."""
    own_directory(tmp_path / "emulator")
    write_private(tmp_path / "emulator" / "token", "ya29.tpuflex-embedded.x")
    return client_environment(
        base_url="http://127.0.0.1:8470", state_dir=tmp_path / "emulator", gcp_plugin_port=None
    )


def test_d12_the_published_plugin_on_loopback(deployed: Deploy, shell: dict[str, str]) -> None:
    """It may be used where it finds every API on loopback, as `tpuflex emulator env` sets it."""
    assert deployed(embedded(), environ=shell).outputs["lifecycle"] == "active"


@pytest.mark.parametrize("left", PLUGIN_ENDPOINTS)
@pytest.mark.parametrize("value", ["", "https://x.googleapis.com/v1/", "http://[x/"])
def test_d12_the_published_plugin_half_on_loopback(
    shell: dict[str, str], left: str, value: str
) -> None:
    """One API that is left on Google is enough to refuse; it is named."""
    with pytest.raises(pulumi.RunError, match=f"not on loopback: {left}[.]") as caught:
        require_matching_cloud("embedded", {**shell, left: value})

    assert "would talk to Google Cloud in part" in str(caught.value)


def test_d12_a_stack_on_google_with_the_published_plugin_on_loopback(deployed: Deploy) -> None:
    """Nor is a part of a stack on Google made in the embedded cloud."""
    name = "GOOGLE_IAM_BETA_CUSTOM_ENDPOINT"

    with pytest.raises(pulumi.RunError, match=rf"embedded cloud \({name}\)"):
        deployed(sections(), environ={name: "http://localhost:8470/v1/"})


def test_d12_every_api_of_the_components_has_its_endpoint(shell: dict[str, str]) -> None:
    """What is checked is what the embedded cloud sets, is an argument of pulumi-gcp's provider, and
    covers every module of it that the components use."""
    arguments = inspect.signature(gcp.Provider._internal_init).parameters

    loaded = {module.__name__.rpartition(".")[2] for module, _ in _FIRST_CLASSES}
    assert loaded | BOOTSTRAP | OPTIONAL == set(ENDPOINTS)
    wanted = {api for apis in ENDPOINTS.values() for api in apis.split()}
    assert {f"GOOGLE_{api}_CUSTOM_ENDPOINT" for api in wanted} == set(PLUGIN_ENDPOINTS)
    assert {name for name in shell if name.endswith("_CUSTOM_ENDPOINT")} == set(PLUGIN_ENDPOINTS)
    assert {f"{api.lower()}_custom_endpoint" for api in wanted} <= set(arguments)


@pytest.mark.parametrize("key", ["defaultLabels", "impersonateServiceAccount", "accessToken"])
def test_d12_configuration_that_would_be_ignored(
    key: str, embedded_environ: dict[str, str]
) -> None:
    """In a program of one's own, `gcp:` settings that the endpoint's provider would not have are
    refused; where one is passed, they are the program's business."""

    def program(*, passed: bool) -> Callable[[], None]:
        def run() -> None:
            set_all_config({f"gcp:{key}": "x", "gcp:project": "another", "gcp:zone": "z"}, [])
            providers: list[pulumi.ProviderResource] = (
                [gcp.Provider("mine", project="acme-serving")] if passed else []
            )
            tpuflex.VllmEndpoint(
                "chat",
                tpuflex.VllmEndpointArgs(**embedded(), environ=embedded_environ),
                pulumi.ResourceOptions(providers=providers),
            )

        return run

    with pytest.raises(pulumi.RunError, match=rf"^gcp:{key} would have no effect on what chat"):
        run_program(program(passed=False))
    assert run_program(program(passed=True)).inputs["tpuflex:tpu:QueuedResource chat"]


def test_a_stack_for_google_is_deployed_to_the_embedded_cloud_in_a_rehearsal_only() -> None:
    """Without the variable, the same environment is refused."""
    require_matching_cloud("google", REHEARSAL)

    assert runs_embedded("google", REHEARSAL)
    assert not runs_embedded("google", EMBEDDED)
    with pytest.raises(pulumi.RunError, match="points to the embedded cloud"):
        require_matching_cloud("google", EMBEDDED)


@pytest.mark.parametrize("cloud", ["google", "embedded"])
@pytest.mark.parametrize("missing", [*OVERRIDES.values(), *PLUGIN_ENDPOINTS])
def test_no_half_of_a_rehearsal_goes_to_google(cloud: str, missing: str) -> None:
    """Each endpoint of ours and of the published plugin has to be on this machine."""
    environ = {name: value for name, value in REHEARSAL.items() if name != missing}

    with pytest.raises(pulumi.RunError, match=f"{missing}|in part"):
        require_matching_cloud(cloud, environ)  # type: ignore[arg-type]
