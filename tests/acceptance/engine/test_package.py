"""The package as the real engine sees it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpuflex.engine.find import ensure
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.provider.schema import package_schema
from tpuflex.queued_resource.fields import INPUTS

ROOT = Path(__file__).parents[3]

#: As the README names it: a path below the current directory, or the engine asks its registry.
PLUGIN = "./infra/plugin/pulumi-resource-tpuflex"


def inside(types: dict[str, Any]) -> dict[str, Any]:
    """The properties of each type, or the words of an enumeration."""
    return {name: type_.get("properties") or type_["enum"] for name, type_ in types.items()}


@pytest.fixture
def pulumi_package(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs one command of the real engine in the project's folder."""
    engine = ensure(ROOT / ".tpuflex", os.environ, lambda _: None)
    environ = {
        **os.environ,
        "PULUMI_HOME": str(tmp_path),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [engine.path, *arguments],
            env=environ,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.engine
def test_the_engine_accepts_the_schema(
    pulumi_package: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """`pulumi package get-schema` starts the plugin and prints what it serves, whole."""
    done = pulumi_package("package", "get-schema", PLUGIN)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    theirs, ours = json.loads(done.stdout), json.loads(package_schema())
    assert theirs["resources"] == ours["resources"]
    assert inside(theirs["types"]) == inside(ours["types"])
    assert theirs["language"] == ours["language"]
    assert theirs["functions"].keys() == ours["functions"].keys()
    assert set(theirs["resources"][QUEUED_RESOURCE]["inputProperties"]) == INPUTS


@pytest.mark.engine
def test_the_engine_binds_the_schema(
    pulumi_package: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """`pulumi schema check` resolves every type for every language, without a warning."""
    done = pulumi_package("schema", "check", PLUGIN)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_everything_in_the_schema_is_described() -> None:
    """Every resource, type, input and output says what it means."""
    schema = json.loads(package_schema())
    functions = {
        f"{token}.{side}": {**function[side], "description": function["description"]}
        for token, function in schema["functions"].items()
        for side in ("inputs", "outputs")
    }
    types = {**schema["resources"], **schema["types"], **functions}
    described = {**types, "provider": schema["provider"]}

    silent = [
        f"{name}.{field}"
        for name, item in described.items()
        for group in ("inputProperties", "properties")
        for field, value in {**item.get(group, {}), "": item}.items()
        if not value.get("description", "").strip()
    ]
    assert silent == []
