"""The program's boundaries: configuration in, warnings and outputs out, one image for all."""

from __future__ import annotations

import ast
import hashlib
import inspect
import logging
import subprocess
import sys
from functools import partial
from pathlib import Path

import pulumi
import pytest
from pulumi.runtime.config import set_all_config

from tests.components.pulumi_plan import run_program
from tests.unit.stack_sections import sections
from tpuflex.program import deploy, main
from tpuflex.settings.load import load_stack_file, parse

ROOT = Path(__file__).parents[2]


def test_wrong_configuration_is_a_clean_failure() -> None:
    """The engine prints the findings of a RunError, and no traceback."""

    def program() -> None:
        set_all_config({"tpuflex:cloud": "gogle"}, [])
        main()

    with pytest.raises(pulumi.RunError, match=r"tpuflex:cloud: \"gogle\" is not one of"):
        run_program(program)


def test_warnings_are_shown_and_do_not_stop(caplog: pytest.LogCaptureFixture) -> None:
    """A zone that is not in the tables gives a warning in the engine's log, and is tried."""
    settings = parse(sections({"slice.zones": ["us-east9-a"]}), "test")

    with caplog.at_level(logging.WARNING):
        plan = run_program(lambda: deploy(settings, project="tpuflex", stack="dev", environ={}))

    assert "us-east9-a is not in the table" in caplog.text
    assert plan.inputs["tpuflex:tpu:QueuedResource vllm"]["zones"] == ["us-east9-a"]


def test_prices_are_outputs_where_they_are_known() -> None:
    """Four v6e chips for four hours; an unknown price is not an output."""
    known = parse(sections(), "test")
    unknown = parse(sections({"slice.zones": ["us-central1-a"]}), "test")

    plans = [
        run_program(partial(deploy, each, project="p", stack="s", environ={}))
        for each in (known, unknown)
    ]

    assert plans[0].outputs["price_per_hour"] == 5.4
    assert plans[0].outputs["max_cost"] == 21.6
    assert plans[1].outputs.get("max_cost") is None


def test_the_embedded_image_is_the_locked_one() -> None:
    """The digest of the embedded image is that of its committed list of packages."""
    lock = ROOT / "infra" / "embedded_cloud" / "machines" / "vllm_cpu.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    settings = load_stack_file(ROOT / "stacks" / "Pulumi.dev.yaml").settings
    example = (ROOT / "docs" / "examples" / "library" / "__main__.py").read_text()

    assert settings.serving.image == f"tpuflex/vllm-cpu@sha256:{digest}"
    assert digest in example


def test_the_top_level_is_light() -> None:
    """`import tpuflex` and reading a stack file import neither Pulumi nor Google's clients."""
    script = (
        "import sys, tpuflex, tpuflex.settings.load, tpuflex.planning.cost\n"
        "heavy = {'pulumi', 'pulumi_gcp', 'google.cloud', 'grpc', 'aiohttp'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )

    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert run.returncode == 0, run.stderr


def test_the_public_names_are_there() -> None:
    """Every documented name of the top level exists, for type checkers too, and no other."""
    import tpuflex

    (seen,) = [
        node
        for node in ast.parse(inspect.getsource(tpuflex)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imported = {node.name for node in ast.walk(seen) if isinstance(node, ast.alias)}
    assert imported | {"__version__"} == set(tpuflex.__all__)
    assert tpuflex.__all__ == sorted(tpuflex.__all__)
    assert all(getattr(tpuflex, name) is not None for name in tpuflex.__all__)
    with pytest.raises(AttributeError, match="VllmEndpont"):
        _ = tpuflex.VllmEndpont
