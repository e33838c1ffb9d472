"""YAML files as documents: stack files, and the catalog.yaml beside Pulumi.yaml."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import yaml

from tpuflex.catalog import USER_FILE
from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.catalog.rows import CatalogRows
from tpuflex.errors import Finding, SettingsError
from tpuflex.settings.catalog_rows import read_rows
from tpuflex.settings.plain import make_plain
from tpuflex.settings.project_config import PROJECT_FILE, ProjectConfig, project_config
from tpuflex.settings.stack_yaml import LONGEST, Document, RefusedYamlError, read_yaml


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
        Finding(f"{prefix}{finding.key}", finding.problem, finding.remedy)
        for finding in document.repeated
    ]
    rows, findings = (CatalogRows(), not_plain) if not_plain else read_rows(plain, prefix)
    return rows, [*repeated, *(with_line(each, document.lines) for each in findings)]


def load_catalog(root: Path | None) -> Catalog:
    """The catalog of the project in ``root``, for what needs no stack: with its catalog.yaml.

    Raises:
        SettingsError: the file is wrong; holds every finding.
    """
    rows, findings = catalog_rows(root)
    if findings:
        raise SettingsError(USER_FILE, tuple(findings))
    return builtin().extended(rows)


def project_directory(stack_file: Path) -> Path | None:
    """The nearest directory above ``stack_file`` that holds Pulumi.yaml, or None."""
    above = stack_file.resolve().parents
    return next((each for each in above if (each / PROJECT_FILE).is_file()), None)


def read_project_config(root: Path | None) -> ProjectConfig:
    """What the project file in ``root`` says for every stack; nothing where there is none.

    Raises:
        SettingsError: it cannot be read, or is not YAML.
    """
    file = root / PROJECT_FILE if root is not None else None
    return ProjectConfig() if file is None else project_config(read_document(file))


def with_line(finding: Finding, lines: Mapping[str, int], file: str = "") -> Finding:
    """``finding`` with the line of its key, if that is known; a member of a list may have none of
    its own.

    Args:
        finding: what is wrong.
        lines: line number of each key.
        file: what stands before the line, where it is not that of the file that was read.
    """
    key = finding.key.removeprefix(f"{USER_FILE}:")
    while key not in lines and key.endswith("]"):
        key = key.rpartition("[")[0]
    if key not in lines:
        return finding
    return Finding(finding.key, f"{finding.problem} ({file}line {lines[key]})", finding.remedy)


def _not_yaml(source: str, error: Exception) -> Finding:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line = error.problem_mark.line + 1
        return Finding(source, f"is not YAML: {error.problem} (line {line})", "Fix that line.")
    if isinstance(error, RefusedYamlError):
        return Finding(source, error.problem, error.remedy)
    return Finding(source, "is not YAML", "Compare it with stacks/Pulumi.dev.yaml.")
