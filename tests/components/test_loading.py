"""The program's classes are loaded before the engine runs the program."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

import tpuflex.components
from tpuflex.deploy.stack_run import _load_program
from tpuflex.errors import BootError

COMPONENTS = Path(str(tpuflex.components.__file__)).parent

LOADED = """
import gc, json, sys
import tpuflex.program
tpuflex.program.load()
print(json.dumps({
    "lazy": sorted(n for n, module in sys.modules.items() if "Lazy" in type(module).__name__),
    "collecting": gc.isenabled(),
}))
"""


def used_modules() -> set[str]:
    """Modules of pulumi-gcp that the components import.

    The bootstrap is a program of its own, and who has no key or no alert policies does not wait for
    their modules.
    """
    return {
        f"pulumi_gcp.{alias.name}"
        for file in COMPONENTS.glob("*.py")
        if file.name not in ("bootstrap.py", "existing_key.py", "monitoring.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "pulumi_gcp"
        for alias in node.names
    }


def test_everything_that_the_components_use_is_loaded() -> None:
    """After loading, every module of pulumi-gcp that a component imports is complete, and the
    garbage collector runs again."""
    shown = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, check=True)

    found = json.loads(shown.stdout)
    assert "pulumi_gcp.compute" in used_modules()
    assert not used_modules() & set(found["lazy"])
    assert found["lazy"], "pulumi-gcp no longer loads lazily: load() is needed no more"
    assert found["collecting"]


def test_what_fails_while_loading_is_left_to_the_program(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The thread that loads prints nothing, least of all a traceback: what is wrong is wrong for
    the program as well, whose errors are told as errors."""

    def fail(*, by_class: bool) -> None:
        assert by_class
        raise BootError("the startup scripts are missing")

    monkeypatch.setattr("tpuflex.program.load", fail)
    thread = Thread(target=_load_program)
    thread.start()
    thread.join()
    assert capfd.readouterr() == ("", "")
