"""What `pulumi import` prints is the program of what it has imported."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulumi
import pytest

from tests.acceptance.plain_pulumi import PlainPulumi, plain_pulumi
from tests.goldens.golden_texts import GOLDENS, assert_golden
from tests.provider.deployment import CUT_SHORT, NAME, PROJECT, Rig, command, live, outputs
from tpuflex.naming import LABEL_STATE, QUEUED_RESOURCE
from tpuflex.provider import examples
from tpuflex.tpu import Provider, QueuedResource

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]

#: As `pulumi import` of Pulumi 3.256.0 printed it.
PRINTED = "imported-program.py.txt"
HOST = shutil.which("pulumi-language-python")
IMPORT = ("import", "--stack=dev", "--yes", "--protect=false", QUEUED_RESOURCE, "slice", NAME)


@pytest.fixture
def unmanaged(rig: Rig) -> Iterator[PlainPulumi]:
    """The engine's command line, whose stack knows nothing of the slice that there is."""
    rig.args["boot_disk"] = {"disk_size_gb": 200}
    rig.args["labels"] = {"team": "search", LABEL_STATE: "0123456789abcdef0123"}
    rig.up()
    command(rig, "state", "delete", "--force", "--all")
    workspace = rig.stack.workspace
    environ = {**os.environ, **workspace.env_vars}
    engine, work = Path(workspace.pulumi_command.command), Path(workspace.work_dir)
    with plain_pulumi(engine, work, environ, printed_program) as engine_command:
        engine_command("config", "set", "tpuflex:project", PROJECT, "--stack=dev")
        yield engine_command


def printed_program() -> None:
    """Run what was printed, with the library in the place of the SDK that Pulumi would generate."""
    printed = (GOLDENS / PRINTED).read_text("utf-8")
    program = printed.replace("import pulumi_tpuflex as tpuflex\n", "import tpuflex\n")
    assert program != printed
    exec(compile(program, PRINTED, "exec"), {})  # noqa: S102 - a golden of ours


@pytest.mark.pulumi_feature("imported program")
def test_the_printed_program_runs_with_the_library(rig: Rig, unmanaged: PlainPulumi) -> None:
    """Its names are the library's, and it says all that the slice is: the next `up` changes nothing
    of it. Import and refresh write one shape: no empty list of tags comes up between them."""
    unmanaged(*IMPORT, "--generate-code=false")
    imported = rig.resource()
    unmanaged("refresh", "--stack=dev", "--yes", "--skip-preview", "--expect-no-changes")
    refreshed = rig.resource()
    assert imported is not None
    assert refreshed is not None
    assert refreshed["inputs"] == imported["inputs"]
    assert refreshed["outputs"] == imported["outputs"]

    unmanaged("preview", "--stack=dev", "--expect-no-changes")
    unmanaged("up", "--stack=dev", "--yes", "--skip-preview")

    assert outputs(rig)["lifecycle"] == "active"
    assert len(rig.calls("POST")) == 1
    assert rig.calls("PATCH", "nodes") == []


@pytest.mark.pulumi_feature("get")
def test_a_program_reads_a_slice_that_it_does_not_manage(rig: Rig) -> None:
    """`QueuedResource.get` shows it, nested outputs included; it is neither changed nor deleted."""
    rig.up()
    command(rig, "state", "delete", "--force", "--all")
    rig.stack.workspace.program = reader

    seen = rig.up().outputs
    assert rig.preview() == {"same": 2}
    rig.destroy()

    assert seen["lifecycle"].value == "active"
    assert seen["node"].value == "shop-dev-slice-g1"
    assert len(seen["addresses"].value) == 1
    assert live(rig) == [NAME]
    assert rig.calls("PATCH", "nodes") == rig.calls("DELETE") == []


def reader() -> None:
    """A program that reads the slice, and manages nothing."""
    provider = Provider("cloud", project=PROJECT)
    opts = pulumi.ResourceOptions(provider=provider)
    found = QueuedResource.get("found", NAME, opts)
    pulumi.export("lifecycle", found.lifecycle)
    pulumi.export("node", found.nodes.apply(lambda nodes: nodes[0].id))
    pulumi.export("addresses", found.nodes.apply(lambda nodes: nodes[0].ip_addresses))


@pytest.mark.skipif(HOST is None, reason="needs pulumi-language-python on PATH")
def test_the_engine_prints_that_program(unmanaged: PlainPulumi, tmp_path: Path) -> None:
    """With Pulumi's own Python language host the import prints it, letter by letter."""
    printed = tmp_path / "printed.py"
    with language_host() as port:
        environ = {**unmanaged.environ, "PULUMI_DEBUG_LANGUAGES": f"python:{port}"}
        hosted = PlainPulumi(unmanaged.executable, unmanaged.root, environ)
        hosted(*IMPORT, f"--out={printed}")

    assert_golden(PRINTED, printed.read_text("utf-8"))


def test_the_example_of_the_schema_is_a_program(rig: Rig, tmp_path: Path) -> None:
    """What the registry shows for Python asks for the slice with the inputs that it is about."""
    program = tmp_path / "example.py"
    program.write_text(examples.python_example(), "utf-8")
    workspace = rig.stack.workspace
    environ = {**os.environ, **workspace.env_vars}
    engine, work = Path(workspace.pulumi_command.command), Path(workspace.work_dir)

    def run() -> None:
        runpy.run_path(str(program))

    with plain_pulumi(engine, work, environ, run) as engine_command:
        planned = json.loads(engine_command("preview", "--stack=dev", "--json").stdout)

    (state,) = [step["newState"] for step in planned["steps"] if step["urn"].endswith("::slice")]
    assert {key: state["inputs"][key] for key in examples.INPUTS} == dict(examples.INPUTS)


@contextmanager
def language_host() -> Iterator[str]:
    """The port of Pulumi's own Python language host."""
    with subprocess.Popen([str(HOST)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
