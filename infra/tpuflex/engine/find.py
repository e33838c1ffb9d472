"""Which Pulumi engine runs: from PATH, our cache, or a build from its Go module.

Looking (:func:`search`) installs nothing; :func:`ensure` makes sure that there is an engine. Only
what is known by its checksum is fetched: the SDK's own download, a script from pulumi.com that is
run as it comes, is not used (docs/security.md).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tpuflex.engine import build
from tpuflex.engine.build import (
    ENGINE_VERSION,
    MINIMUM_ENGINE,
    MINIMUM_GO,
    find_go,
    parse_version,
    show_version,
)
from tpuflex.errors import EngineError
from tpuflex.files.trusted import child_environment, creation_lock, own_directory

WAYS_OUT = (
    f"Install Pulumi {show_version(MINIMUM_ENGINE)} or newer so that `pulumi` is on PATH "
    "(https://www.pulumi.com/docs/install/), or install Go "
    f"{show_version(MINIMUM_GO)} or newer (https://go.dev/dl/) and run `tpuflex engine --install`."
)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that can be run.

    Attributes:
        path: the executable.
        version: its version without the leading ``v``.
        source: where it came from: ``path``, ``cache`` or ``build``.
    """

    path: Path
    version: str
    source: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place where an engine may come from, and what was found there.

    Attributes:
        source: ``path``, ``cache`` or ``build``.
        location: the file or module that was looked at.
        version: the version found, or empty.
        taken: whether this candidate is the engine that runs.
        reason: why it was or was not taken, in a sentence.
    """

    source: str
    location: str
    version: str
    taken: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Search:
    """The engine that runs, if there is one, and every candidate with its reason."""

    engine: Engine | None
    candidates: tuple[Candidate, ...]

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex engine --json`` prints."""
        engine = self.engine
        return {
            "engine": None if engine is None else {**asdict(engine), "path": str(engine.path)},
            "candidates": [asdict(candidate) for candidate in self.candidates],
        }


def cached_engine(home: Path) -> Path:
    """Where the engine that is built here lies."""
    return home / "engine" / f"v{ENGINE_VERSION}" / "pulumi"


def search(home: Path, environ: Mapping[str, str]) -> Search:
    """Look for an engine in the order PATH, cache, build; nothing is installed."""
    engine: Engine | None = None
    candidates = []
    for look in (_on_path, _cached):
        found, candidate = look(home, environ)
        if engine is not None and found is not None:
            candidate = _passed_over(candidate, engine)
        engine = engine or found
        candidates.append(candidate)
    candidates.append(_buildable(environ, engine))
    return Search(engine, tuple(candidates))


def ensure(
    home: Path,
    environ: Mapping[str, str],
    progress: Callable[[str], None],
    *,
    installers: tuple[Installer, ...] | None = None,
) -> Engine:
    """The engine to run; built or installed when there is none yet.

    Raises:
        EngineError: no engine can be had; says what was tried and names the ways out.
    """
    found = search(home, environ)
    if found.engine is not None:
        return found.engine
    waits = "Another process is installing the engine; waiting for it …"
    # Of any version: they are built in one directory.
    with creation_lock(home / "engine" / "build", lambda: progress(waits)):
        again = search(home, environ)  # another process may just have built it
        if again.engine is not None:
            return again.engine
        return _install(home, environ, progress, again, installers or INSTALLERS)


Installer = Callable[[Path, Mapping[str, str], Callable[[str], None]], Engine]


def build_engine(home: Path, environ: Mapping[str, str], progress: Callable[[str], None]) -> Engine:
    """Build the engine from its Go module into the cache."""
    target = cached_engine(home)
    own_directory(target.parent)
    build.build(home / "engine" / "build", target, child_environment(environ), progress)
    return Engine(target, ENGINE_VERSION, "build")


INSTALLERS: tuple[Installer, ...] = (build_engine,)


def _install(
    home: Path,
    environ: Mapping[str, str],
    progress: Callable[[str], None],
    found: Search,
    installers: tuple[Installer, ...],
) -> Engine:
    failures = [f"{c.location}: {c.reason}" for c in found.candidates if c.source == "path"]
    for installer in installers:
        try:
            return installer(home, environ, progress)
        except EngineError as error:
            failures.append(str(error))
            progress(error.message.partition("\n")[0].rstrip(":"))
    tried = "\n".join("  - " + failure.replace("\n", "\n    ") for failure in failures)
    raise EngineError(f"No Pulumi engine can be had. Tried:\n{tried}", hint=WAYS_OUT)


Look = tuple[Engine | None, Candidate]


def _on_path(home: Path, environ: Mapping[str, str]) -> Look:
    del home
    found = shutil.which("pulumi", path=environ.get("PATH", ""))
    if found is None:
        return None, Candidate("path", "pulumi", "", False, "not on PATH")
    version = _asked_version(Path(found), environ)
    if version is None:
        return None, Candidate("path", found, "", False, "`pulumi version` does not answer")
    parsed = parse_version(version)
    if parsed is None or parsed < MINIMUM_ENGINE:
        wanted = show_version(MINIMUM_ENGINE)
        return None, Candidate("path", found, version, False, f"older than {wanted}")
    return Engine(Path(found), version, "path"), Candidate(
        "path", found, version, True, "first on PATH and new enough"
    )


def _cached(home: Path, environ: Mapping[str, str]) -> Look:
    del environ
    path = cached_engine(home)
    if not os.access(path, os.X_OK):
        return None, Candidate("cache", str(path), "", False, "not built yet")
    return Engine(path, ENGINE_VERSION, "cache"), Candidate(
        "cache", str(path), ENGINE_VERSION, True, "built here earlier"
    )


def _buildable(environ: Mapping[str, str], engine: Engine | None) -> Candidate:
    location = f"{build.MODULE}@v{ENGINE_VERSION}"
    go = find_go(environ)
    with_go = f"with {go.described}" if go.usable else f"with Go from PyPI ({go.described})"
    reason = f"not needed, there is {engine.path}" if engine else f"will be built {with_go}"
    return Candidate("build", location, ENGINE_VERSION, False, reason)


def _passed_over(candidate: Candidate, engine: Engine) -> Candidate:
    return Candidate(
        candidate.source,
        candidate.location,
        candidate.version,
        False,
        f"usable, but {engine.path} comes first",
    )


def _asked_version(path: Path, environ: Mapping[str, str]) -> str | None:
    quiet = {**child_environment(environ), "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        answer = subprocess.run(
            [path, "version"], env=quiet, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    parsed = parse_version(answer.stdout)
    return None if parsed is None else show_version(parsed)
