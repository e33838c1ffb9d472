"""Whether gcloud accepts the words of a command: its own parser, and one from recorded data."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

#: Run by gcloud's own Python. Parses, runs nothing: the private parser is what `CLI.Execute` uses.
_ORACLE = """
import json, sys
root = sys.argv[1]
sys.path[:0] = [f"{root}/lib", f"{root}/lib/third_party"]
from googlecloudsdk import gcloud_main
cli = gcloud_main.CreateCLI([])
verdicts = []
for words in json.load(sys.stdin):
    try:
        cli._CLI__parser.parse_args(words[1:])
    except SystemExit:
        verdicts.append("refused")
    else:
        verdicts.append("")
print(json.dumps(verdicts))
"""

_GRAMMAR = json.loads((Path(__file__).parent / "gcloud_grammar.json").read_text())


class _RefusedError(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise _RefusedError(message)


def recorded_verdicts(commands: Sequence[tuple[str, ...]]) -> list[str]:
    """Why the recorded grammar refuses each command; empty where it accepts."""
    return [_recorded(words) for words in commands]


def gcloud_verdicts(commands: Sequence[tuple[str, ...]], config: Path) -> list[str] | None:
    """Why gcloud's own parser refuses each command; None where there is no gcloud to ask.

    Args:
        commands: words, ``gcloud`` the first.
        config: an empty directory for gcloud's configuration.
    """
    program = shutil.which("gcloud")
    if program is None:
        return None
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(config),
        "CLOUDSDK_CONFIG": str(config),
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
    }
    where = "--format=value(installation.sdk_root,basic.python_location)"
    info = subprocess.run(
        [program, "info", where], env=environ, capture_output=True, text=True, check=True
    )
    root, python = info.stdout.strip().split("\t")
    done = subprocess.run(
        [python, "-c", _ORACLE, root],
        input=json.dumps(commands),
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    verdicts: list[str] = json.loads(done.stdout)
    return verdicts


def _recorded(words: tuple[str, ...]) -> str:
    names = [
        name for name in _GRAMMAR["commands"] if words[1:][: len(name.split())] == _split(name)
    ]
    if not names:
        return "no such command was recorded"
    name = max(names, key=len)
    row = _GRAMMAR["commands"][name]
    parser = _Parser(add_help=False, allow_abbrev=False)
    for positional, count in row["positionals"].items():
        parser.add_argument(positional, nargs=None if count == "1" else count)
    for flag in (*row["with_value"], *_GRAMMAR["global_with_value"]):
        parser.add_argument(flag)
    for flag in row["without_value"]:
        parser.add_argument(flag, action="store_true")
    arguments = list(words[1 + len(_split(name)) :])
    if "--" in arguments and name.endswith("ssh"):  # the rest is ssh's own
        arguments = arguments[: arguments.index("--")]
    try:
        parser.parse_args(arguments)
    except _RefusedError as refusal:
        return str(refusal)
    return ""


def _split(name: str) -> tuple[str, ...]:
    return tuple(name.split())
