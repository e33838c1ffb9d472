"""YAML files as documents: stack files, and the catalog.yaml beside Pulumi.yaml."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tpuflex.catalog import USER_FILE
from tpuflex.errors import Finding, Position, SettingsError
from tpuflex.settings.stack_yaml import (
    LONGEST,
    Document,
    RefusedYamlError,
    position_of,
    read_yaml,
)

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.catalog.rows import CatalogRows
    from tpuflex.settings.project_config import ProjectConfig

# pydantic is loaded where it is needed: a shell that completes the name of a stack reads
# Pulumi.yaml, too, and somebody waits for the key.


def read_document(path: Path) -> Document:
    """The YAML document in ``path``.

    Raises:
        SettingsError: it cannot be read, or is not YAML.
        FileNotFoundError, NotADirectoryError: there is no such file.
    """
    source = path.name
    try:
        # Without waiting for a writer, if it is a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                problem = Finding(source, "is not a regular file", "Put a file of text there.")
                raise SettingsError(source, (problem,))
            text = file.read(LONGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, UnicodeDecodeError) as error:
        problem = Finding(source, f"cannot be read ({type(error).__name__})", "Write UTF-8 text.")
        raise SettingsError(source, (problem,)) from error
    try:
        return read_yaml(text)
    except (yaml.YAMLError, RefusedYamlError) as error:
        raise SettingsError(source, (_not_yaml(source, error),)) from error


def catalog_rows(root: Path | None) -> tuple[CatalogRows, list[Finding]]:
    """The good rows of ``root``'s catalog.yaml, and what is wrong with the file; nothing where
    there is none."""
    from tpuflex.catalog.rows import CatalogRows
    from tpuflex.settings.catalog_rows import read_rows
    from tpuflex.settings.plain import make_plain

    if root is None:
        return CatalogRows(), []
    file = root / USER_FILE
    if not file.resolve().is_relative_to(root.resolve()):
        problem = "is a link out of the project, and what it leads to was not read"
        return CatalogRows(), [Finding(USER_FILE, problem, "Put the file itself there.")]
    try:
        document = read_document(file)
    except (FileNotFoundError, NotADirectoryError):
        return CatalogRows(), []
    except SettingsError as error:
        return CatalogRows(), list(error.findings)
    prefix = f"{USER_FILE}:"
    plain, not_plain = make_plain(document.value, prefix)
    repeated = [
        replace(each, key=f"{prefix}{each.key}", position=None) for each in document.repeated
    ]
    rows, findings = (CatalogRows(), not_plain) if not_plain else read_rows(plain, prefix)
    positions = {
        f"{prefix}{key}": replace(position, file=USER_FILE)
        for key, position in document.positions.items()
    }
    return rows, [with_position(each, positions) for each in (*repeated, *findings)]


def load_catalog(root: Path | None) -> Catalog:
    """The catalog of the project in ``root``, for what needs no stack: with its catalog.yaml.

    Raises:
        SettingsError: the file is wrong; holds every finding.
    """
    from tpuflex.catalog.catalog import builtin

    rows, findings = catalog_rows(root)
    if findings:
        raise SettingsError(USER_FILE, tuple(findings))
    return builtin().extended(rows)


def project_directory(stack_file: Path) -> Path | None:
    """The nearest directory above ``stack_file`` that holds Pulumi.yaml, or None."""
    from tpuflex.settings.project_config import PROJECT_FILE

    above = stack_file.resolve().parents
    return next((each for each in above if (each / PROJECT_FILE).is_file()), None)


def read_project_config(root: Path | None) -> ProjectConfig:
    """What the project file in ``root`` says for every stack; nothing where there is none.

    Raises:
        SettingsError: it cannot be read, or is not YAML.
    """
    from tpuflex.settings.project_config import PROJECT_FILE, ProjectConfig, project_config

    file = root / PROJECT_FILE if root is not None else None
    return ProjectConfig() if file is None else project_config(read_document(file))


def with_position(finding: Finding, positions: Mapping[str, Position]) -> Finding:
    """``finding`` with where its key stands, or the section that lacks it; as it is where that is
    known already, or no file has either.

    Args:
        finding: what is wrong.
        positions: where each key stands.
    """
    if finding.position is not None:
        return finding
    key = finding.key
    while key and key not in positions:
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return replace(finding, position=positions[key]) if key else finding


def _not_yaml(source: str, error: Exception) -> Finding:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        position = replace(position_of(error.problem_mark), file=source)
        return Finding(source, f"is not YAML: {error.problem}", "Fix that line.", position)
    if isinstance(error, RefusedYamlError):
        place = replace(error.position, file=source) if error.position else None
        return Finding(source, error.problem, error.remedy, place)
    return Finding(source, "is not YAML", "Compare it with stacks/Pulumi.dev.yaml.")
