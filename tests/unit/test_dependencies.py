"""What the distribution asks for is what its packages import, and the other way round."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = ("tpuflex", "embedded_cloud", "pulumi_plugin")
#: The distribution of what is imported, where it is not called like the module.
DISTRIBUTIONS = {
    "annotated_types": "annotated-types",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.secretmanager": "google-cloud-secret-manager",
    "google.cloud.storage": "google-cloud-storage",
    "google.cloud.tpu": "google-cloud-tpu",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "google_crc32c": "google-crc32c",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "huggingface_hub": "huggingface-hub",
    "prometheus_client": "prometheus-client",
    "pulumi_gcp": "pulumi-gcp",
    "pydantic_core": "pydantic-core",
    "yaml": "pyyaml",
}
#: Imported where it runs in another environment, or for types alone, which a checker brings.
ELSEWHERE = {
    "_typeshed": "the type checker's own",
    "gguf": "reads a checkpoint with the interpreter of the serving image",
    "pulumi_policy": "the environment of the CrossGuard pack",
    "safetensors": "as gguf",
    "torch": "as gguf",
    "transformers": "as gguf",
}
#: Required for its files, or as a program: no module of it is imported.
DATA = {"google-api-python-client": "googleapiclient", "uv": "uv"}


def asked(requirements: list[str]) -> set[str]:
    """Names of the distributions in ``requirements``."""
    return {re.split(r"[<>=!~;\[ ]", each, maxsplit=1)[0] for each in requirements}


BASE = asked(PROJECT["dependencies"])
EMBEDDED = asked(PROJECT["optional-dependencies"]["embedded"])
MEASURE = asked(PROJECT["optional-dependencies"]["measure"])
MCP = asked(PROJECT["optional-dependencies"]["mcp"])
GATEWAY = asked(PROJECT["optional-dependencies"]["gateway"])


def distribution_of(module: str) -> str:
    """The distribution that ``module`` comes from."""
    parts = module.split(".")
    for length in range(min(3, len(parts)), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in DISTRIBUTIONS:
            return DISTRIBUTIONS[prefix]
        # The libraries of Google's APIs have a module for each version of the API beside them.
        if (unversioned := re.sub(r"_v\d\w*$", "", prefix)) in DISTRIBUTIONS:
            return DISTRIBUTIONS[unversioned]
    return parts[0]


def modules(tree: ast.Module) -> Iterator[str]:
    """Every module that ``tree`` imports by its full name, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            whole = node.module in ("google", "google.cloud")
            yield from (f"{node.module}.{a.name}" for a in node.names) if whole else (node.module,)


@cache
def imported(package: str) -> frozenset[str]:
    """Distributions that ``package`` imports, with what is in other environments."""
    own = {*PACKAGES, *sys.stdlib_module_names}
    return frozenset(
        distribution_of(module)
        for file in (ROOT / "infra" / package).rglob("*.py")
        if "__pycache__" not in file.parts and "startup" not in file.parts
        for module in modules(ast.parse(file.read_text()))
        if module.partition(".")[0] not in own
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_imported_is_asked_for(package: str) -> None:
    """Nothing comes along by accident, as what another distribution needs; what the embedded
    cloud alone needs is its extra's, and so is what draws and archives, and
    what serves assistants, and what a gateway runs on."""
    extra = {"embedded_cloud": EMBEDDED, "tpuflex": MEASURE | MCP | GATEWAY}.get(package, set())
    allowed = BASE | extra

    assert imported(package) - allowed - ELSEWHERE.keys() == set()


def test_what_is_asked_for_is_imported() -> None:
    """No user installs what only our tests import."""
    everywhere = set[str]().union(*map(imported, PACKAGES))
    sources = "".join(
        file.read_text() for file in (ROOT / "infra" / "embedded_cloud").rglob("*.py")
    )

    assert (BASE | EMBEDDED | MEASURE | MCP | GATEWAY) - everywhere == DATA.keys()
    assert BASE & DATA.keys() == set()
    assert ELSEWHERE.keys() - everywhere == set()
    for module in DATA.values():
        assert f'"{module}' in sources


@pytest.mark.parametrize(
    ("source", "distribution"),
    [
        ("from google.cloud import tpu_v2alpha1", "google-cloud-tpu"),
        ("import google.cloud.secretmanager_v1 as sm", "google-cloud-secret-manager"),
        ("from google.cloud.storage import Blob", "google-cloud-storage"),
        ("from google.auth.transport.requests import Request", "google-auth"),
        ("def late():\n    import requests", "requests"),
    ],
)
def test_the_distribution_of_an_import(source: str, distribution: str) -> None:
    """Google's libraries share a namespace: each import is told apart."""
    assert [distribution_of(each) for each in modules(ast.parse(source))] == [distribution]
