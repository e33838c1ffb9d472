"""Where a project keeps its files: its root, its stack files, and its state directory."""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tpuflex.catalog import USER_FILE
from tpuflex.errors import Finding, NotFoundError, SettingsError
from tpuflex.trusted_files import (
    Distrust,
    distrust,
    distrust_within,
    require_all_trusted,
    require_trusted,
)

PULUMI_FILE = "Pulumi.yaml"
#: The import packages that a command consists of.
_PACKAGES = ("tpuflex", "embedded_cloud", "pulumi_plugin")
HOME_VARIABLE = "TPUFLEX_HOME"
STACK_VARIABLE = "TPUFLEX_STACK"
DEFAULT_STACK = "dev"


def unnamed_stack(environ: Mapping[str, str]) -> str:
    """The stack of a command without ``--stack``: ``$TPUFLEX_STACK``, or ``dev``."""
    return environ.get(STACK_VARIABLE, "") or DEFAULT_STACK


def project_root(start: Path) -> Path:
    """The nearest directory at or above ``start`` that holds ``Pulumi.yaml``, else ``start``."""
    resolved = start.resolve()
    for directory in (resolved, *resolved.parents):
        if (directory / PULUMI_FILE).is_file():
            return directory
    return resolved


def home(root: Path, environ: Mapping[str, str]) -> Path:
    """The state directory: ``$TPUFLEX_HOME`` if set, else ``.tpuflex`` in the project root."""
    chosen = environ.get(HOME_VARIABLE)
    return Path(chosen).expanduser().resolve() if chosen else root / ".tpuflex"


def stack_names_in(directory: Path) -> tuple[str, ...]:
    """The stacks that have a stack file in ``directory``, sorted."""
    files = directory.glob("Pulumi.*.yaml")
    return tuple(sorted(path.name[len("Pulumi.") : -len(".yaml")] for path in files))


def stack_directory(root: Path, project_file: Mapping[str, object]) -> Path:
    """Where the stack files of the project in ``root`` are: ``stackConfigDir``, or a text as
    ``config``, which is the older spelling of it (``RewriteConfigPathIntoStackConfigDir`` in
    pulumi's ``sdk/go/common/workspace/project.go``)."""
    older = project_file.get("config")
    folder = project_file.get("stackConfigDir") or (older if isinstance(older, str) else None)
    return root / str(folder) if folder else root


@dataclass(frozen=True, slots=True)
class Project:
    """A Pulumi project on disk.

    Attributes:
        name: Pulumi project name, from ``Pulumi.yaml``.
        root: directory of ``Pulumi.yaml``.
        stacks: directory of the stack files (``stackConfigDir``).
        home: state directory of tpuflex.
        backend: where its states are, as ``Pulumi.yaml`` says (``backend.url``), or empty.
    """

    name: str
    root: Path
    stacks: Path
    home: Path
    backend: str = ""

    def stack_file(self, stack: str) -> Path:
        """The stack file of ``stack``.

        Raises:
            NotFoundError: there is no such file; suggests the nearest stack.
        """
        path = self.stacks / f"Pulumi.{stack}.yaml"
        if path.is_file():
            return path
        known = self.stack_names()
        shown = self._relative(path)
        if not known:
            raise NotFoundError(
                f"There is no stack file: {shown} does not exist, and neither does any other.",
                hint=f"Write {shown}, or let `tpuflex init --stack {shlex.quote(stack)}` write it.",
            )
        near = difflib.get_close_matches(stack, known, n=1)
        suggestion = f"Did you mean --stack {near[0]}? " if near else ""
        raise NotFoundError(
            f"There is no stack {stack!r}: {shown} does not exist.",
            hint=f"{suggestion}Stacks of this project: {', '.join(known)}.",
        )

    def stack_names(self) -> tuple[str, ...]:
        """The stacks that have a stack file, sorted."""
        return stack_names_in(self.stacks)

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


def open_project(start: Path, environ: Mapping[str, str]) -> Project:
    """Read the project that ``start`` belongs to.

    Raises:
        NotFoundError: no ``Pulumi.yaml`` at ``start`` or above it.
        AccessError: others could change what is run from the project.
        SettingsError: ``Pulumi.yaml`` cannot be read as a project file.
    """
    root = project_root(start)
    file = root / PULUMI_FILE
    if not file.is_file():
        raise NotFoundError(
            f"There is no {PULUMI_FILE} in {root} or in any directory above it.",
            hint="Change to the project's directory, name it (tpuflex -C DIRECTORY …), or make one:"
            " tpuflex init",
        )
    installed = tuple(_distrusted_installation(environ))
    known = [found for place in (root, file) if (found := distrust(place, environ)) is not None]
    if known:  # before its contents say anything
        require_all_trusted([*known, *installed], (root, *_installation()))
    document = _read_project_file(file)
    project = Project(
        name=str(document["name"]),
        root=root,
        stacks=stack_directory(root, document),
        home=trusted_home(root, environ),
        backend=_backend(document),
    )
    stack_files = project.stacks.glob("Pulumi.*.yaml")
    places = (project.stacks, *stack_files, root / USER_FILE, *_run_from(root, document))
    spoilt = [found for place in places if (found := distrust(place, environ)) is not None]
    require_all_trusted([*spoilt, *installed], (root, *_installation()))
    return project


def _installation() -> tuple[Path, ...]:
    """What this command consists of: the sources of its packages, and its virtual environment."""
    sources = Path(__file__).parents[1]
    packages = tuple(sources / name for name in _PACKAGES)
    return packages if sys.prefix == sys.base_prefix else (*packages, Path(sys.prefix))


def _distrusted_installation(environ: Mapping[str, str]) -> Iterator[Distrust]:
    """Why others could change this command. Of the environment's packages only what site-packages
    holds is looked at: whatever made them writable made it writable, too."""
    for tree in _installation():
        if (found := distrust(tree, environ)) is not None:
            yield found
    for name in _PACKAGES:
        yield from distrust_within(Path(__file__).parents[1] / name, environ)
    if sys.prefix != sys.base_prefix:
        environment = Path(sys.prefix)
        places = [environment, environment / "bin", environment / "lib"]
        for library in environment.glob("lib/python*"):
            places += [library, library / "site-packages"]
        for place in places:
            yield from distrust_within(place, environ, recursive=False)


def trusted_home(root: Path, environ: Mapping[str, str]) -> Path:
    """:func:`home`, if nobody else could change what is run from it.

    Raises:
        AccessError: others could.
    """
    place = home(root, environ)
    for part in (place, place / "engine"):
        require_trusted(part, "the state directory", environ)
    return place


def _backend(document: Mapping[str, object]) -> str:
    section = document.get("backend")
    url = section.get("url") if isinstance(section, dict) else None
    return str(url) if url else ""


def _run_from(root: Path, document: Mapping[str, object]) -> Iterator[Path]:
    """Where the engine runs programs from, as ``Pulumi.yaml`` says."""
    yield root / str(document.get("main") or "")
    runtime = document.get("runtime")
    options = runtime.get("options") if isinstance(runtime, dict) else None
    virtualenv = options.get("virtualenv") if isinstance(options, dict) else None
    if virtualenv:
        yield root / str(virtualenv) / "bin"
    plugins = document.get("plugins")
    for kind in plugins.values() if isinstance(plugins, dict) else ():
        for plugin in kind if isinstance(kind, list) else ():
            if isinstance(plugin, dict) and plugin.get("path"):
                folder = root / str(plugin["path"])
                yield from (folder, *folder.glob("pulumi-*"))


def _read_project_file(file: Path) -> dict[str, object]:
    import yaml  # here, because `tpuflex --help` does not need it

    from tpuflex.settings.stack_yaml import LONGEST, RefusedYamlError, read_yaml

    try:
        with file.open(encoding="utf-8") as text:
            document = read_yaml(text.read(LONGEST + 1)).value
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RefusedYamlError) as error:
        raise SettingsError(
            str(file), (Finding("(file)", f"cannot be read: {' '.join(str(error).split())}"),)
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise SettingsError(
            str(file), (Finding("name", "the project has no name", "Write `name: tpuflex`."),)
        )
    return {str(key): value for key, value in document.items()}
