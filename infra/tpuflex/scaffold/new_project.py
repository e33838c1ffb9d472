"""Make a new project or a new stack: gather, check, write, say what comes next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from embedded_cloud.daemon import missing_packages
from tpuflex.catalog.catalog import Catalog
from tpuflex.catalog.rows import CatalogRows
from tpuflex.errors import Finding, SettingsError, UsageError
from tpuflex.files.trusted import require_own
from tpuflex.gcloud_commands import enable_services, log_in
from tpuflex.naming import DEFAULT_STACK, STACK_VARIABLE, unnamed_stack
from tpuflex.project import (
    PULUMI_FILE,
    open_project,
    project_root,
)
from tpuflex.scaffold.google_stack import Choice, choices
from tpuflex.scaffold.image_mirror import is_mirrored, mirror_command
from tpuflex.scaffold.new_stack import NewStack, new_stack
from tpuflex.scaffold.options import Questions, StackOptions
from tpuflex.scaffold.project_files import (
    IGNORE_FILE,
    NAME,
    SCHEMA_FILE,
    STACKS,
    project_files,
    project_name,
    require_free,
    require_inside,
    schema_of,
    write_new,
)
from tpuflex.settings.load import parse
from tpuflex.settings.model import StackSettings
from tpuflex.settings.read import load_catalog
from tpuflex.settings.rules import warnings
from tpuflex.settings.schema import schema_text
from tpuflex.settings.weights_source import LocalDirectory
from tpuflex.weights.source import directory_of, local_checkpoint, local_files_reader


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions(StackOptions):
    """What a new project or a new stack is made of.

    Attributes:
        directory: of the project; None: the one that the caller is in.
        name: of a new project.
        stack: of the stack; empty: by the environment, or after what it serves.
    """

    directory: Path | None = None
    name: str | None = None
    stack: str = ""


@dataclass(frozen=True, slots=True)
class ProjectDirectory:
    """Where the files go.

    Attributes:
        root: directory of ``Pulumi.yaml``.
        name: the project's name.
        stacks: directory of the stack files.
        new: whether the project is to be made.
    """

    root: Path
    name: str
    stacks: Path
    new: bool

    def stack_file(self, stack: str) -> Path:
        """Where the stack file of ``stack`` goes."""
        return self.stacks / f"Pulumi.{stack}.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """What was made.

    Attributes:
        place: the project.
        stack: name of the stack.
        written: the files, relative to the project.
        as_is: what of another tool's configuration says nothing here, with the reason.
        refused: what of it cannot be honoured.
        accelerators: accelerator types for the same server.
        warnings: what to know of the stack.
        following: the commands that come next.
    """

    place: ProjectDirectory
    stack: str
    written: tuple[str, ...]
    as_is: tuple[Finding, ...]
    refused: tuple[Finding, ...]
    accelerators: tuple[Choice, ...]
    warnings: tuple[Finding, ...]
    following: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex init --json``."""
        return {
            "project": self.place.name,
            "directory": str(self.place.root),
            "stack": self.stack,
            "written": list(self.written),
            "as_is": [each.to_json() for each in self.as_is],
            "refused": [each.to_json() for each in self.refused],
            "accelerators": [asdict(each) for each in self.accelerators],
            "warnings": [each.to_json() for each in self.warnings],
            "next": list(self.following),
        }


def initialize(
    options: InitOptions,
    questions: Questions,
    *,
    directory: Path,
    environ: Mapping[str, str],
    accept: Callable[[tuple[Finding, ...]], None],
) -> Created:
    """Make what ``options`` and answers describe.

    Args:
        options: what is asked for.
        questions: asks for what they leave open.
        directory: where the caller is.
        environ: the caller's environment.
        accept: called with the keys of another tool's configuration that cannot be honoured, if
            there are any; raises where they are not to be left out.

    Raises:
        UsageError: something is missing, or options contradict each other.
        SettingsError: the stack would be wrong; nothing is written.
        TpuflexError: a file is in the way; nothing is written.
    """
    place = _place(options, directory, environ)
    _require_room(place, options, environ)
    catalog = load_catalog(place.root)
    proposing = _with_weights(catalog, place.root, options)
    stack = new_stack(options, proposing, questions, environ)
    name = _stack_name(options, environ, stack, place, questions)
    settings = _checked(stack, catalog, name, place.root)
    found = stack.translation
    refused = tuple(found.refused) if found is not None else ()
    if refused:
        accept(refused)
    written = _write(place, stack, name, environ)
    return Created(
        place=place,
        stack=name,
        written=tuple(str(file.relative_to(place.root)) for file in written),
        as_is=tuple(found.as_is) if found is not None else (),
        refused=refused,
        accelerators=tuple(choices(settings)) if settings.cloud == "google" else (),
        warnings=tuple(warnings(settings)),
        following=tuple(_next(place, name, settings, environ)),
    )


def _place(options: InitOptions, directory: Path, environ: Mapping[str, str]) -> ProjectDirectory:
    """The project that is there, or the one to make.

    A directory that is named is a project of its own, even below another.
    """
    named = options.directory
    root = (directory / (named or Path())).resolve()
    if named is None:
        root = project_root(root)
    if (root / PULUMI_FILE).exists():
        if options.name is not None:
            raise UsageError(f"--name is for a new project, and {root} is one already.")
        project = open_project(root, environ)
        require_inside(project.stacks, root)
        return ProjectDirectory(root, project.name, project.stacks, new=False)
    name = options.name or project_name(root.name)
    if not NAME.fullmatch(name):
        raise UsageError(f"--name {name!r}: write letters, digits, hyphens, at most 100.")
    return ProjectDirectory(root, name, root / STACKS, new=True)


def _require_room(
    place: ProjectDirectory, options: InitOptions, environ: Mapping[str, str]
) -> None:
    """Refuse, before anything is asked, what would be refused when it is written.

    Raises:
        TpuflexError: a file is in the way, or the directory is not one's own.
    """
    if place.root.exists():
        require_own((place.root,), environ)
    files = [place.root / path for path in project_files(place.name) if path != IGNORE_FILE]
    name = _given_name(options, environ)
    if name and (wrong := _wrong_name(name)):
        raise UsageError(f"--stack {name!r}: {wrong}.")
    stack = (place.stack_file(name),) if name else ()
    require_free(place.root, (*(files if place.new else ()), *stack))


def _given_name(options: InitOptions, environ: Mapping[str, str]) -> str:
    return options.stack or environ.get(STACK_VARIABLE, "")


def _wrong_name(name: str) -> str:
    return "" if NAME.fullmatch(name) else "write letters, digits, hyphens, at most 100"


def _stack_name(
    options: InitOptions,
    environ: Mapping[str, str],
    stack: NewStack,
    place: ProjectDirectory,
    questions: Questions,
) -> str:
    """The stack's name, which a person is asked for where the proposed one is taken."""

    def wrong(name: str) -> tuple[Finding, ...]:
        problem = _wrong_name(name)
        taken = not problem and place.stack_file(name).exists()
        problem = problem or ("there is one of that name" if taken else "")
        return (
            (Finding("--stack", f"{name!r}: {problem}", "Write another name."),) if problem else ()
        )

    given = _given_name(options, environ)
    if given or not questions.asking or not wrong(stack.proposed_name):
        return given or stack.proposed_name
    text = f"There is a stack {stack.proposed_name} already. Name of the new one"
    return questions.ask("--stack", None, text, check=wrong)


def _with_weights(catalog: Catalog, root: Path, options: InitOptions) -> Catalog:
    """``catalog`` with the row of the model as its files have it, where options name both: chips
    and flags are proposed by them."""
    if options.model is None or options.weights is None:
        return catalog
    found = local_checkpoint(root, options.model, LocalDirectory(options.weights))
    rows = () if found is None or found.row is None else (found.row,)
    return catalog.extended(CatalogRows(models=rows)) if rows else catalog


def _checked(stack: NewStack, catalog: Catalog, name: str, root: Path) -> StackSettings:
    """The settings of the stack, checked as `up` checks them.

    Raises:
        SettingsError: they are wrong; says where values from another file stand there.
    """
    source = f"The new stack {name}"
    try:
        return parse({"catalog": catalog.own, **stack.sections}, source, local_files_reader(root))
    except SettingsError as error:
        found = stack.translation
        origins = found.origins if found is not None else {}
        findings = tuple(_with_origin(finding, origins) for finding in error.findings)
        findings += tuple(found.refused) if found is not None else ()
        hint = "Nothing was written. Change a value with --set KEY=VALUE."
        raise SettingsError(source, findings, hint=hint) from None


def _with_origin(finding: Finding, origins: Mapping[str, str]) -> Finding:
    origin = origins.get(finding.key.removeprefix("tpuflex:"))
    if origin is None:
        return finding
    return replace(finding, key=f"{finding.key} (from {origin})")


def _write(
    place: ProjectDirectory, stack: NewStack, name: str, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    place.root.mkdir(parents=True, exist_ok=True)
    require_own((place.root,), environ)
    stack_file = place.stack_file(name)
    texts = project_files(place.name) if place.new else {}
    if (place.root / IGNORE_FILE).exists():
        texts.pop(IGNORE_FILE, None)
    schema = schema_of(place.root, place.stacks)
    if schema is None:
        schema = SCHEMA_FILE
        texts[str((place.stacks / schema).relative_to(place.root))] = schema_text()
    texts[str(stack_file.relative_to(place.root))] = stack.text(schema)
    return write_new(place.root, texts)


def _next(
    place: ProjectDirectory, name: str, settings: StackSettings, environ: Mapping[str, str]
) -> Iterator[str]:
    """The commands that come next, in order."""
    if place.root != Path.cwd():
        yield f"cd {shlex.quote(str(place.root))}"
    if settings.cloud == "embedded":
        if missing_packages():
            yield "pip install 'tpuflex[embedded]'"
    else:
        yield str(log_in())
        if is_mirrored(settings.serving.image):
            # In a project that has never used it; `up` enables the other APIs itself.
            yield str(enable_services(settings.project, "artifactregistry.googleapis.com"))
            yield str(mirror_command(settings.slice.zones[0], settings.project))
    weights = settings.model.weights.source
    if isinstance(weights, LocalDirectory) and not directory_of(weights, place.root).exists():
        yield shlex.join(["hf", "download", settings.model.name, "--local-dir", weights.path])
    unnamed = name == DEFAULT_STACK == unnamed_stack(environ)
    tpuflex = "tpuflex" if unnamed else f"tpuflex --stack {shlex.quote(name)}"
    yield f"{tpuflex} up"
    yield f'{tpuflex} ask "What is the capital of France?"'
    yield f"{tpuflex} down"
