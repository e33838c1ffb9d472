"""No value shows the environment that it carries: it has tokens and passphrases in it."""

from __future__ import annotations

import ast
from pathlib import Path

import tpuflex

ROOM = Path(str(tpuflex.__file__)).parent


def shown(file: Path) -> list[str]:
    """The dataclasses of ``file`` whose text has their environment in it."""
    return [
        f"{file.relative_to(ROOM)}: {each.name}"
        for each in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(each, ast.ClassDef)
        and any("dataclass" in ast.unparse(decorator) for decorator in each.decorator_list)
        for line in each.body
        if isinstance(line, ast.AnnAssign)
        and ast.unparse(line.target) == "environ"
        and "repr=False" not in ast.unparse(line)
    ]


def test_no_value_shows_its_environment() -> None:
    """A program that prints or logs what a function returns prints no secret of its environment."""
    assert [name for file in sorted(ROOM.rglob("*.py")) for name in shown(file)] == []
