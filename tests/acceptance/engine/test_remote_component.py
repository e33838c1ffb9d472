"""`VllmEndpoint` as a program in any language asks for it: by its type, of the provider."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pulumi
import pytest
import yaml

from tests.acceptance.plain_pulumi import PlainPulumi, plain_pulumi
from tests.engine.embedded import Embedded
from tests.unit.stack_sections import embedded as embedded_sections
from tpuflex import VllmEndpoint, VllmEndpointArgs, __version__
from tpuflex.naming import VLLM_ENDPOINT
from tpuflex.provider.schema import package_schema
from tpuflex.tpu import StateId

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

OUTPUTS = tuple(json.loads(package_schema())["resources"][VLLM_ENDPOINT]["properties"])
CANARY = "kept-to-itself"


class Remote(pulumi.ComponentResource):
    """What the SDK of another language sends: type, name and inputs. The provider does the rest."""

    def __init__(
        self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            VLLM_ENDPOINT,
            name,
            {**dict.fromkeys(OUTPUTS), **inputs},
            pulumi.ResourceOptions.merge(pulumi.ResourceOptions(version=__version__), opts),
            remote=True,
        )


class Program:
    """The program of the project, another one for each command."""

    def __init__(self) -> None:
        self.run: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        self.run()


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def shop(
    embedded: Embedded, program: Program, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PlainPulumi]:
    """A project that is not tpuflex's, with its provider by path and no stack file of tpuflex."""
    for name in list(os.environ):
        if name.startswith(("CLOUDSDK_", "GOOGLE_", "PULUMI_", "TPUFLEX_")):
            monkeypatch.delenv(name)
    for name, value in embedded.environ.items():
        monkeypatch.setenv(name, value)
    manifest = embedded.root / "Pulumi.yaml"
    manifest.write_text(yaml.safe_dump({**yaml.safe_load(manifest.read_text()), "name": "shop"}))
    for file in (embedded.root / "stacks").iterdir():
        file.unlink()
    with plain_pulumi(embedded.engine.path, embedded.root, embedded.environ, program) as command:
        command("stack", "init", "dev")
        yield command


def endpoint(changes: Mapping[str, object] | None = None) -> Callable[[], None]:
    """A program with the endpoint `chat` that depends on a resource, and all of its outputs."""

    def run() -> None:
        marked = StateId("mark")
        chat = Remote(
            "chat",
            embedded_sections(changes),
            pulumi.ResourceOptions(depends_on=[marked], protect=False),
        )
        for name in OUTPUTS:
            pulumi.export(name, getattr(chat, name))

    return run


def in_python() -> None:
    """The same endpoint as a Python program declares it."""
    StateId("mark")
    VllmEndpoint("chat", VllmEndpointArgs(**embedded_sections()))


def state(command: PlainPulumi) -> dict[str, Any]:
    """Each resource in the state of the stack, by its URN without the stack."""
    exported = json.loads(command("stack", "export").stdout)["deployment"]["resources"]
    return {found["urn"].partition("::shop::")[2]: found for found in exported}


@pytest.mark.pulumi_feature("component from other languages")
def test_an_endpoint_of_another_language(
    embedded: Embedded, shop: PlainPulumi, program: Program
) -> None:
    """up, with every output, then no changes, also as a Python program, destroy: nothing is
    left. What depends on it in the program it depends on in the state."""
    program.run = endpoint()
    shop("up", "--yes", "--skip-preview")
    outputs = json.loads(shop("stack", "output", "--json").stdout)
    made = state(shop)
    shop("preview", "--expect-no-changes")

    slice_ = made["tpuflex:index:VllmEndpoint$tpuflex:tpu:QueuedResource::chat"]
    assert set(outputs) == set(OUTPUTS)
    assert outputs["url"].startswith("http://127.")
    assert outputs["model"] == embedded_sections()["model"]["name"]
    assert (outputs["queuedResource"], outputs["lifecycle"]) == (slice_["id"], "active")
    assert outputs["network"] == slice_["inputs"]["network"]
    assert outputs["serviceAccount"] == slice_["inputs"]["serviceAccount"]
    component = made[f"{VLLM_ENDPOINT}::chat"]
    assert component["outputs"] == outputs
    assert component["inputs"]["slice"]["max_run_duration"] == "4h"
    assert [urn.rpartition("::")[2] for urn in component["dependencies"]] == ["mark"]

    program.run = in_python
    shop("preview", "--expect-no-changes")

    shop("destroy", "--yes", "--skip-preview")
    assert embedded.remaining() == []


def test_what_cannot_be_made_is_told_and_makes_nothing(
    embedded: Embedded, shop: PlainPulumi, program: Program
) -> None:
    """Wrong, secret and unknown inputs and a component that is not there: a sentence each, by the
    path of the property, no traceback, no value of a secret. Two that are right are made at the
    same time, each with its own options."""

    def refused(run: Callable[[], None]) -> str:
        program.run = run
        done = shop("preview", check=False)
        assert done.returncode != 0
        told = done.stdout.partition("Diagnostics:")[2]
        assert "Traceback" not in told
        return told

    wrong = refused(
        endpoint({"slice.max_run_duration": "9d", "color": 1, "serving.flags.dtpye": "x"})
    )
    assert "slice.max_run_duration: 9d is longer than Flex-start allows" in wrong
    assert "color: " in wrong
    assert "serving.flags.dtpye: " in wrong

    def with_a_secret_and_an_unknown() -> None:
        secret = pulumi.Output.secret(CANARY)
        Remote(
            "chat",
            {**embedded_sections(), "project": StateId("mark").value, "model": {"name": secret}},
        )

    kept = refused(with_a_secret_and_an_unknown)
    assert "project: the value is not known before the update" in kept
    assert "model.name: the value is a secret" in kept
    assert CANARY not in kept
    assert embedded.remaining() == []

    def two() -> None:
        Remote("chat", embedded_sections(), pulumi.ResourceOptions(protect=True))
        kept = {"project": "shop", "stack": "dev", "name": "old"}
        old = pulumi.ResourceOptions(aliases=[pulumi.Alias(name="old")])
        Remote("code", {**embedded_sections(), "names": kept}, old)

    program.run = two
    shown = shop("preview", "--json").stdout
    steps = {step["urn"].partition("::shop::")[2]: step for step in json.loads(shown)["steps"]}
    chat, code = (
        steps[f"tpuflex:index:VllmEndpoint$tpuflex:tpu:QueuedResource::{name}"]["newState"]
        for name in ("chat", "code")
    )
    assert chat["inputs"]["queuedResourceIdPrefix"] == "shop-dev-chat"
    assert code["inputs"]["queuedResourceIdPrefix"] == "shop-dev-old"
    assert (chat.get("protect", False), code.get("protect", False)) == (True, False)
