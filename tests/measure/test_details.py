"""What an endpoint serves, by its server and, where that says nothing, by its stack file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.measure.fake_server import AFTER, MODEL, FakeServer
from tpuflex.errors import ApiError
from tpuflex.measure.details import Details, details_of
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import StackSettings

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def settings() -> StackSettings:
    return load_stack_file(ROOT / "stacks" / "Pulumi.dev.yaml").settings


def details(fake: FakeServer, settings: StackSettings) -> Details:
    with fake.running() as server:
        return details_of(server, "dev", settings)


def values(found: Details) -> dict[str, tuple[str, str, str]]:
    return {fact.name: (fact.value, fact.source.value, fact.planned) for fact in found.facts}


def test_what_the_server_says(settings: StackSettings) -> None:
    """Each figure with who says so; the planned ones are those of `tpuflex memory`."""
    found = details(FakeServer(), settings)

    facts = values(found)
    assert facts["model"] == (MODEL, "server", "")
    assert facts["context"] == ("512 tokens", "server", "")
    assert facts["vLLM"] == ("0.32.0", "server", "")
    assert facts["weights"] == ("not quantised", "catalog", "")
    assert facts["compute"] == ("bfloat16", "stack file", "")
    assert facts["KV type"] == ("auto: the type that the model computes in", "server", "")
    assert facts["KV blocks"] == ("364 of 128 tokens", "server", "")
    assert facts["KV tokens"] == ("46,592", "server", "")
    assert facts["full sequences"] == ("91.0 of 512 tokens at once", "server", "")
    assert facts["prefix cache"] == ("on", "server", "")
    assert facts["process"][0].startswith("0.68 GiB, the API server")
    assert found.missing == ()
    assert json.loads(json.dumps(found.to_json()))["kv_cache"]["tokens"] == 46592


def test_what_was_planned_otherwise(settings: StackSettings) -> None:
    """The plan stands beside a figure that is another one."""
    fake = FakeServer()
    text = AFTER.replace('num_gpu_blocks="364"', 'num_gpu_blocks="182"')
    text = text.replace('kv_cache_size_tokens="46592"', 'kv_cache_size_tokens="23296"')
    fake.documents["/metrics"] = [text.replace('concurrency="91.0"', 'concurrency="None"')]

    facts = values(details(fake, settings))

    assert facts["KV blocks"] == ("182 of 128 tokens", "server", "364 of 128")
    assert facts["KV tokens"] == ("23,296", "server", "46,592")
    assert facts["full sequences"] == ("45.5 of 512 tokens at once", "server", "91.0")


@pytest.mark.parametrize(
    ("flag", "weights"),
    [("quantization: fp8", "quantised by fp8"), ("kv_cache_dtype: fp8", "not quantised")],
)
def test_what_no_route_of_vllm_says(settings: StackSettings, flag: str, weights: str) -> None:
    """Quantised weights are by the flag of the stack file."""
    name, _, value = flag.partition(": ")
    flags = settings.serving.flags.model_copy(update={name: value})
    serving = settings.serving.model_copy(update={"flags": flags})

    facts = values(details(FakeServer(), settings.model_copy(update={"serving": serving})))

    assert facts["weights"][0] == weights


def test_what_the_server_does_not_say(settings: StackSettings) -> None:
    """What it says is shown all the same, with what it does not; who says nothing is an error."""
    fake = FakeServer()
    fake.documents |= {"/metrics": [404], "/v1/models": ['{"data": []}']}

    found = details(fake, settings)

    assert values(found)["model"] == (settings.model.name, "stack file", "")
    assert values(found)["context"] == ("512 tokens", "stack file", "")
    assert "KV tokens" not in values(found)
    assert len(found.missing) == 2

    fake.documents |= {"/v1/models": [500], "/version": [500]}
    with pytest.raises(ApiError):
        details(fake, settings)
