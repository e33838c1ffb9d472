"""What a gateway is configured with: two ways in, checked by the same rules."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path
from textwrap import indent

import pytest

from tests.security.certificates import certificate
from tpuflex.errors import AccessError, NotFoundError, SettingsError
from tpuflex.gateway.config import GatewayConfig, read_file, read_section
from tpuflex.project import open_project
from tpuflex.settings.gateway import GatewaySettings, gateway_findings
from tpuflex.settings.load import load_stack_file
from tpuflex.stack.stack import Stack, read_stack

DIGEST = 64 * "0"
#: Twelve lines with seven things that are wrong.
WRONG = f"""\
host: 0.0.0.0
kv_use: 0.5
upstreams:
  main: {{stack: dev, key_file: a.key}}
  other:
    url: https://api.example.com/v1
models:
  fast: {{pools: [[main, there]]}}
clients:
  app: {{key_sha256: "{DIGEST}", request_class: night}}
  batch: {{key_sha256: "{DIGEST}", models: [slow]}}
"""
FOUND = [
    ("host", 1, "in clear"),
    ("upstreams.main.key_file", 4, "a stack has its own"),
    ("upstreams.other.model", 5, "is missing"),
    ("models.fast.pools", 8, "there is no there"),
    ("clients.app.request_class", 10, "there is no night"),
    ("clients.batch.models", 11, "there is no slow"),
    ("clients.batch.key_sha256", 11, "app has the same key"),
]
MISTYPED = """\
prot: 80
upstreams:
  main: {stak: dev}
  Other one: {stack: dev}
  c: {url: "ftp://x", model: m}
  d: {url: "http://[::1/v1", model: m, key_file: d.key}
clients:
  app: {key_sha256: ABC}
classes:
  night: {wait: 2h, first_token: {slow: soon}}
budgets: {url: "http://x"}
models:
  a: {pools: [main]}
  gpt-*: {pools: [[main]]}
"""
ONE = "upstreams: {a: {stack: dev}}\n"


class Opened:
    """Opens the stacks of a project, as the command does."""

    def __init__(self, project: Path) -> None:
        self.project = open_project(project, {})

    def __call__(self, name: str) -> Stack:
        return read_stack(self.project, name, deploying=False)


@pytest.fixture
def opened(project: Path) -> Opened:
    return Opened(project)


def own_file(project: Path, text: str) -> Path:
    path = project / "gateway.yaml"
    path.write_text(text)
    return path


def with_section(project: Path, text: str) -> int:
    """Write ``text`` as the section of the dev stack. Returns the line before its first."""
    file = project / "stacks" / "Pulumi.dev.yaml"
    before = f"{file.read_text()}  tpuflex:gateway:\n"
    file.write_text(before + indent(text, "    "))
    return before.count("\n")


def problems(error: SettingsError) -> list[tuple[str, int, str]]:
    return [
        (each.key, each.position.line if each.position else 0, each.problem)
        for each in error.findings
    ]


def assert_found(
    found: list[tuple[str, int, str]], expected: list[tuple[str, int, str]], key: str, line: int
) -> None:
    wanted = sorted((f"{key}{name}", at + line) for name, at, _ in expected)
    assert sorted((name, at) for name, at, _ in found) == wanted
    texts = {name: text for name, _, text in found}
    assert all(text in texts[f"{key}{name}"] for name, _, text in expected)


def test_a_file_of_its_own_is_checked(project: Path, opened: Opened) -> None:
    """Everything that is wrong is said at once, with its line."""
    with pytest.raises(SettingsError) as caught:
        read_file(own_file(project, WRONG), opened, {})

    assert_found(problems(caught.value), FOUND, "", 0)
    assert "gateway.yaml, line 4" in str(caught.value)


@pytest.mark.parametrize("by", ["gateway run", "up"])
def test_a_section_is_checked_alike(project: Path, opened: Opened, by: str) -> None:
    """By what runs the gateway, and by what deploys the stack."""
    line = with_section(project, WRONG)
    file = project / "stacks" / "Pulumi.dev.yaml"
    read = partial(load_stack_file, file) if by == "up" else partial(read_section, "dev", opened)
    with pytest.raises(SettingsError) as caught:
        read()

    assert_found(problems(caught.value), FOUND, "tpuflex:gateway.", line)


def test_what_is_mistyped_is_named_where_it_stands(project: Path, opened: Opened) -> None:
    """However deep, with what to write instead."""
    with pytest.raises(SettingsError) as caught:
        read_file(own_file(project, MISTYPED), opened, {})

    remedies = {each.key: each.remedy for each in caught.value.findings}
    assert remedies == {
        "prot": "Did you mean port?",
        "upstreams.main.stak": "Did you mean stack?",
        "upstreams.Other one": "Write at most 40 lower-case letters, digits, - and _.",
        "upstreams.c.url": "Write a base URL such as https://api.example.com/v1, without a key in"
        " it.",
        "upstreams.d.url": "Write a port up to 65535, and brackets around an IPv6 address only.",
        "clients.app.key_sha256": "Write the 64 digits that `tpuflex gateway key` prints, in lower"
        " case.",
        "classes.night.wait": "Write 10m or less.",
        "classes.night.first_token.slow": "Write a number.",
        "budgets.url": "Write redis://HOST:PORT, without a password: that belongs in"
        " password_file.",
        "models.a.pools[0]": "Write lists of upstreams in a list, such as [[east, west],"
        " [rented]].",
        "models.gpt-*": "Write a name of one model: at most 96 letters, digits and _./:- without a"
        " wildcard.",
    }
    assert [at for _, at, _ in problems(caught.value)] == [1, 3, 4, 5, 6, 8, 10, 10, 11, 13, 14]


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("", "has no keys"),
        ("- a\n", "has no keys"),
        ("port: 80\n", "upstreams: is missing"),
        ("port: 80\nport: 81\n", "port: is written twice"),
        ("upstreams: {a: {stack: nowhere}}\n", "upstreams.a.stack: There is no stack 'nowhere'"),
        ("tpuflex:gateway: {port: 80}\n", "Write the keys of tpuflex:gateway at the top level"),
        ("config: {tpuflex:gateway: {port: 80}}\n", "at the top level"),
        ("upstreams: [\n", "is not YAML"),
        (f"{ONE}access_log: nowhere/log\n", "access_log: there is no directory .*nowhere"),
        ("tls: somewhere\nupstreams: {a: {stack: dev}}\n", "tls: "),
        (
            f"{ONE}requests: {{max_tokens: 100}}\n"
            f'clients: {{a: {{key_sha256: "{DIGEST}", request_class: extraction}}}}\n',
            r"classes\.extraction\.sampling\.max_tokens: 256 is more",
        ),
    ],
)
def test_a_file_that_says_too_little_is_refused(
    project: Path, opened: Opened, text: str, about: str
) -> None:
    with pytest.raises(SettingsError, match=about):
        read_file(own_file(project, text), opened, {})


@pytest.mark.parametrize(
    "text",
    [
        "upstreams: {a: {url: 'https://app:SECRET@example.com/v1', model: m}}\n",
        "upstreams: [{api_key: SECRET}]\n",
        f"{ONE}clients: {{app: {{key_sha256: SECRET}}}}\n",
        f"{ONE}clients: [{{key: SECRET}}]\n",
        f"{ONE}budgets: {{url: 'redis://:SECRET@10.0.0.1'}}\n",
        f"{ONE}budgets: 'redis://:SECRET@10.0.0.1'\n",
    ],
)
def test_a_secret_in_the_wrong_place_is_not_shown(project: Path, opened: Opened, text: str) -> None:
    """What refuses it is read in logs."""
    with pytest.raises(SettingsError) as caught:
        read_file(own_file(project, text), opened, {})

    assert "SECRET" not in str(caught.value)
    assert "the value" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://10.0.0.2:8000/v1", False),
        ("http://vllm:8000/v1", False),
        ("http://vllm.serving.svc.cluster.local/v1", False),
        ("http://host.us-east5-a.c.project.internal:8000/v1", False),
        ("https://api.example.com/v1", False),
        ("http://api.example.com/v1", True),
        ("http://8.8.8.8/v1", True),
    ],
)
def test_a_key_goes_in_clear_to_private_addresses_and_names_alone(url: str, clear: bool) -> None:
    """A name that the public DNS cannot have is private."""
    upstream = {"url": url, "model": "m", "key_file": "a.key"}
    settings = GatewaySettings.model_validate({"upstreams": {"a": upstream}})

    assert [each.key for each in gateway_findings(settings, "")] == ["upstreams.a.url"] * clear


def test_a_class_that_nobody_has_does_not_matter(project: Path, opened: Opened) -> None:
    """As extraction, whose 256 tokens are more than this."""
    read_file(own_file(project, f"{ONE}requests: {{max_tokens: 100}}\n"), opened, {})


def test_a_file_that_others_may_write_to_is_refused(project: Path, opened: Opened) -> None:
    """They could have prompts sent to them."""
    path = own_file(project, "upstreams: {a: {stack: dev}}\n")
    read_file(path, opened, {})
    path.chmod(0o666)
    with pytest.raises(AccessError, match="every user"):
        read_file(path, opened, {})


def test_a_file_that_is_not_there(project: Path, opened: Opened) -> None:
    with pytest.raises(NotFoundError, match=r"gateway\.yaml"):
        read_file(project / "gateway.yaml", opened, {})


def test_a_stack_without_a_section_has_a_gateway_before_it(opened: Opened) -> None:
    """With nothing to write."""
    config = read_section("dev", opened)

    assert list(config.stacks) == ["dev"]
    assert (config.settings.host, config.settings.port) == ("127.0.0.1", 8080)


SECRETS = """\
tls: {certificate_file: tls/a.pem, key_file: tls/a.key}
upstreams:
  main: {stack: dev}
  other: {url: "https://api.example.com/v1", model: m, key_file: other.key}
budgets: {url: "redis://localhost:6379", password_file: redis.password}
"""


def secret_config(project: Path, opened: Opened) -> GatewayConfig:
    return read_file(own_file(project, SECRETS), opened, {})


def test_secrets_are_in_files_that_nobody_else_may_read(project: Path, opened: Opened) -> None:
    """Each that is missing or open to others is said, with what to do."""
    (project / "other.key").write_text("sk-secret")
    (project / "other.key").chmod(0o644)
    with pytest.raises(SettingsError) as caught:
        secret_config(project, opened)

    assert [each.key for each in caught.value.findings] == [
        "tls.key_file",
        "upstreams.other.key_file",
        "budgets.password_file",
    ]
    open_to_others = caught.value.findings[1]
    assert "chmod 600" in open_to_others.remedy
    assert open_to_others.position is not None
    assert open_to_others.position.line == 4
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["its own", "another's", "encrypted"])
def test_a_certificate_has_its_key(project: Path, opened: Opened, key: str) -> None:
    """The files are relative to that which names them. Nobody is asked for a passphrase."""
    signed, own = certificate(passphrase=b"secret" if key == "encrypted" else b"")
    files = {
        "tls/a.pem": signed,
        "tls/a.key": certificate()[1] if key == "another's" else own,
        "other.key": "secret",
        "redis.password": "secret",
    }
    (project / "tls").mkdir()
    for name, text in files.items():
        (project / name).write_text(text)
        (project / name).chmod(0o600)
    if key == "its own":
        assert isinstance(secret_config(project, opened).tls, ssl.SSLContext)
    else:
        with pytest.raises(SettingsError, match=r"tls\.certificate_file: cannot be used"):
            secret_config(project, opened)
