"""Print what a version of vLLM knows of flags and environment, as the data file of the catalog.

Run with the Python of a serving image; see VLLM.md beside this file. Flags are those of the
server's own argument parser, vLLM's variables those of its own table. Those of the TPU backend are
read from the text of its wheel, which cannot be imported without a TPU.
"""

from __future__ import annotations

import argparse
import ast
import datetime as dt
import importlib
import inspect
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

#: Where vLLM has had its parser: since 0.3x, and before.
_PARSERS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
_VALUES = {None: "one", "?": "optional", "+": "many", "*": "many", 0: "none"}
_TYPES = {
    "int": "int",
    "float": "float",
    "human_readable_int": "int",
    "human_readable_int_or_auto": "int",
    "loads": "json",
    "union_dict_and_str": "json",
    "parse_dataclass": "json",
    "_parse_type": "json",
}
_WHEEL = re.compile(r"tpu_inference-([0-9][^-]*)-")


def parser_flags() -> list[dict[str, Any]]:
    """Every flag of `python3 -m vllm.entrypoints.openai.api_server`, with what it takes."""
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    for name in _PARSERS:
        try:
            make_arg_parser = importlib.import_module(name).make_arg_parser
            break
        except ModuleNotFoundError:
            continue
    parser = make_arg_parser(FlexibleArgumentParser())
    return [flag(action) for action in parser._actions if action.option_strings]


def flag(action: argparse.Action) -> dict[str, Any]:
    """One flag: its spellings, how many values it takes, and of which type."""
    row: dict[str, Any] = {"names": action.option_strings, "values": _VALUES[action.nargs]}
    if isinstance(action, argparse._AppendAction):
        row["values"] = "many"
    if row["values"] != "none":
        row["type"] = value_type(action)
        if action.choices:
            row["choices"] = [str(choice) for choice in action.choices if choice is not None]
    return row


def value_type(action: argparse.Action) -> str:
    """``int``, ``float``, ``json`` or ``text``, by what reads the value."""
    reader = action.type
    if inspect.isfunction(reader):
        # "or None" is a function around the one that reads the value.
        reader = inspect.getclosurevars(reader).nonlocals.get("return_type", reader)
    return _TYPES.get(getattr(reader, "__name__", "str"), "text")


def vllm_variables() -> list[str]:
    """The names in vLLM's own table of environment variables."""
    from vllm import envs

    return sorted(envs.environment_variables)


def tpu_variables(wheel: Path) -> dict[str, dict[str, Any]]:
    """The variables of the TPU backend, with what it accepts, from its source."""
    source = zipfile.ZipFile(wheel).read("tpu_inference/envs.py").decode()
    for node in ast.parse(source).body:
        names = [getattr(target, "id", "") for target in getattr(node, "targets", ())]
        names.append(getattr(getattr(node, "target", None), "id", ""))
        value = getattr(node, "value", None)
        if "environment_variables" in names and isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            return {ast.literal_eval(key): accepted(reader) for key, reader in pairs if key}
    raise SystemExit(f"{wheel} has no environment_variables in tpu_inference/envs.py")


def accepted(reader: ast.expr) -> dict[str, Any]:
    """What the expression that reads a variable accepts."""
    calls = [
        node.func.id
        for node in ast.walk(reader)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    if "env_bool" in calls:
        return {"type": "bool"}
    if "env_with_choices" in calls and isinstance(reader, ast.Call):
        row = {"type": "choice", "choices": ast.literal_eval(reader.args[2])}
        options = {word.arg: ast.literal_eval(word.value) for word in reader.keywords}
        return row | ({"type": "choices"} if options.get("allow_csv") else {})
    for call, kind in (("env_int_list", "int_list"), ("float", "float"), ("int", "int")):
        if call in calls:
            return {"type": kind}
    return {"type": "text"}


def main() -> None:
    """See above."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("wheel", type=Path, help="the wheel of tpu-inference")
    wheel = arguments.parse_args().wheel
    backend = _WHEEL.match(wheel.name)
    if backend is None:
        raise SystemExit(f"{wheel} is no wheel of tpu-inference")
    from vllm.version import __version__

    document = {
        "vllm_version": __version__,
        "tpu_inference_version": backend[1],
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "flags": parser_flags(),
        "vllm_variables": vllm_variables(),
        "tpu_variables": tpu_variables(wheel),
    }
    text = json.dumps(document, indent=1)
    # One row a line, so that two versions can be compared.
    text = re.sub(r"\n {3,}|\n {2}(?=[\]}])", " ", text)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
