"""The startup script as text: static, in order, and small (`make lint` runs shellcheck)."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tpuflex.boot.metadata import LIMIT_BYTES, code_of, startup_script

STARTUP = Path(__file__).parents[2] / "startup"
FILES = sorted(STARTUP.glob("*.sh"))


def test_parts_come_in_order() -> None:
    """The script is its parts, without comments, by number; the last one starts everything."""
    script = startup_script()
    positions = [script.index(bare(file.read_text()).rstrip()) for file in FILES]
    assert positions == sorted(positions)
    assert script.rstrip().endswith('main "$@"')


def test_has_no_comments() -> None:
    """Lines that are comments stay at home, and no line of a text that looks like one is lost: such
    lines are in the parts only where Bash or Python takes them for comments."""
    script = startup_script()
    assert bare(script) == script
    for file in FILES:
        assert _printed(bare(file.read_text())) == _printed(file.read_text()), file.name


def bare(text: str) -> str:
    """``text`` without lines that are comments."""
    return "".join(line for line in text.splitlines(True) if not re.match(r"\s*#( |$)", line))


def _printed(part: str) -> str:
    """A part as Bash has read it, without comments of the Python within."""
    command = ["bash", "-c", f"part() {{\n{part}\n}}\ndeclare -f part"]
    return bare(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_fits_into_metadata() -> None:
    """It stays well below the limit of a metadata value."""
    assert len(startup_script().encode()) < LIMIT_BYTES * 15 / 16


def test_nothing_is_printed_by_bash_itself() -> None:
    """No part traces its commands: a trace would print secrets to the serial log."""
    script = startup_script()
    assert not re.search(r"^\s*set\s+-[a-z]*x", script, re.MULTILINE)
    assert "xtrace" not in script


def test_no_part_uses_eval() -> None:
    """No part uses `eval`: bash names what that runs with its variables expanded, so the report of
    an unexpected failure would show their values."""
    assert not re.search(r"\beval\b", startup_script())


def test_has_no_template_markers() -> None:
    """Every part runs unchanged: there is nothing to fill in."""
    for file in FILES:
        assert not re.search(r"\{\{|\}\}|<%|@@|__[A-Z]+__", file.read_text()), file.name


def test_every_part_is_strict() -> None:
    """Every part stops at the first failure and reads no unset variable."""
    for file in FILES:
        assert "set -Eeuo pipefail" in file.read_text(), file.name


@pytest.mark.parametrize("file", sorted(STARTUP.glob("*.py")), ids=lambda file: file.name)
def test_python_is_sent_as_its_code(file: Path) -> None:
    """What a host gets of a Python file is the same program, without what explains it."""
    code = code_of(file.read_text())
    assert ast.dump(_undocumented(code)) == ast.dump(_undocumented(file.read_text()))
    assert not re.search(r"^ *(#.*)?$", code.removesuffix("\n"), re.MULTILINE)


def test_texts_that_look_like_comments_are_kept() -> None:
    """Only what Python takes for a docstring, a comment or an empty line is left out."""
    source = '''"""What it is."""
TEXT = """
# not a comment

"""  # kept


class Empty:
    """Nothing."""


def asked(  # kept
    # left out
    first: int,
) -> str:
    """Of two
    lines."""
    return "#"
'''
    assert (
        code_of(source)
        == '''TEXT = """
# not a comment

"""  # kept
class Empty:
    pass
def asked(  # kept
    first: int,
) -> str:
    return "#"
'''
    )


def _undocumented(source: str) -> ast.Module:
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    return tree
