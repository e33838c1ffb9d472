"""Outputs as inputs of an endpoint: which of them, checked when, and what is said of the others."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import UNKNOWN
from pydantic import BaseModel

import tpuflex
from tests.components.conftest import EMBEDDED_ENVIRON
from tests.components.pulumi_plan import Plan, run_program
from tests.unit.stack_sections import embedded
from tpuflex.components.known_later import LATER
from tpuflex.settings.model import StackSettings

CANARY = "canary-0a1b2c"
SLICE = "tpuflex:tpu:QueuedResource chat"
NETWORK = "projects/acme-serving/global/networks/team"
SUBNETWORK = "projects/acme-serving/regions/us-east5/subnetworks/serving"
ACCOUNT = "serving@acme-serving.iam.gserviceaccount.com"
SEEN = {"network": NETWORK, "privateIpGoogleAccess": True}
EXISTING = {"name": "team", "subnetwork": "serving", "egress": "existing"}

STAND_INS = ("known-later", "198.51.100.0/24", "0" * 64)

#: By key that takes an output: the rest of its section, a value, a wrong one, and what is said.
SAMPLES: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "slice.rerun": ({}, "again", "x" * 129, "tpuflex:slice.rerun"),
    "model.weights.manifest_sha256": ({}, "ab" * 32, "ab", "weights.manifest_sha256"),
    "serving.env": (
        {},
        {"TEAM": "search", "VLLM_CPU_KVCACHE_SPACE": "1"},
        {"LD_PRELOAD": "x"},
        "tpuflex:serving.env.LD_PRELOAD",
    ),
    "network.name": (EXISTING, NETWORK, "A b", "tpuflex:network.name"),
    "network.subnetwork": (
        EXISTING,
        SUBNETWORK,
        SUBNETWORK.replace("us-east5", "us-east1"),
        "tpuflex:network.subnetwork",
    ),
    "network.subnetwork_cidr": ({}, "10.9.0.0/24", "10.9.0.0/30", "network.subnetwork_cidr"),
    "network.allowed_cidrs": (
        {},
        ["10.20.0.0/16", "203.0.113.7/32"],
        ["10.20.0.0/16", "0.0.0.0/0"],
        "tpuflex:network.allowed_cidrs[1]: 0.0.0.0/0 opens the endpoint",
    ),
    "network.tags": ({}, ["inference"], ["No"], "tpuflex:network.tags[0]"),
    "identity.service_account": (
        {},
        ACCOUNT,
        "12345-compute@developer.gserviceaccount.com",
        "tpuflex:identity.service_account: 12345-compute@developer.gserviceaccount.com is an"
        " account of Google's own making",
    ),
    "labels": ({}, {"team": "search"}, {"tpuflex-stack": "x"}, "tpuflex:labels.tpuflex-stack"),
}


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The keys of ``model``, and those of its sections."""
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from keys(inner, f"{prefix}{name}.")


#: Every key of the sections that an endpoint takes.
KEYS = [
    key
    for key in keys(StackSettings)
    if key.partition(".")[0] in inspect.signature(tpuflex.VllmEndpointArgs).parameters
]


def given(key: str, value: object) -> dict[str, Any]:
    """Sections that are right, with ``value`` at ``key``."""
    name = key.partition(".")[0]
    rest = SAMPLES[key][0] if key in SAMPLES else {}
    return embedded({**{f"{name}.{other}": its for other, its in rest.items()}, key: value})


def deploy(
    sections: Callable[[], dict[str, Any]], *, preview: bool = False, plan: Plan | None = None
) -> Plan:
    """What an endpoint with these sections registers; they are made within the program."""

    def program() -> None:
        made = tpuflex.VllmEndpointArgs(**sections(), environ=EMBEDDED_ENVIRON)
        tpuflex.VllmEndpoint("chat", made)

    return run_program(program, preview=preview, read=SEEN, plan=plan)


def refusal(sections: Callable[[], dict[str, Any]]) -> str:
    """What is said of these sections before anything is registered."""

    async def program() -> str:
        with pytest.raises(pulumi.RunError) as caught:
            tpuflex.VllmEndpointArgs(**sections())
        return str(caught.value)

    return asyncio.run(program())


def unknown() -> pulumi.Output[Any]:
    """What another resource has as an output, and this preview cannot know."""
    return pulumi.Output.from_input(UNKNOWN)


def test_every_key_that_takes_an_output_has_samples() -> None:
    """The tables below leave none of them out, and the settings know each."""
    assert set(LATER) == set(SAMPLES)
    assert set(LATER) <= set(KEYS)


@pytest.mark.parametrize("key", sorted(LATER))
def test_an_output_that_is_known_is_as_good_as_its_value(key: str) -> None:
    """The very same is registered, in the state, too."""
    value = SAMPLES[key][1]

    later = deploy(lambda: given(key, pulumi.Output.from_input(value)))

    plain = deploy(lambda: given(key, value))
    assert later.inputs == plain.inputs
    assert later.order[-1] == plain.order[-1] == SLICE


@pytest.mark.parametrize("key", sorted(LATER))
def test_a_preview_shows_as_unknown_what_is_unknown(key: str) -> None:
    """It does not fail; what stands in for the value while everything else is checked is nowhere,
    and everything that does not need the value is known."""
    plan = deploy(lambda: given(key, unknown()), preview=True)
    plain = deploy(lambda: given(key, SAMPLES[key][1]), preview=True)

    assert set(plan.inputs) == set(plain.inputs)
    text = json.dumps(plan.inputs, default=str)
    assert not [each for each in STAND_INS if each in text]
    different = {name for name in plain.inputs if plan.inputs[name] != plain.inputs[name]}
    assert different, "the value is needed somewhere"
    for name in different:
        lost = leaves(plan.inputs[name])
        assert any(isinstance(value, pulumi.output.Unknown) for value in lost.values()), name
        known = {k: v for k, v in lost.items() if not isinstance(v, pulumi.output.Unknown)}
        assert known.items() <= leaves(plain.inputs[name]).items(), name


@pytest.mark.parametrize("key", sorted(LATER))
def test_a_wrong_output_is_refused_before_the_slice(key: str) -> None:
    """By the same rules as a plain value, with its key, before anything is made: not even the
    endpoint's own entry in the state."""
    wrong, says = SAMPLES[key][2:]
    plan = Plan()

    with pytest.raises(pulumi.RunError) as caught:
        deploy(lambda: given(key, pulumi.Output.from_input(wrong)), plan=plan)

    assert str(caught.value) == refusal(lambda: given(key, wrong))
    assert says in str(caught.value)
    assert not [name for name in plan.inputs if not name.startswith("pulumi:providers:")]


@pytest.mark.parametrize("preview", [False, True])
@pytest.mark.parametrize("key", sorted(LATER))
def test_a_secret_is_refused_and_never_shown(key: str, preview: bool) -> None:
    """Whether or not it is known already: what it would be written into can be read."""
    value: object = {"TEAM": CANARY} if key == "serving.env" else CANARY
    secret = pulumi.Output.secret
    with pytest.raises(pulumi.RunError) as caught:
        deploy(lambda: given(key, secret(unknown()) if preview else secret(value)), preview=preview)

    assert f"tpuflex:{key}: is a secret, and " in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_secret_in_the_environment_is_named_and_sent_to_secret_manager() -> None:
    """The member that is one, not the others; and where it belongs."""
    with pytest.raises(pulumi.RunError) as caught:
        deploy(
            lambda: given("serving.env", {"TEAM": "search", "PIN": pulumi.Output.secret(CANARY)})
        )

    assert "tpuflex:serving.env.PIN: is a secret" in str(caught.value)
    assert "Secret Manager: `tpuflex secrets`" in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "same"),
    [
        (
            "network.allowed_cidrs",
            lambda: ["10.20.0.0/16", pulumi.Output.from_input("203.0.113.7/32")],
            SAMPLES["network.allowed_cidrs"][1],
        ),
        ("network.tags", lambda: [pulumi.Output.from_input("inference")], ["inference"]),
        (
            "serving.env",
            lambda: {"TEAM": pulumi.Output.from_input("search"), "VLLM_CPU_KVCACHE_SPACE": "1"},
            SAMPLES["serving.env"][1],
        ),
        ("slice.rerun", lambda: soon("again"), "again"),
        ("network.tags", lambda: soon([soon("inference")]), ["inference"]),
    ],
)
def test_members_of_lists_and_mappings_and_what_is_awaited(
    key: str, value: Callable[[], object], same: object
) -> None:
    """Single members may be outputs, and all that `pulumi.Input` takes."""
    assert deploy(lambda: given(key, value())).inputs == deploy(lambda: given(key, same)).inputs


async def soon(value: object) -> object:
    """``value``, later."""
    return value


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"network.allowed_cidrs": []}, "allowed_cidrs: turned out to be an empty list"),
        ({"network.tags": None}, "tpuflex:network.tags: turned out to be empty"),
        ({"slice.rerun": None}, "tpuflex:slice.rerun: turned out to be empty"),
        ({"serving.env": {"VLLM_XLA_CACHE_PATH": "/x"}}, "Write compile_cache: none"),
        (
            {"serving.env": {"HF_TOKEN": CANARY}},
            "tpuflex:serving.env.HF_TOKEN: looks like a secret",
        ),
    ],
)
def test_what_would_have_needed_another_plan(sections: dict[str, Any], says: str) -> None:
    """What an output decides only when the resources are chosen already is refused."""
    ((key, value),) = sections.items()

    with pytest.raises(pulumi.RunError) as caught:
        deploy(lambda: given(key, pulumi.Output.from_input(value)))

    assert says in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_directory_for_compiled_programs_from_an_output() -> None:
    """It is as good as a plain one where the plan says already that the bucket keeps none."""
    env = {"VLLM_XLA_CACHE_PATH": "/x"}

    def sections(value: object) -> dict[str, Any]:
        return embedded({"serving.env": value, "serving.compile_cache": "none"})

    later = deploy(lambda: sections(pulumi.Output.from_input(env)))
    assert later.inputs == deploy(lambda: sections(env)).inputs


def test_rules_across_keys_hold_for_what_is_known_later() -> None:
    """An output where no value would do is refused at once, whatever it is."""
    mine = {**EXISTING, "manage_firewall": False, "allowed_cidrs": [unknown]}
    for key, network in (
        ("allowed_cidrs", mine),
        ("subnetwork_cidr", {**EXISTING, "subnetwork_cidr": unknown}),
        ("name", {"subnetwork": unknown}),
    ):
        sections = functools.partial(made_from, {"network": network})
        assert f"tpuflex:network.{key}: " in refusal(sections)


def made_from(changes: dict[str, object]) -> dict[str, Any]:
    """The sections with ``changes``, whose functions are called."""
    return embedded(called(changes))


def called(value: Any) -> Any:
    """``value`` with the results of its functions, which are made within a program."""
    if isinstance(value, dict):
        return {name: called(item) for name, item in value.items()}
    if isinstance(value, list):
        return [called(item) for item in value]
    return value() if callable(value) else value


def test_a_network_of_the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its links do; a preview that sees what an update is about to change says so, and goes on."""
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: warned.append(text))
    link = "https://www.googleapis.com/compute/v1/"

    def sections() -> dict[str, Any]:
        made = {"name": f"{link}{NETWORK}", "subnetwork": f"{link}{SUBNETWORK}"}
        return embedded({"network": {**EXISTING, **pulumi_outputs(made)}})

    assert deploy(sections).inputs[SLICE]["subnetwork"] == SUBNETWORK
    assert not warned
    monkeypatch.setitem(SEEN, "privateIpGoogleAccess", False)
    assert deploy(sections, preview=True).inputs[SLICE]["subnetwork"] == SUBNETWORK
    assert "Private Google Access is off" in warned[0]
    with pytest.raises(pulumi.RunError, match="Private Google Access is off"):
        deploy(sections)


def test_an_account_of_the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts run as it, and it is granted what they need; a preview that sees what an update is
    about to change says so, and goes on. One that is the endpoint's own is refused."""
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: warned.append(text))

    def sections(email: str = ACCOUNT) -> dict[str, Any]:
        return given("identity.service_account", pulumi.Output.from_input(email))

    plan = deploy(sections)
    assert plan.inputs[SLICE]["serviceAccount"] == ACCOUNT
    members = {each["member"] for each in plan.inputs.values() if "member" in each}
    assert members == {f"serviceAccount:{ACCOUNT}"}
    own = ACCOUNT.replace("serving@acme", "project-stack-chat-host@acme")
    monkeypatch.setattr(pulumi, "get_project", lambda: "project")
    monkeypatch.setattr(pulumi, "get_stack", lambda: "stack")
    with pytest.raises(pulumi.RunError, match="has the name of the endpoint's own"):
        deploy(lambda: {**sections(own), "project": "acme-serving"})
    assert not warned
    monkeypatch.setitem(SEEN, "disabled", True)
    assert deploy(sections, preview=True).inputs[SLICE]["serviceAccount"] == ACCOUNT
    assert f"{ACCOUNT} is disabled" in warned[0]
    with pytest.raises(pulumi.RunError, match=f"{ACCOUNT} is disabled"):
        deploy(sections)


def test_the_example_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint in a network that the same program makes: the slice is in it, its clients may."""
    example = Path(__file__).parents[2] / "docs" / "examples" / "own_network" / "__main__.py"
    for name, value in EMBEDDED_ENVIRON.items():
        monkeypatch.setenv(name, value)
    network = "projects/tpuflex-dev/global/networks/team"

    plan = run_program(lambda: runpy.run_path(str(example)), read={**SEEN, "network": network})

    assert plan.inputs[SLICE]["network"] == network
    rule = plan.inputs["gcp:compute/firewall:Firewall chat-network-brought-serving"]
    assert rule["sourceRanges"] == ["10.8.0.0/24"]


def pulumi_outputs(values: Mapping[str, object]) -> dict[str, pulumi.Output[Any]]:
    """Each of ``values`` as an output."""
    return {name: pulumi.Output.from_input(value) for name, value in values.items()}


@pytest.mark.parametrize("key", [key for key in KEYS if key not in LATER])
def test_an_output_anywhere_else_is_refused_with_the_reason(key: str) -> None:
    """Every other key of the settings, by its name: why not, and what to write instead."""
    text = refusal(lambda: given(key, pulumi.Output.from_input("x")))

    assert f"tpuflex:{key}: is an Output, but " in text
    assert "before anything exists. Write " in text
    takes = [name for name in LATER if name.startswith(f"{key}.")]
    assert all(name in text for name in takes)
    assert takes or "StackReference.get_output_details" in text
    assert not [each for each in ("__str__", "pydantic", "quotes", "missing") if each in text]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("model.weights.bucket", "but the endpoint says which bucket it has (`bucket`)"),
        ("secrets.api_key", "but the endpoint says which version it has (`api_key_secret`)"),
    ],
)
def test_why_what_exists_cannot_all_be_known_later(key: str, says: str) -> None:
    """A bucket and the version of a secret are plain attributes of the endpoint."""
    assert says in refusal(lambda: given(key, unknown()))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (lambda: soon("x"), "is known later, but zones"),
        (lambda: [pulumi.Output.from_input("x")], "zones[0]: is an Output"),
        (lambda: pulumi.ComponentResource("a:b:C", "c"), "is a resource. Write what is meant"),
    ],
)
def test_what_else_is_not_a_value(value: Callable[[], object], says: str) -> None:
    """Coroutines, members of lists, and whole resources."""
    assert says in refusal(lambda: given("slice.zones", value()))


def test_an_output_deep_within_a_section_is_refused_by_its_place() -> None:
    """In the catalog, too; beside what else is wrong."""
    wrong = {"slice.max_run_duration": "8d"}
    text = refusal(
        lambda: embedded(
            {
                "catalog": {"accelerators": [{"name": unknown()}]},
                "network.allowed_cidrs": [[unknown()]],
                **wrong,
            }
        )
    )

    assert "tpuflex:catalog.accelerators[0].name: is an Output" in text
    assert "tpuflex:network.allowed_cidrs[0][0]: is an Output" in text
    assert "tpuflex:slice.max_run_duration: 8d is longer" in text


def leaves(value: object, path: str = "") -> dict[str, object]:
    """All that is in ``value``, by its place."""
    if isinstance(value, Mapping):
        inner = [(f"{path}.{name}", item) for name, item in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        inner = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return {path: value}
    return {place: leaf for at, item in inner for place, leaf in leaves(item, at).items()}
