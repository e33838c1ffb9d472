"""The layers of docs/architecture.md, enforced by reading the imports."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "infra"
#: The import packages of the distribution.
PACKAGES = ("tpuflex", "embedded_cloud", "pulumi_plugin")
#: What the packages beside tpuflex import of the others.
OTHER_PACKAGES = {
    "embedded_cloud": (
        "tpuflex.errors",
        "tpuflex.files.trusted",
        "pulumi_plugin.",
    ),
    "pulumi_plugin": (),
}

#: Rank of each part; an import may only point to a lower rank (or stay within its part).
RANKS: dict[str, int] = {
    # The plugin's process answers for the provider, and for components in other languages.
    "plugin": 13,
    "cli": 13,
    "mcp_server": 13,
    "__main__": 13,
    "remote": 12,
    "deploy": 12,
    "diagnosis": 12,
    "gateway": 12,
    "doctor": 11,
    "measure": 11,
    # The program reads the files of a model on this machine, by which the stack is planned.
    "program": 11,
    "operate": 10,
    "scaffold": 10,
    "sizing": 10,
    "weights": 9,
    "stack": 8,
    # Opens a stack with what reads the files of its model.
    "stack.opening": 10,
    "terminal": 8,
    # What callers are told: the terminal shows it.
    "stack.progress": 7,
    "recovery": 7,
    "components": 6,
    "engine": 6,
    "policy_pack": 6,
    "policy": 5,
    "provider": 5,
    "tpu": 5,
    "inventory": 4,
    "google": 3,
    "embedded_cloud": 3,
    "project": 3,
    "boot": 2,
    "settings.load": 2,
    "settings.read": 2,
    "files": 2,
    # The rules as data: a stack file names them.
    "policy.rows": 1,
    "alerts": 1,
    "catalog": 1,
    "planning": 1,
    "settings": 1,
    "naming": 1,
    "duration": 1,
    "advice": 1,
    "both_ends": 1,
    "codes": 1,
    "errors": 1,
    "gcloud_commands": 1,
    "host": 1,
    "queued_resource": 1,
    "roles": 1,
    "known_messages": 1,
    # How Pulumi's SDKs are loaded, and Pulumi's plugin protocol, know nothing of tpuflex.
    "by_class": 0,
    "pulumi_plugin": 0,
    # The top level only names the version and loads public names on first use.
    "": 0,
}

#: Reading a file is half of loading settings; a command starts the server.
ALLOWED_SIDEWAYS = {
    ("__main__", "cli"),
    ("cli", "mcp_server"),
    ("settings.load", "settings.read"),
}
#: Runs as a script, with the Python of an image.
SCRIPTS = {"tpuflex.weights.gguf_checkpoint"}

#: The same for the parts of the embedded cloud; what composes them lies on top.
EMBEDDED_CLOUD_RANKS: dict[str, int] = {
    "": 4,
    "strict": 3,
    "services": 2,
    "faults": 2,
    "machines": 1,
    "gcp_plugin": 1,
    "core": 0,
}

#: What the pure core may not touch: the clock, the environment, files, the network.
IMPURE = {"os", "pathlib", "requests", "socket", "subprocess", "time", "pulumi", "shutil", "random"}
PURE = {part for part, rank in RANKS.items() if rank == 1}
#: Pure, too, though it reads the tables of what is made and of what a host boots with.
PURE_ABOVE = {"policy"}


def part_of(module: str) -> str:
    """The part of the house that ``tpuflex.…`` belongs to; another package is a part itself."""
    if module.split(".")[0] != "tpuflex":
        return module.split(".")[0]
    rest = module.removeprefix("tpuflex").removeprefix(".")
    two = ".".join(rest.split(".")[:2])
    return two if two in RANKS else rest.split(".")[0]


@dataclass(frozen=True)
class Source:
    """What is asked of a file's source.

    Attributes:
        imports: all modules that it imports, anywhere in it.
        written: where it writes by itself: lines with ``print``, or a stream of ``sys``.
        reads_config: whether it reads ``pulumi.Config``.
    """

    imports: frozenset[str]
    written: tuple[int, ...]
    reads_config: bool


def parsed(path: Path) -> ast.Module:
    """The file's syntax tree.

    Without garbage collection in between: a finalizer that logs a traceback parses source
    itself, which CPython 3.11's parser does not survive
    (https://github.com/python/cpython/issues/106905).
    """
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


@cache
def source(path: Path) -> Source:
    """The source of ``path``, which is read once."""
    found, written, reads_config = set[str](), list[int](), False
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                assert node.level == 0, f"{path}: relative import"
                module = node.module or ""
                found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
            case ast.Name(id="print"):
                written.append(node.lineno)
            case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"):
                written.append(node.lineno)
            case ast.Attribute(value=ast.Name(id="pulumi"), attr="Config"):
                reads_config = True
    return Source(frozenset(found), tuple(written), reads_config)


def imports(path: Path) -> frozenset[str]:
    """All modules that the file imports, anywhere in it."""
    return source(path).imports


@cache
def modules() -> dict[str, Path]:
    """The file of each module."""
    files = sorted(
        path
        for package in PACKAGES
        for path in (SOURCES / package).rglob("*.py")
        if "startup" not in path.parts
    )
    return {module_name(path): path for path in files}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_arrows_point_down() -> None:
    """A module imports only from lower layers or from its own part."""
    assert {part_of(name) for name in modules()} - RANKS.keys() == set(), "add it to the table"
    assert [
        f"{name} imports {imported}: an arrow up or sideways"
        for name, path in modules().items()
        for imported in imports(path)
        if not _may_import(part_of(name), imported)
    ] == []


def _may_import(own: str, imported: str) -> bool:
    if imported.split(".")[0] not in PACKAGES or imported == "tpuflex":
        return True
    target = part_of(imported)
    if target not in RANKS:  # a name from the top level, such as __version__
        return True
    if target == own or (own, target) in ALLOWED_SIDEWAYS:
        return True
    return own == "" or {own, target} <= PURE or RANKS[target] < RANKS[own]


def test_the_core_is_pure() -> None:
    """The pure core imports no clock, environment, file system or network."""
    assert {
        name: touched
        for name, path in modules().items()
        if part_of(name) in PURE | PURE_ABOVE
        and (touched := {each.split(".")[0] for each in imports(path)} & IMPURE)
    } == {}


@pytest.mark.parametrize("package", OTHER_PACKAGES)
def test_the_other_packages_stand_alone(package: str) -> None:
    """The embedded cloud imports of tpuflex only the errors, the plugin protocol nothing at all.

    docs/adr/0011-three-import-packages.md says why.
    """
    others = {*PACKAGES} - {package}
    assert [
        f"{name} imports {imported}"
        for name, path in modules().items()
        if part_of(name) == package
        for imported in imports(path)
        if imported.split(".")[0] in others and not imported.startswith(OTHER_PACKAGES[package])
    ] == []


def test_nothing_below_the_command_line_prints() -> None:
    """It returns values, and tells what goes on to a callback; only the terminal's room writes. A
    program calls it as the command line does."""
    below = {
        name: source(path)
        for name, path in modules().items()
        if name.startswith("tpuflex.")
        and RANKS[part_of(name)] < RANKS["cli"]
        and part_of(name) != "terminal"
        and name not in SCRIPTS
    }

    assert {name: each.written for name, each in below.items() if each.written} == {}
    assert [name for name, each in below.items() if "tpuflex.terminal.output" in each.imports] == []


def embedded_cloud_part(module: str) -> str:
    """The part of the embedded cloud that ``module`` belongs to; empty for what composes them."""
    part = [*module.split("."), ""][1]
    return part if part in EMBEDDED_CLOUD_RANKS else ""


def test_arrows_within_the_embedded_cloud_point_down() -> None:
    """A service knows no other part than machines and core, and nothing imports what is on top."""
    parts = (
        (name, imported, embedded_cloud_part(name), embedded_cloud_part(imported))
        for name, path in modules().items()
        if name.split(".")[0] == "embedded_cloud"
        for imported in imports(path)
        if imported.split(".")[0] == "embedded_cloud"
    )
    assert [
        f"{name} imports {imported}: an arrow up or sideways"
        for name, imported, own, target in parts
        if target != own and EMBEDDED_CLOUD_RANKS[target] >= EMBEDDED_CLOUD_RANKS[own]
    ] == []


def test_no_circle_of_services() -> None:
    """No two services need each other, not even late or for their types."""
    graph: dict[str, set[str]] = {}
    for module, path in modules().items():
        name = ".".join(module.split(".")[:3])
        if name.startswith("embedded_cloud."):
            known = {".".join(each.split(".")[:3]) for each in imports(path)}
            graph.setdefault(name, set()).update(known - {name})

    TopologicalSorter(graph).prepare()  # raises CycleError


def test_only_the_command_line_knows_click() -> None:
    """What a command does raises our errors, and asks through a callback."""
    knowing = {
        part_of(module)
        for module, path in modules().items()
        if any(name.split(".")[0] == "click" for name in imports(path))
    }

    assert knowing == {"cli"}


def test_no_command_imports_another() -> None:
    """The folders of the commands stand alone: what two of them need lies beside or below them."""
    folders = {path.name for path in (SOURCES / "tpuflex" / "cli").iterdir() if path.is_dir()}
    for path in (SOURCES / "tpuflex" / "cli").rglob("*/*.py"):
        for imported in imports(path):
            other = [*imported.split("."), "", ""][2]
            if imported.startswith("tpuflex.cli.") and other in folders:
                assert other == path.parent.name, f"{module_name(path)} imports {imported}"


def test_the_page_and_its_picture_show_every_room() -> None:
    """docs/architecture.md has all rooms, and those of the embedded cloud, with their ranks; its
    picture draws them in the lane of their rank."""
    docs = SOURCES.parent / "docs"
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", (docs / "architecture.md").read_text(), re.M)
    listed = {name: int(rank) for rank, names in rows for name in re.findall("`(.+?)`", names)}
    text = re.compile(r'<text class="(rank|room)" x="\d+" y="\d+">(.+?)</text>')
    drawn, rank = {}, -1
    for kind, word in text.findall((docs / "architecture.svg").read_text()):
        if kind == "rank":
            rank = int(word)
        else:
            drawn[word] = rank
    parts = {part: rank for part, rank in EMBEDDED_CLOUD_RANKS.items() if part}
    rooms = {room: rank for room, rank in RANKS.items() if room}

    assert listed == rooms | parts
    assert drawn == {room: rank for room, rank in rooms.items() if room != "__main__"}


def test_the_page_names_files_that_are_there() -> None:
    """The files by which docs/architecture.md follows commands are there."""
    page = (SOURCES.parent / "docs" / "architecture.md").read_text()
    followed = page.partition("## Three commands")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", followed))

    assert len(named) > 30
    assert {name for name in named if not (SOURCES / "tpuflex" / name).is_file()} == set()


def test_the_page_names_functions_that_are_there() -> None:
    """The functions that docs/architecture.md has for each command are there."""
    page = (SOURCES.parent / "docs" / "architecture.md").read_text()
    table = page.partition("## What a command calls")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_.]+)\.([a-z_]+)`", table.partition("|---|")[2])

    assert len(named) > 30
    for module, function in named:
        assert callable(getattr(import_module(f"tpuflex.{module}"), function))


def test_plugin_values_are_cheap_to_import() -> None:
    """The command line imports them with the pure core: neither gRPC nor protobuf comes along."""
    code = (
        "import sys, pulumi_plugin.changes; "
        "sys.exit(any(name in sys.modules for name in ('grpc', 'google.protobuf', 'pydantic')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_reader_of_pulumi_config() -> None:
    """Only settings/load.py reads pulumi.Config; what the engine starts hands it over."""
    readers = {name for name, path in modules().items() if source(path).reads_config}

    assert readers <= {
        "tpuflex.settings.load",
        "tpuflex.program",
        "tpuflex.policy_pack.policies",
    }


def test_no_circle_of_files() -> None:
    """No file needs, even only for its types, what needs that file. A package itself only names
    what its modules have."""
    graph = {name: imports(path) for name, path in modules().items() if path.name != "__init__.py"}
    needs = {name: (found & set(graph)) - {name} for name, found in graph.items()}

    circles = [name for name in sorted(needs) if name in _reached(needs, name)]

    assert circles == []


def _reached(needs: Mapping[str, frozenset[str]], start: str) -> set[str]:
    """All that ``start`` needs, directly or not."""
    found: set[str] = set()
    left = [*needs[start]]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += needs[name]
    return found
