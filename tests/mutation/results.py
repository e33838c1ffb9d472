"""The results that mutmut recorded: each mutant's verdict, and the diff of each survivor."""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Iterator
from pathlib import Path

from tests.mutation.undecorated import original_name

_SOURCES = Path("mutants", "src")
_MARK = "__mutmut_"


def verdicts(work: Path) -> dict[str, dict[str, int | None]]:
    """Exit codes by mutant, by module; None is a mutant that was not run."""
    found = {}
    for meta in sorted((work / _SOURCES).rglob("*.py.meta")):
        codes = json.loads(meta.read_text())["exit_code_by_key"]
        if codes:
            found[meta.name.removesuffix(".py.meta")] = codes
    return found


def survivors(work: Path) -> Iterator[str]:
    """Lines that describe each mutant that no test noticed: its name and its change."""
    for module, codes in verdicts(work).items():
        lived = [name for name, code in codes.items() if code in (0, 33)]
        if not lived:
            continue
        path = Path(*lived[0].split(".")[:-1]).with_suffix(".py")
        functions = {
            node.name: node
            for node in ast.walk(ast.parse((work / _SOURCES / path).read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for name in lived:
            inner = name.rpartition(".")[2]
            stem, _, number = inner.partition(_MARK)
            before, after = functions[f"{stem}{_MARK}orig"], functions[inner]
            reached = "" if codes[name] == 0 else " (no test reaches it)"
            yield f"{module}.{shown(stem)} {number}{reached}"
            yield from (f"    {line}" for line in _difference(before, after))


def shown(stem: str) -> str:
    """``Class.method`` or ``function`` for mutmut's ``xǁClassǁmethod`` or ``x_function``."""
    *owner, name = stem.removeprefix("x").removeprefix("_").strip("ǁ").split("ǁ")
    return ".".join([*owner, original_name(name)])


def _difference(before: ast.AST, after: ast.AST) -> list[str]:
    old, new = (ast.unparse(function).splitlines()[1:] for function in (before, after))
    found = difflib.unified_diff(old, new, lineterm="", n=0)
    return [line for line in found if not line.startswith(("---", "+++", "@@"))]
