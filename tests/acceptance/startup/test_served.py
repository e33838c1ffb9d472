"""Which vLLM serves: reported before READY, and stopped when it is too old."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.startup.cloud import METRICS
from tests.startup.host import StartupHost, StartupRun
from tpuflex.startup import served


def test_version_and_kv_cache_are_reported(booted: tuple[StartupHost, StartupRun]) -> None:
    """A host that is READY has said which vLLM serves and how large its KV cache is."""
    host, _ = booted
    assert host.cloud.last("vllm_version") == "0.32.0"
    assert json.loads(host.cloud.last("kv_cache")) == {
        "block_size": 16,
        "num_blocks": 129,
        "cache_dtype": "auto",
        "tokens": 2048,
    }
    keys = [key for key, _ in host.cloud.reports]
    assert keys.index("kv_cache") < len(keys) - keys[::-1].index("phase") - 1


@pytest.mark.parametrize("version", ["0.11.2", "dev"])
def test_an_old_server_is_stopped(host: StartupHost, version: str) -> None:
    """A server below the floor, or that cannot be compared, answers nobody and ends the boot; the
    error says what serves, what is the least, and where to change it."""
    host.cloud.version = json.dumps({"version": version}).encode()
    run = host.run()
    assert run.status == 1
    error = host.cloud.last("error")
    assert error.startswith("server-version: ")
    assert all(each in error for each in (version, "0.23.1", "tpuflex:serving.image"))
    assert "READY" not in host.cloud.phases()
    assert host.cloud.asked("/v1/chat/completions") == 0
    assert host.docker_calls("stop") == ["stop vllm "]
    assert not host.memory("key.header").exists()


def test_a_floor_of_zero_lets_every_version_serve(host: StartupHost) -> None:
    """Who builds an image without a version can say so in the catalog."""
    host.cloud.version = b'{"version": "dev"}'
    host.cloud.config = host.config(serving=host.config()["serving"] | {"security_floor": "0"})
    assert host.run().status == 0
    assert host.cloud.last("vllm_version") == "dev"


def test_a_server_that_says_nothing_of_its_cache_is_ready(host: StartupHost) -> None:
    """Nothing depends on the size of the KV cache: without it the host is READY all the same."""
    host.cloud.answers["/metrics"] = [500]
    assert host.run().status == 0
    assert host.cloud.last("kv_cache") == ""


def test_what_an_earlier_boot_said_is_forgotten(host: StartupHost) -> None:
    """A boot that fails before its server answers shows no version of the server before."""
    host.run()
    host.cloud.config = host.config(serving=host.config()["serving"] | {"port": 0})
    assert host.run().status == 1
    assert host.cloud.last("vllm_version") == ""
    assert host.cloud.last("kv_cache") == ""


def test_the_chat_template_comes_from_the_weights(host: StartupHost) -> None:
    """The server gets the template's path below its weights; a file that is not there ends it."""
    serving = host.config()["serving"]
    host.cloud.put_weights({"a.safetensors": b"tensors", "t/tools.jinja": b"{{ messages }}"})
    host.cloud.config = host.config(serving=serving | {"chat_template": "t/tools.jinja"})
    run = host.run()
    assert run.status == 0, run.output
    words = shlex.split(host.docker_calls("run")[0])
    template = words[words.index("--chat-template") + 1]
    assert template == f"{words[words.index('--model') + 1]}/t/tools.jinja"

    host.cloud.config = host.config(serving=serving | {"chat_template": "other.jinja"})
    host.run()
    assert host.cloud.last("error").startswith("chat-template: the weights have no file other")


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("0.23.0", "0.23.1"),
        ("0.9.2", "0.11.0"),
        ("0.23.1rc1", "0.23.1"),
        ("0.23.1.dev4", "0.23.1"),
        ("0.23", "0.23.1"),
        ("0.1.dev15+gabc", "0.23.1"),
        ("dev", "0.1"),
        ("0.23.1", "0.29.1rc1.dev468+g1a2b3c"),
    ],
)
def test_versions_are_ordered(older: str, newer: str) -> None:
    """By their numbers, and a pre-release before its release."""
    assert served.release(older) < served.release(newer)


@pytest.mark.parametrize("version", ["0.32.0+cpu", "0.32.0.post1", "0.32"])
def test_builds_of_a_release_are_no_older(version: str) -> None:
    """A local build or a post-release is not below the release that it is made from."""
    assert served.release(version) >= served.release("0.32.0")


@pytest.mark.parametrize(
    "metrics",
    [
        "",
        "vllm:cache_config_info",
        "# vllm:cache_config_info{} 1.0",
        'vllm:cache_config_info{block_size="16"',
    ],
)
def test_no_metric_no_cache(metrics: str) -> None:
    """Without the metric nothing is said."""
    assert served.kv_cache(metrics) == {}


def test_odd_labels_are_not_known() -> None:
    """Labels that are no counts, or hold more than a word, are null."""
    text = METRICS.decode().replace('"16"', '"None"').replace('"auto"', '"a\\"} b"')
    assert served.kv_cache(text) == {
        "block_size": None,
        "num_blocks": 129,
        "cache_dtype": None,
        "tokens": 2048,
    }


def test_a_hostile_answer_takes_no_time() -> None:
    """What a server says of its cache is looked through once: a quadratic search of this text
    would take hours."""
    text = "vllm:cache_config_info{" + "a" * served.ANSWER_BYTES + "} 1"
    assert set(served.kv_cache(text).values()) == {None}
    assert served.ANSWER_BYTES <= 2**20
