"""Make a new project or a new stack: gather, check, write, say what comes next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from embedded_cloud.daemon import missing_packages
from pulumi_plugin.printable import printable
from tpuflex.catalog.catalog import Catalog
from tpuflex.catalog.rows import CatalogRows
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.project.new_stack import NewStack, new_stack
from tpuflex.cli.project.questions import Questions
from tpuflex.cli.project.stack_options import StackOptions, choices
from tpuflex.errors import Finding, SettingsError
from tpuflex.files.trusted import require_own
from tpuflex.gcloud_commands import enable_services, log_in
from tpuflex.project import (
    DEFAULT_STACK,
    PULUMI_FILE,
    STACK_VARIABLE,
    open_project,
    project_root,
    unnamed_stack,
)
from tpuflex.scaffold.image_mirror import is_mirrored, mirror_command
from tpuflex.scaffold.project_files import (
    IGNORE_FILE,
    NAME,
    SCHEMA_FILE,
    STACKS,
    project_files,
    project_name,
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
from tpuflex.weights.source import checkpoint_here, directory_of, files_here


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions(StackOptions):
    """What the command line says.

    Attributes:
        directory: of the project; None: the one that the command is in.
        name: of a new project.
    """

    directory: Path | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
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


def run_init(invocation: Invocation, options: InitOptions) -> None:
    """Make what ``options`` and answers describe.

    Raises:
        click.UsageError: something is missing, or options contradict each other.
        SettingsError: the stack would be wrong; nothing is written.
        TpuflexError: a file is in the way; nothing is written.
    """
    place = _place(invocation, options)
    catalog = load_catalog(place.root)
    questions = Questions(defaults=invocation.yes)
    proposing = _with_weights(catalog, place.root, options)
    stack = new_stack(options, proposing, questions, invocation.environ)
    name = _stack_name(invocation, stack)
    settings = _checked(stack, catalog, name, place.root)
    _accept_refusals(invocation, stack)
    written = _write(invocation, place, stack, name)
    _report(invocation, place, stack, name, settings, written)


def _place(invocation: Invocation, options: InitOptions) -> Place:
    """The project that is there, or the one to make.

    A directory that is named is a project of its own, even below another.
    """
    named = options.directory
    root = (invocation.directory / (named or Path())).resolve()
    if named is None:
        root = project_root(root)
    if (root / PULUMI_FILE).exists():
        if options.name is not None:
            raise click.UsageError(f"--name is for a new project, and {root} is one already.")
        project = open_project(root, invocation.environ)
        require_inside(project.stacks, root)
        return Place(root, project.name, project.stacks, new=False)
    name = options.name or project_name(root.name)
    if not NAME.fullmatch(name):
        raise click.UsageError(f"--name {name!r}: write letters, digits, hyphens, at most 100.")
    return Place(root, name, root / STACKS, new=True)


def _stack_name(invocation: Invocation, stack: NewStack) -> str:
    name = invocation.chosen_stack or invocation.environ.get(STACK_VARIABLE, "")
    name = name or stack.proposed_name
    if not NAME.fullmatch(name):
        raise click.UsageError(f"--stack {name!r}: write letters, digits, hyphens, at most 100.")
    return name


def _with_weights(catalog: Catalog, root: Path, options: InitOptions) -> Catalog:
    """``catalog`` with the row of the model as its files have it, where options name both: chips
    and flags are proposed by them."""
    if options.model is None or options.weights is None:
        return catalog
    found = checkpoint_here(root, options.model, LocalDirectory(options.weights))
    rows = () if found is None or found.row is None else (found.row,)
    return catalog.extended(CatalogRows(models=rows)) if rows else catalog


def _checked(stack: NewStack, catalog: Catalog, name: str, root: Path) -> StackSettings:
    """The settings of the stack, checked as `up` checks them.

    Raises:
        SettingsError: they are wrong; says where values from another file stand there.
    """
    source = f"The new stack {name}"
    try:
        return parse({"catalog": catalog.own, **stack.sections}, source, files_here(root))
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
    return Finding(f"{finding.key} (from {origin})", finding.problem, finding.remedy)


def _accept_refusals(invocation: Invocation, stack: NewStack) -> None:
    """Go on without the keys that cannot be honoured only if the user agrees.

    Raises:
        SettingsError: nobody can be asked, and ``--yes`` was not given.
        InterruptedByUser: the user does not agree.
    """
    refused = tuple(stack.translation.refused) if stack.translation is not None else ()
    if not refused:
        return
    if invocation.yes:
        for finding in refused:
            invocation.output.progress(f"Refused: {finding}")
        return
    if not sys.stdin.isatty():
        hint = "Nothing was written. To make the stack without these keys, add --yes."
        raise SettingsError("The file of --from", refused, hint=hint)
    for finding in refused:
        invocation.output.progress(f"Refused: {finding}")
    invocation.output.confirm("Make the stack without these keys?")


def _write(invocation: Invocation, place: Place, stack: NewStack, name: str) -> tuple[Path, ...]:
    place.root.mkdir(parents=True, exist_ok=True)
    require_own((place.root,), invocation.environ)
    stack_file = place.stacks / f"Pulumi.{name}.yaml"
    texts = project_files(place.name) if place.new else {}
    if (place.root / IGNORE_FILE).exists():
        texts.pop(IGNORE_FILE, None)
    schema = schema_of(place.root, place.stacks)
    if schema is None:
        schema = SCHEMA_FILE
        texts[str((place.stacks / schema).relative_to(place.root))] = schema_text()
    texts[str(stack_file.relative_to(place.root))] = stack.text(schema)
    return write_new(place.root, texts)


def _report(
    invocation: Invocation,
    place: Place,
    stack: NewStack,
    name: str,
    settings: StackSettings,
    written: tuple[Path, ...],
) -> None:
    output = invocation.output
    found = stack.translation
    files = [str(file.relative_to(place.root)) for file in written]
    chips = list(choices(settings)) if settings.cloud == "google" else []
    warned = tuple(warnings(settings))
    following = list(_next(place, name, settings, invocation.environ))
    output.document(
        {
            "project": place.name,
            "directory": str(place.root),
            "stack": name,
            "written": files,
            "as_is": [each.to_json() for each in (found.as_is if found is not None else ())],
            "refused": [each.to_json() for each in (found.refused if found is not None else ())],
            "accelerators": [asdict(each) for each in chips],
            "warnings": [each.to_json() for each in warned],
            "next": following,
        }
    )
    what = f"project {place.name} with stack {name}" if place.new else f"stack {name}"
    output.result(f"New {what} in {place.root}:")
    for file in files:
        output.result(f"  {file}")
    for reason, keys in _by_reason(found.as_is if found is not None else ()).items():
        output.progress(printable(f"Left out: {', '.join(keys)}: {reason}."))
    for finding in warned:
        output.progress(f"Warning: {finding}")
    if place.new and IGNORE_FILE not in files:
        output.progress(f"Add .tpuflex/ to {IGNORE_FILE}, which was there already.")
    if chips:
        output.result("Accelerator types for the same (--accelerator):")
    for each in chips:
        output.result(f"  {each}")
    output.result("Next:")
    for command in following:
        output.result(f"  {command}")


def _by_reason(findings: Iterable[Finding]) -> dict[str, list[str]]:
    """Keys of ``findings`` by what is said of them."""
    keys: dict[str, list[str]] = {}
    for finding in findings:
        keys.setdefault(finding.problem, []).append(finding.key)
    return keys


def _next(
    place: Place, name: str, settings: StackSettings, environ: Mapping[str, str]
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
