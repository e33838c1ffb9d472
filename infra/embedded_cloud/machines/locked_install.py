"""Install what a lock names, and nothing else, into a virtual environment: uv first, then pip.

uv does in seconds what takes pip a minute, with the same checks of every file's hash
(docs/adr/0035). Where it cannot do what pip is configured to do, or fails, pip does it: its errors
are the ones that people know. The Makefile runs this module before anything else is installed, so
that it needs the standard library alone::

    python -P -m embedded_cloud.machines.locked_install .venv/bin/python requirements/dev.lock
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

#: Nothing is resolved, built or kept: of wheels that the lock names by hash.
_LOCKED = ("--no-deps", "--require-hashes", "--only-binary", ":all:")

#: What pip's settings are called in uv's environment
#: (https://docs.astral.sh/uv/reference/environment/). By environment, because an index may be
#: named with a password, and arguments are everybody's to read.
_IN_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
#: What stands between several values, where pip has spaces or lines.
_SEVERAL = {"UV_INDEX": " ", "UV_FIND_LINKS": ",", "UV_INSECURE_HOST": " "}
#: pip's settings that do not change what is installed, nor from where.
_OF_PIP_ALONE = {
    *("cache-dir", "config-file", "disable-pip-version-check", "log", "no-cache-dir", "no-color"),
    *("no-input", "no-python-version-warning", "prefer-binary", "progress-bar", "quiet", "retries"),
    *("require-virtualenv", "root-user-action", "verbose", "compile", "no-compile"),
}
#: One setting of ``pip config list``: ``global.index-url='https://…'``.
_SETTING = re.compile(r"(global|install|:env:)\.([\w-]+)=(.+)")


@dataclass(frozen=True, slots=True)
class Installer:
    """A program that installs the lock.

    Attributes:
        name: ``uv`` or ``pip``.
        command: its command line.
        environment: its environment variables, all of them.
    """

    name: str
    command: list[str]
    environment: dict[str, str]


def installers(python: Path, lock: Path, environ: Mapping[str, str]) -> Iterator[Installer]:
    """What installs ``lock``: the next is for when the one before it failed.

    Args:
        python: interpreter of the virtual environment that is filled; it has pip.
        lock: requirements file with hashes.
        environ: environment variables that they are given.
    """
    if importlib.util.find_spec("uv") and (settings := uv_settings(_pip_config(python, environ))):
        # uv unpacks beside the environment, to move what it unpacked instead of copying it.
        private = {**settings, "TMPDIR": str(python.parents[1])}
        # Of uv's own settings some say not to look at hashes.
        others = {name: each for name, each in environ.items() if not name.startswith("UV_")}
        command = [
            *(sys.executable, "-P", "-m", "uv", "pip", "install", "--python", str(python)),
            *("--no-config", "--no-cache", "--no-python-downloads", *_LOCKED, "-r", str(lock)),
        ]
        yield Installer("uv", command, {**others, **private})
    command = [
        *(str(python), "-P", "-m", "pip", "install", "--no-cache-dir", "--no-compile"),
        *("--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
        *(*_LOCKED, "-r", str(lock)),
    ]
    yield Installer("pip", command, dict(environ))


def uv_settings(listed: str) -> dict[str, str] | None:
    """What ``pip config list`` says, as environment variables of uv; None where uv has no such
    setting.

    Of one setting in several places the variable counts more than what is said of ``pip install``,
    and that more than what is said of every command
    (https://pip.pypa.io/en/stable/topics/configuration/).
    """
    places: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        found = _SETTING.fullmatch(line)
        if found is None:
            continue  # of another command of pip's
        places[found[1]][found[2]] = str(ast.literal_eval(found[3]))
    settings = {**places["global"], **places["install"], **places[":env:"]}
    if settings.keys() - _IN_UV.keys() - _OF_PIP_ALONE:
        return None
    own = {_IN_UV[name]: value for name, value in settings.items() if name in _IN_UV}
    for name in _SEVERAL.keys() & own.keys():
        own[name] = _SEVERAL[name].join(own[name].split())
    # pip takes a file from any index that has it; the hash says that it is the right one.
    strategy = {"UV_INDEX_STRATEGY": "unsafe-best-match"} if "UV_INDEX" in own else {}
    # The machine's own authorities, as pip has them; SSL_CERT_FILE counts more.
    return {"UV_SYSTEM_CERTS": "1", **strategy, **own}


def _pip_config(python: Path, environ: Mapping[str, str]) -> str:
    asked = subprocess.run(
        [str(python), "-P", "-m", "pip", "config", "list"],
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    # What cannot be read is pip's to complain about.
    return asked.stdout if asked.returncode == 0 else "global.unreadable=''"


def forget_lock(python: Path) -> None:
    """Remove the file by which several uvs wait for each other: everybody may write to it."""
    (python.parents[1] / ".lock").unlink(missing_ok=True)


def main(python: Path, lock: Path) -> int:
    """Install quietly; the output of what failed goes to standard error.

    Returns:
        The exit code: that of pip where uv failed, too.
    """
    code = 1
    for installer in installers(python, lock, os.environ):
        done = subprocess.run(
            installer.command,
            env=installer.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        forget_lock(python)
        code = done.returncode
        if code == 0:
            break
        sys.stderr.write(f"{installer.name} could not install {lock}:\n{done.stdout}")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
