"""The only reader of stack files and of Pulumi's configuration.

All problems are reported at once, each with its key, the value and what to write instead. The
result is frozen and complete; nothing below reads configuration again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from tpuflex.catalog import USER_FILE
from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.catalog.rows import CatalogRows
from tpuflex.errors import Finding, NotFoundError, SettingsError
from tpuflex.settings.catalog_rows import read_rows
from tpuflex.settings.findings import (
    MISSING,
    UNKNOWN,
    did_you_mean,
    findings_of,
    in_order,
    moved,
    without_explained,
)
from tpuflex.settings.gcp_keys import ignored_keys
from tpuflex.settings.model import NAMESPACE, Draft, StackSettings
from tpuflex.settings.plain import SECURE_REMEDY, JsonValue, make_plain
from tpuflex.settings.read import (
    catalog_rows,
    project_directory,
    read_document,
    with_line,
)
from tpuflex.settings.rules import check_draft
from tpuflex.settings.slice_fields import Lookup

if TYPE_CHECKING:
    import pulumi

    from tpuflex.settings.stack_yaml import Document

_STACK_FILE = re.compile(r"Pulumi\.(.+)\.yaml")
_CATALOG_KEY = re.compile(rf"({re.escape(USER_FILE)}|{NAMESPACE}catalog)([:.\[]|$)")
_SCALAR_KEYS = ("cloud", "project")


@dataclass(frozen=True, slots=True)
class LoadedStack:
    """A stack file that was read.

    Attributes:
        settings: its content, checked.
        stack: the stack's name, from the file's name.
        source: the file.
        set_aside: what is wrong with the catalog's rows of one's own, of a file that is not to be
            deployed: tpuflex's own rows stand in for the wrong ones.
    """

    settings: StackSettings
    stack: str
    source: Path
    set_aside: tuple[Finding, ...] = ()


def load_stack_file(path: Path, *, deploying: bool = True) -> LoadedStack:
    """Read and check ``Pulumi.<stack>.yaml``, with the catalog.yaml beside its Pulumi.yaml.

    Args:
        path: the file.
        deploying: whether it is to be deployed. What only forbids that is no reason to keep
            somebody from looking at what was deployed earlier, or from taking it down.

    Raises:
        NotFoundError: there is no such file; names the stacks in its directory.
        SettingsError: the file is wrong; holds every finding.
    """
    source = path.name
    match = _STACK_FILE.fullmatch(path.name)
    try:
        document = read_document(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_such_stack(path) from error
    sections, findings = _sections(document.value)
    findings = [*document.repeated, *findings]
    if deploying:
        findings += ignored_keys(_config(document.value), sections)
    rows, in_catalog = catalog_rows(project_directory(path))
    set_aside: list[Finding] = []
    try:
        if findings and not sections:
            # The keys stand in the wrong place: reporting each of them as missing is no help.
            raise SettingsError(source, tuple(findings))
        settings = _parse(
            sections,
            source,
            findings,
            set_aside=None if deploying else set_aside,
            shared=(rows, in_catalog),
        )
    except SettingsError as error:
        raise SettingsError(source, _with_lines(error.findings, document)) from None
    stack = match.group(1) if match else path.stem
    return LoadedStack(settings, stack, path, _with_lines(set_aside, document))


def _with_lines(findings: Iterable[Finding], document: Document) -> tuple[Finding, ...]:
    """``findings`` with the lines of ``document``; those of catalog.yaml have theirs."""
    return tuple(
        finding if finding.key.startswith(f"{USER_FILE}:") else with_line(finding, document.lines)
        for finding in findings
    )


def load_pulumi_config(config: pulumi.Config) -> StackSettings:
    """Read and check the configuration that the engine gives to the running program, with the
    catalog.yaml beside its Pulumi.yaml.

    Args:
        config: the configuration of the namespace ``tpuflex``.

    Raises:
        SettingsError: it is wrong; holds every finding.
    """
    from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret
    from pulumi.runtime.settings import get_root_directory

    prefix = f"{config.name}:"
    values = {**get_config_env(), **CONFIG.get()}
    findings: list[Finding] = []
    sections: dict[str, object] = {}
    for full, value in values.items():
        if not full.startswith(prefix):
            continue
        name = full.removeprefix(prefix)
        if is_config_secret(full):
            findings.append(Finding(full, "holds an encrypted value", SECURE_REMEDY))
            sections[name] = None
        else:
            sections[name] = value if name in _SCALAR_KEYS else _from_json(value)
    findings += ignored_keys(values, sections)
    # The language host says where Pulumi.yaml is, or at least starts the program at or below it.
    known = get_root_directory()
    root = Path(known) if known else project_directory(Path("__main__.py"))
    return _parse(
        sections,
        "the stack's configuration",
        findings,
        shared=catalog_rows(root),
    )


def parse(mapping: Mapping[str, object], source: str) -> StackSettings:
    """Check a mapping of sections, with the keys of a stack file without ``tpuflex:``.

    Args:
        mapping: ``cloud``, ``project``, ``slice``, ``model``, ``serving`` and so on; values as
            in the stack file, or settings objects.
        source: the mapping's name in the error.

    Raises:
        SettingsError: it is wrong; holds every finding.
    """
    return _parse(mapping, source)


def _parse(
    mapping: Mapping[str, object],
    source: str,
    earlier: Sequence[Finding] = (),
    *,
    set_aside: list[Finding] | None = None,
    shared: tuple[CatalogRows, list[Finding]] = (CatalogRows(), []),
) -> StackSettings:
    """The settings in ``mapping``.

    Args:
        mapping: as for :func:`parse`.
        source: as for :func:`parse`.
        earlier: what was found wrong before.
        set_aside: None for settings to deploy. Else they are read as far as looking at what runs,
            and taking it down, need them, and what is wrong with the catalog is put here.
        shared: the catalog's rows for all stacks, and what is wrong with them.

    Raises:
        SettingsError: there are findings; the ``earlier`` ones are among them.
    """
    plain, not_plain = make_plain(mapping, NAMESPACE)
    sections = plain if isinstance(plain, dict) else {}
    refused = {_first_name(finding.key) for finding in not_plain}
    own = sections.get("catalog") if "catalog" not in refused else None
    catalog, in_catalog = _catalog(own, shared[0])
    findings = [*earlier, *shared[1], *not_plain, *in_catalog]
    deploying = set_aside is None
    if set_aside is not None:
        set_aside += filter(_of_catalog, findings)
        findings = [finding for finding in findings if not _of_catalog(finding)]
    lookup = Lookup(catalog, deploying)
    known = list(StackSettings.model_fields)
    for name in sections:
        if name not in known:
            key = f"{NAMESPACE}{name}"
            remedy = moved(key) or did_you_mean(name, known, NAMESPACE)
            findings.append(Finding(key, UNKNOWN, remedy))
    values: dict[str, object] = {"catalog": catalog}
    for name, field in StackSettings.model_fields.items():
        key = f"{NAMESPACE}{name}"
        if name in values:
            continue
        if name in sections:
            if name not in refused:
                section, problems = _section(name, sections[name], lookup)
                values |= section
                findings += problems
        elif field.is_required() and name not in refused:
            about = " ".join((field.description or "").split())
            findings.append(Finding(key, MISSING, f"Write {key}.{' ' if about else ''}{about}"))
        elif not field.is_required():
            values[name] = field.get_default(call_default_factory=True)
    if findings or deploying:
        findings += check_draft(Draft(**values))  # type: ignore[arg-type]
    if findings:
        raise SettingsError(source, tuple(in_order(without_explained(findings))))
    return StackSettings.model_validate(values)


def _catalog(section: JsonValue, shared: CatalogRows) -> tuple[Catalog, list[Finding]]:
    """The catalog that the other sections are checked with: the stack's rows win."""
    rows, findings = read_rows(section, f"{NAMESPACE}catalog")
    if shared == rows == CatalogRows():
        return builtin(), findings
    return builtin().extended(shared).extended(rows), findings


def _of_catalog(finding: Finding) -> bool:
    return re.match(_CATALOG_KEY, finding.key) is not None


def _section(
    name: str, value: JsonValue, lookup: Lookup
) -> tuple[dict[str, object], list[Finding]]:
    """``{name: value}`` as the model's type; or ``{}`` and what is wrong."""
    try:
        # Strict JSON: "8000" is not a number, 1 is not a text, but a list may become a tuple.
        section = _adapter(name).validate_json(json.dumps(value), strict=True, context=lookup)
        return {name: section}, []
    except ValidationError as error:
        errors = error.errors(include_url=False)
        located = [{**item, "loc": (name, *item["loc"])} for item in errors]
        return {}, list(findings_of(StackSettings, located, NAMESPACE))  # type: ignore[arg-type]


@cache
def _adapter(name: str) -> TypeAdapter[object]:
    # The field's own constraints, such as a pattern, come with its type.
    return TypeAdapter(StackSettings.model_fields[name].rebuild_annotation())


def _sections(document: object) -> tuple[dict[str, object], list[Finding]]:
    """The ``tpuflex:`` keys of a stack file; keys of other namespaces are left alone."""
    if document is None:
        return {}, []
    if not isinstance(document, dict):
        finding = Finding("config", "the file is not a section", "Write `config:` first.")
        return {}, [finding]
    config = document.get("config")
    findings = [
        Finding(name, "stands outside of config", "Indent it below `config:`.")
        for name in document
        if isinstance(name, str) and name.startswith(NAMESPACE)
    ]
    if config is None:
        return {}, findings
    if not isinstance(config, dict):
        return {}, [*findings, Finding("config", "is not a section", "Write keys below it.")]
    sections: dict[str, object] = {}
    for name, value in config.items():
        if not isinstance(name, str):
            findings.append(Finding("config", f"{name!r} cannot be a key", "Write it in quotes."))
        elif not name.strip():
            findings.append(Finding("config", "has a key without a name", "Remove it."))
        elif name.startswith(NAMESPACE):
            sections[name.removeprefix(NAMESPACE)] = value
        elif ":" not in name:
            findings.append(Finding(name, "has no namespace", f"Write {NAMESPACE}{name}."))
    return sections, findings


def _config(document: object) -> Mapping[str, object]:
    """The configuration in a stack file; empty where that has none."""
    config = document.get("config") if isinstance(document, dict) else None
    return config if isinstance(config, dict) else {}


def _from_json(value: object) -> object:
    """Decode a structured value, which the engine passes as JSON; leave other values alone."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _first_name(key: str) -> str:
    return re.split(r"[.\[]", key.removeprefix(NAMESPACE), maxsplit=1)[0]


def _no_such_stack(path: Path) -> NotFoundError:
    matches = (
        _STACK_FILE.fullmatch(item.name) for item in sorted(path.parent.glob("Pulumi.*.yaml"))
    )
    stacks = [match.group(1) for match in matches if match]
    hint = f"Stacks here: {', '.join(stacks)}." if stacks else "There is no stack file here."
    return NotFoundError(f"There is no stack file {path}.", hint=hint)
