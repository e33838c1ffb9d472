"""Prints the test files that a change most likely breaks: `make quick` runs them.

These are the files of tests that were changed, those that import a changed module, and those in the
folder of a changed file's room. It is a first look, not a proof: `make test` runs all.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Folders that modules are imported from; the tests of a room below are in the folder of its name.
_SOURCES = ("infra/tpuflex/", "infra/", "benchmarks/", "startup/")


def changed_files(base: str) -> set[str]:
    """Paths of what differs from the last commit in common with ``base``, new files included."""
    since = _git("merge-base", "HEAD", base).strip()
    changed = _git("diff", "--name-only", since).splitlines()
    return {*changed, *_git("ls-files", "--others", "--exclude-standard").splitlines()}


def affected(changed: set[str], tests: dict[str, set[str]]) -> set[str]:
    """The tests among ``tests``, which is what each file imports, that ``changed`` may break."""
    modules = {module for path in changed for module in modules_of(path)}
    folders = tuple(filter(None, map(folder_of, changed)))
    return {
        file
        for file, imports in tests.items()
        if file in changed or imports & modules or file.startswith(folders)
    }


def modules_of(path: str) -> Iterator[str]:
    """The names under which the Python file at ``path`` may be imported."""
    if path.endswith(".py"):
        module = path.removesuffix(".py").removesuffix("/__init__")
        for source in ("", *_SOURCES):
            if path.startswith(source):
                yield module.removeprefix(source).replace("/", ".")


def folder_of(path: str) -> str:
    """The folder of tests of the room that the file at ``path`` belongs to, whether it is there or
    not; empty for a test."""
    for source in _SOURCES[:3]:
        path = path.removeprefix(source)
    room = path.partition("/")[0].removesuffix(".py")
    return "" if room == "tests" else f"tests/{room}/"


def imports_of(text: str) -> set[str]:
    """The modules that a program imports, on whatever line."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
    return found


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    files = {
        str(path.relative_to(ROOT)): imports_of(path.read_text("utf-8"))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "acceptance" not in path.parts
    }
    print("\n".join(sorted(affected(changed_files(sys.argv[1]), files))))
