"""`tpuflex gateway render`: what is printed, and what is said beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden
from tests.security.certificates import certificate
from tpuflex.errors import NotFoundError
from tpuflex.gateway.config import GatewayConfig, read_file
from tpuflex.gateway.render import ServingAddress, llm_d_endpoints
from tpuflex.project import open_project
from tpuflex.stack.stack import read_stack

#: A stack, another server for when it has no room, and one beside it.
GATEWAY = f"""\
port: 8090
upstreams:
  tpu: {{stack: dev}}
  beside: {{url: "http://10.0.0.9:8000/v1", model: org/chat, in_flight: {{least: 4, most: 64}}}}
  openai: {{url: https://api.example.com/openai/v1, model: gpt-large, key_file: openai.key}}
models:
  chat: {{pools: [[tpu, beside], [openai]], request_class: batch}}
  large: {{pools: [[openai]], cache: true}}
clients:
  web:
    key_sha256: {"a" * 64}
    models: [chat]
    limits: {{requests_per_minute: 60, requests_per_day: 9000, tokens_per_day: 1000000}}
  jobs: {{key_sha256: {"b" * 64}, request_class: batch}}
"""
EDGE = ("envoy", "--certificate", "tls.pem", "--key", "key.pem")


@pytest.fixture
def config(project: Path) -> Path:
    """The file of a gateway in the project."""
    file = project / "gateway.yaml"
    file.write_text(GATEWAY)
    key = project / "openai.key"
    key.write_text("sk-secret")
    key.chmod(0o600)
    return file


def opened(config: Path) -> GatewayConfig:
    return read_file(config, lambda name: read_stack(open_project(config.parent, {}), name), {})


@pytest.mark.parametrize(
    ("target", "golden"), [(EDGE, "envoy.yaml"), (("bifrost",), "bifrost.json")]
)
def test_rendered(config: Path, type_in: TypeIn, target: tuple[str, ...], golden: str) -> None:
    """No secret is in it. What JSON cannot say is on standard error."""
    typed = type_in("gateway", "render", *target, "--config", str(config))

    assert (typed.code, "sk-secret" in typed.out + typed.err) == (0, False)
    assert_golden(f"gateway/{golden}", typed.out)
    assert_golden(f"gateway/{golden}.txt", typed.err)


def test_a_document_has_what_is_omitted(config: Path, type_in: TypeIn) -> None:
    """A script sees it, too."""
    typed = type_in("gateway", "render", "bifrost", "--config", str(config), "--json")

    assert typed.err == ""
    assert typed.document["configuration"]["client"]["max_request_body_size_mb"] == 4
    assert any("TPUFLEX_OPENAI_KEY" in each for each in typed.document["omitted"])


def test_a_gateway_by_default(project: Path, type_in: TypeIn) -> None:
    """A stack without the section is rendered, too: it is what is behind its gateway."""
    del project
    rules = type_in("gateway", "render", "bifrost", "--json").document["configuration"]

    (rule,) = rules["governance"]["routing_rules"]
    assert rule["targets"] == [{"provider": "tpuflex", "model": rule["id"], "weight": 1.0}]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("port: 0\n", "port: is any free one"),
        ("tls: {certificate_file: tls.pem, key_file: tls.key}\n", "tls: the gateway ends TLS"),
    ],
)
def test_what_an_edge_cannot_stand_before(
    config: Path, type_in: TypeIn, more: str, said: str
) -> None:
    """A gateway at any free port, and one that ends TLS itself."""
    config.write_text(GATEWAY.replace("port: 8090\n", more))
    for name, text in zip(("tls.pem", "tls.key"), certificate(), strict=True):
        (config.parent / name).write_text(text)
        (config.parent / name).chmod(0o600)
    typed = type_in("gateway", "render", *EDGE, "--config", str(config))

    assert (typed.code, typed.out) == (5, "")
    assert said in typed.err


def test_an_edge_on_another_machine(config: Path, type_in: TypeIn) -> None:
    """It is said that the way from there is in clear."""
    config.write_text(f'host: "192.0.2.7"\ntls: elsewhere\n{GATEWAY}')
    typed = type_in(
        "gateway", "render", *EDGE, "--listen", "[::]:443", "--config", str(config), "--json"
    )

    resources: Any = typed.document["configuration"]["static_resources"]
    (listener,), (cluster,) = resources["listeners"], resources["clusters"]
    (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert listener["address"]["socket_address"] == {"address": "::", "port_value": 443}
    assert endpoint["endpoint"]["address"]["socket_address"]["address"] == "192.0.2.7"
    assert "in clear" in typed.document["omitted"][-1]
    for wrong in ("443", "[::]", "0.0.0.0:65536", "0.0.0.0:https", "localhost:443"):
        assert type_in("gateway", "render", *EDGE, "--listen", wrong).code == 2


def test_endpoints_of_llm_d(config: Path) -> None:
    """Those of the first pool that serve now; which are not there, and why, is said."""
    serving = (
        ServingAddress("tpu-dev-g1", "tpu", "http://10.0.0.2:8000/v1"),
        ServingAddress("tpu-dev-g2", "tpu", "https://10.0.0.3:8000/v1"),
        ServingAddress("beside", "beside", "http://10.0.0.9:8000/v1"),
        ServingAddress("openai", "openai", "https://api.example.com/openai/v1"),
    )

    assert_golden("gateway/endpoints.yaml", llm_d_endpoints(opened(config), serving, "chat").text)
    with pytest.raises(NotFoundError, match="Which model"):
        llm_d_endpoints(opened(config), serving)
    with pytest.raises(NotFoundError, match="no model x"):
        llm_d_endpoints(opened(config), serving, "x")
