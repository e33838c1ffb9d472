"""The only reader of stack files and of Pulumi's configuration.

All problems are reported at once, each with its key, the value and what to write instead. The
result is frozen and complete; nothing below reads configuration again.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from tpuflex.catalog import USER_FILE
from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.catalog.flags import TOKEN_FLAGS, suffixed_number
from tpuflex.catalog.rows import CatalogRows
from tpuflex.errors import Finding, NotFoundError, Position, SettingsError
from tpuflex.naming import STACK_NAME
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
from tpuflex.settings.model import NAMESPACE, Draft, ModelSettings, StackSettings
from tpuflex.settings.opened import OpenedConfig, names_environments, refuse_environments
from tpuflex.settings.plain import JsonValue, make_plain
from tpuflex.settings.project_config import ProjectConfig, section
from tpuflex.settings.read import (
    catalog_rows,
    project_directory,
    read_document,
    read_project_config,
    with_position,
)
from tpuflex.settings.rules import check_draft
from tpuflex.settings.serving import FLAGS_KEY, flag_name
from tpuflex.settings.slice import Lookup
from tpuflex.settings.stack_document import (
    PROVIDERS_OWN,
    config_of,
    ignored_keys,
    secrets_provider_of,
    sections_of,
)

if TYPE_CHECKING:
    import pulumi

    from tpuflex.planning.checkpoint import Checkpoint
    from tpuflex.settings.stack_yaml import Document

#: Asks the engine for a stack's whole configuration.
Opener = Callable[[], OpenedConfig]
#: Reads what the files of a model say of it; gives None where nothing is known of them, and
#: ``"later"`` where they are read later, so that nothing is planned by the model's name yet.
FilesReader: TypeAlias = "Callable[[ModelSettings], Checkpoint | Literal['later'] | None]"
_STACK_FILE = re.compile(rf"Pulumi\.({STACK_NAME.pattern})\.yaml")
_CATALOG_KEY = re.compile(rf"({re.escape(USER_FILE)}|{NAMESPACE}catalog)([:.\[]|$)")


@dataclass(frozen=True, slots=True)
class LoadedStack:
    """A stack file that was read.

    Attributes:
        settings: its content, checked.
        stack: the stack's name, from the file's name.
        source: the file.
        set_aside: what is wrong with the catalog's rows of one's own, of a file that is not to be
            deployed: tpuflex's own rows stand in for the wrong ones.
        opened: whether environments of Pulumi ESC are part of the content.
        secrets_provider: ``secretsprovider`` of the file, or empty.
    """

    settings: StackSettings
    stack: str
    source: Path
    set_aside: tuple[Finding, ...] = ()
    opened: bool = False
    secrets_provider: str = ""


@dataclass(frozen=True, slots=True)
class _Written:
    """What a stack is configured with.

    Attributes:
        sections: what it has of tpuflex, without the namespace.
        findings: what is wrong with how it is written.
        positions: where its keys stand.
    """

    sections: Mapping[str, object]
    findings: list[Finding]
    positions: Mapping[str, Position]

    def placed(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """``findings`` with their positions; those of catalog.yaml have theirs."""
        return tuple(with_position(each, self.positions) for each in findings)


def is_stack_file(path: Path) -> bool:
    """Whether ``path`` has the name of a stack file."""
    return _STACK_FILE.fullmatch(path.name) is not None


def load_stack_file(
    path: Path,
    *,
    root: Path | None = None,
    deploying: bool = True,
    opener: Opener | None = None,
    files: FilesReader | None = None,
) -> LoadedStack:
    """Read and check ``Pulumi.<stack>.yaml``, with what its Pulumi.yaml says for every stack, and
    the catalog.yaml beside that.

    Args:
        path: the file.
        root: directory of the Pulumi.yaml; the nearest above the file by default, which another
            place in `stackConfigDir`, or a symbolic link, can lead away from the project.
        deploying: whether it is to be deployed. What only forbids that is no reason to keep a user
            from looking at what was deployed earlier, or from taking it down.
        opener: opens what the file names of Pulumi ESC; called only if it names some.
        files: reads the files of the model.

    Raises:
        NotFoundError: there is no such file, which names the stacks in its directory; or the file
            says nothing of an endpoint, such as that of a program that has it as a library.
        SettingsError: the file is wrong; holds every finding.
    """
    source = path.name
    match = _STACK_FILE.fullmatch(path.name)
    try:
        document = read_document(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_such_stack(path) from error
    root = root or project_directory(path)
    written = _written(source, document, root, deploying=deploying, opener=opener)
    sections, findings = written.sections, written.findings
    rows, in_catalog = catalog_rows(root)
    set_aside: list[Finding] = []
    try:
        if findings and not sections:
            # The keys stand in the wrong place: reporting each of them as missing is no help.
            raise SettingsError(source, tuple(findings))
        if not sections and document.value in (None, {}, {"config": None}, {"config": {}}):
            raise SettingsError(source, written.placed((_empty(path, document.value),)))
        if not findings and sections.keys() <= PROVIDERS_OWN:
            raise NotFoundError(
                f"{source} is not a stack file of tpuflex: it has no section of an endpoint, such"
                f" as {NAMESPACE}slice",
                hint="A program with tpuflex as a library is deployed by Pulumi's own commands; its"
                " endpoint is found once `pulumi up` has begun to make it. Keys and their meaning:"
                " tpuflex docs settings",
            )
        settings = _parse(
            sections,
            source,
            findings,
            set_aside=None if deploying else set_aside,
            shared=(rows, in_catalog),
            files=files,
        )
    except SettingsError as error:
        raise SettingsError(source, written.placed(error.findings)) from None
    stack = match.group(1) if match else path.stem
    return LoadedStack(
        settings,
        stack,
        path,
        written.placed(set_aside),
        opened=names_environments(document.value),
        secrets_provider=secrets_provider_of(document.value),
    )


def _written(
    source: str, document: Document, root: Path | None, *, deploying: bool, opener: Opener | None
) -> _Written:
    """What the stack file ``document`` says, with what Pulumi.yaml and environments say."""
    written, findings = sections_of(document.value)
    findings = [*document.repeated, *findings]
    if names_environments(document.value):
        if opener is None:
            raise refuse_environments(source, "this command does not open them")
        # The engine merges section by section, so nothing of the file alone counts.
        opened = opener()
        sections, in_opened = opened.sections()
        project, everything = ProjectConfig(), opened.all_keys()
        findings += in_opened
    else:
        own = config_of(document.value)
        project = read_project_config(root).without(own)
        sections, everything = {**project.sections(), **written}, {**project.values, **own}
        findings += project.findings
    if deploying:
        findings += ignored_keys(everything, sections)

    positions = {**document.positions, **project.positions}
    # Findings name a setting as it is read.
    for key in [key for key in positions if key.startswith(f"{FLAGS_KEY}.")]:
        known = f"{FLAGS_KEY}.{flag_name(key.removeprefix(f'{FLAGS_KEY}.'))}"
        positions.setdefault(known, positions[key])
    return _Written(sections, findings, positions)


def load_pulumi_config(
    config: pulumi.Config, files: Callable[[Path], FilesReader] | None = None
) -> StackSettings:
    """Read and check the configuration that the engine gives to the running program, with the
    catalog.yaml beside its Pulumi.yaml.

    Args:
        config: the configuration of the namespace ``tpuflex``.
        files: gives what reads the files of the model of the project in a directory.

    Raises:
        SettingsError: it is wrong; holds every finding.
    """
    from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret
    from pulumi.runtime.settings import get_root_directory

    values = {**get_config_env(), **CONFIG.get()}
    secret = frozenset(filter(is_config_secret, values))
    opened = OpenedConfig({k: v for k, v in values.items() if k not in secret}, secret)
    sections, findings = opened.sections(f"{config.name}:")
    findings += ignored_keys(opened.all_keys(), sections)
    # The language host says where Pulumi.yaml is, or at least starts the program at or below it.
    known = get_root_directory()
    root = Path(known) if known else project_directory(Path("__main__.py"))
    return _parse(
        sections,
        "the stack's configuration",
        findings,
        shared=catalog_rows(root),
        files=files(root or Path()) if files is not None else None,
    )


def parse(
    mapping: Mapping[str, object],
    source: str,
    files: FilesReader | None = None,
    *,
    deploying: bool = True,
) -> StackSettings:
    """Check a mapping of sections, with the keys of a stack file without ``tpuflex:``.

    Args:
        mapping: ``cloud``, ``project``, ``slice``, ``model``, ``serving`` and so on; values as
            in the stack file, or settings objects.
        source: the mapping's name in the error.
        files: reads the files of the model.
        deploying: as for :func:`load_stack_file`.

    Raises:
        SettingsError: it is wrong; holds every finding.
    """
    return _parse(mapping, source, files=files, set_aside=None if deploying else [])


def _parse(
    mapping: Mapping[str, object],
    source: str,
    earlier: Sequence[Finding] = (),
    *,
    set_aside: list[Finding] | None = None,
    shared: tuple[CatalogRows, list[Finding]] = (CatalogRows(), []),
    files: FilesReader | None = None,
) -> StackSettings:
    """The settings in ``mapping``.

    Args:
        mapping: as for :func:`parse`.
        source: as for :func:`parse`.
        earlier: what was found wrong before.
        set_aside: None for settings to deploy. Else they are read as far as looking at what runs,
            and taking it down, need them, and what is wrong with the catalog is put here.
        shared: the catalog's rows for all stacks, and what is wrong with them.
        files: as for :func:`parse`."""
    plain, not_plain = make_plain(mapping, NAMESPACE)
    sections = plain if isinstance(plain, dict) else {}
    sections, twice = _with_known_flags(sections)
    refused = {section(finding.key).removeprefix(NAMESPACE) for finding in not_plain}
    own = sections.get("catalog") if "catalog" not in refused else None
    catalog, in_catalog = _catalog(own, shared[0])
    findings = [*earlier, *shared[1], *not_plain, *in_catalog, *twice]
    told = {section(finding.key) for finding in earlier}
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
                value, problems = _section(name, sections[name], lookup)
                values |= value
                findings += problems
        elif field.is_required() and name not in refused and key not in told:
            about = " ".join((field.description or "").split())
            findings.append(Finding(key, MISSING, f"Write {key}.{' ' if about else ''}{about}"))
        elif not field.is_required():
            values[name] = field.get_default(call_default_factory=True)
    model = values.get("model")
    found = files(model) if files is not None and isinstance(model, ModelSettings) else None
    checkpoint = None if found == "later" else found
    if findings or deploying:
        draft = Draft(**values, checkpoint=checkpoint)  # type: ignore[arg-type]
        findings += check_draft(draft, planned=found != "later")
    if findings:
        raise SettingsError(source, tuple(in_order(without_explained(findings))))
    return StackSettings.model_validate(values).by_files(checkpoint)


def _with_known_flags(
    sections: dict[str, JsonValue],
) -> tuple[dict[str, JsonValue], list[Finding]]:
    """``sections`` with the settings of ``serving.flags`` as they are called, where they are as on
    vLLM's command line: max-model-len, and 16k tokens. And what is written in both ways."""
    serving = sections.get("serving")
    flags = serving.get("flags") if isinstance(serving, dict) else None
    if not isinstance(serving, dict) or not isinstance(flags, dict):
        return sections, []
    known = {name: flag_name(name) for name in flags}
    findings = [
        Finding(f"{FLAGS_KEY}.{name}", f"is {known[name]} written again", "Remove one of them.")
        for name in flags
        if known[name] != name and known[name] in flags
    ]
    named: dict[str, JsonValue] = {known[name]: value for name, value in flags.items()}
    for name in TOKEN_FLAGS:
        value = named.get(name)
        if isinstance(value, str) and (tokens := suffixed_number(value)) is not None:
            named[name] = tokens
    return {**sections, "serving": {**serving, "flags": named}}, findings


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


def _empty(path: Path, value: object) -> Finding:
    """What to say of a file without a key."""
    match = _STACK_FILE.fullmatch(path.name)
    stack = shlex.quote(match[1]) if match else "NAME"
    remedy = f"Delete the file, and let `tpuflex init --stack {stack}` write it."
    return Finding("config" if value else path.name, "is empty", remedy)


def _no_such_stack(path: Path) -> NotFoundError:
    matches = (
        _STACK_FILE.fullmatch(item.name) for item in sorted(path.parent.glob("Pulumi.*.yaml"))
    )
    stacks = [match.group(1) for match in matches if match]
    hint = f"Stacks here: {', '.join(stacks)}." if stacks else "There is no stack file here."
    return NotFoundError(f"There is no stack file {path}.", hint=hint)
