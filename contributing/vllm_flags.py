"""Print what a version of vLLM knows of flags and environment, as the data file of the catalog.

Run with the Python of a serving image; see VLLM.md beside this file. Flags are those of the
server's own argument parser, with the bounds of vLLM's configuration. What needs a TPU to be
imported, or is of another version, is read from the text of wheels: the variables of the TPU
backend, and the names that vLLM looks up in its own tables.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
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
_WHEEL = re.compile(r"(?:tpu_inference|vllm_tpu)-([0-9][^-]*)-")
#: Where vLLM says which names there are, by what names one of them: a dotted path below the flags.
_NAMES = {
    "tool_call_parser": ("vllm/tool_parsers/__init__.py", "_TOOL_PARSERS_TO_REGISTER"),
    "reasoning_parser": ("vllm/reasoning/__init__.py", "_REASONING_PARSERS_TO_REGISTER"),
    "quantization": ("vllm/model_executor/layers/quantization/__init__.py", "QuantizationMethods"),
    "speculative_config": ("vllm/config/speculative.py", "SpeculativeConfig"),
    "speculative_config.method": ("vllm/config/speculative.py", "SpeculativeMethod"),
}
_BOUNDS = ("ge", "gt", "le", "lt")
#: Functions that end at a text that they cannot read, and what they are given.
_READERS = {"maybe_convert_bool": "int", "maybe_convert_int": "int", "float": "float", "int": "int"}
_GETENV = re.compile(r"os\.(?:getenv|environ)\b")


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
    bounds = config_bounds()
    return [flag(action, bounds) for action in parser._actions if action.option_strings]


def config_bounds() -> dict[str, dict[str, float]]:
    """What vLLM's configuration wants of a number, by its field; the parser itself takes any."""
    from vllm import config

    found: dict[str, dict[str, float]] = {}
    for part in vars(config).values():
        # A draft model's own limits are no flags.
        if not dataclasses.is_dataclass(part) or part is config.SpeculativeConfig:
            continue
        for name, field in getattr(part, "__pydantic_fields__", {}).items():
            for wanted in field.metadata:
                limits = {each: getattr(wanted, each) for each in _BOUNDS if hasattr(wanted, each)}
                found.setdefault(name, {}).update(limits)
    return found


def flag(action: argparse.Action, bounds: dict[str, dict[str, float]]) -> dict[str, Any]:
    """One flag: its spellings, how many values it takes, of which type, and within which bounds."""
    row: dict[str, Any] = {"names": action.option_strings, "values": _VALUES[action.nargs]}
    if isinstance(action, argparse._AppendAction):
        row["values"] = "many"
    if row["values"] != "none":
        row["type"] = value_type(action)
        if action.choices:
            row["choices"] = [str(choice) for choice in action.choices if choice is not None]
        if row["type"] in ("int", "float") and bounds.get(action.dest):
            row["bounds"] = bounds[action.dest]
    return row


def value_type(action: argparse.Action) -> str:
    """``int``, ``float``, ``json`` or ``text``, by what reads the value."""
    reader = action.type
    if inspect.isfunction(reader):
        # "or None" is a function around the one that reads the value.
        reader = inspect.getclosurevars(reader).nonlocals.get("return_type", reader)
    return _TYPES.get(getattr(reader, "__name__", "str"), "text")


def vllm_variables() -> dict[str, dict[str, Any]]:
    """vLLM's own variables, with what it accepts."""
    from vllm import envs

    return variables(inspect.getsource(envs))


def tpu_variables(wheel: Path) -> dict[str, dict[str, Any]]:
    """The variables of the TPU backend, with what it accepts, from its source."""
    return variables(zipfile.ZipFile(wheel).read("tpu_inference/envs.py").decode())


def variables(source: str) -> dict[str, dict[str, Any]]:
    """The rows of ``environment_variables`` in ``source``, with what each accepts."""
    values = assigned(source)
    table = values["environment_variables"]
    found = {}
    for key, reader in zip(table.keys, table.values, strict=True):
        function = values.get(getattr(reader, "id", ""))
        if isinstance(function, ast.FunctionDef) and isinstance(function.body[-1], ast.Return):
            reader = function.body[-1].value
        found[ast.literal_eval(key)] = accepted(reader)
    return found


def assigned(source: str) -> dict[str, Any]:
    """What ``source`` assigns to names, and its classes and functions."""
    found: dict[str, Any] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = node
        for target in (*getattr(node, "targets", ()), getattr(node, "target", None)):
            if isinstance(target, ast.Name):
                found[target.id] = node.value  # type: ignore[attr-defined]
    return found


def accepted(reader: ast.expr) -> dict[str, Any]:
    """What the expression that reads a variable accepts."""
    calls = [
        node.func.id
        for node in ast.walk(reader)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    if "env_bool" in calls:
        return {"type": "bool"}
    if isinstance(reader, ast.Call) and calls[:1] and calls[0].endswith("_with_choices"):
        options = {word.arg: word.value for word in reader.keywords}
        options |= dict(zip(("name", "default", "choices"), reader.args, strict=False))
        if isinstance(options["choices"], ast.List):
            return choice_of(calls[0], {key: ast.literal_eval(options[key]) for key in options})
    if "env_int_list" in calls:
        return {"type": "int_list"}
    # Only what reads the variable itself; others read a part of it.
    for call, kind in _READERS.items():
        for node in ast.walk(reader):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == call
                and _GETENV.match(ast.unparse(node.args[0]))
            ):
                return {"type": kind}
    return {"type": "text"}


def choice_of(function: str, options: dict[str, Any]) -> dict[str, Any]:
    """What ``function`` accepts, that reads a variable of one or several known words."""
    several = function != "env_with_choices" or options.get("allow_csv")
    row = {"type": "choices" if several else "choice", "choices": options["choices"]}
    return row if options.get("case_sensitive", True) else row | {"any_case": True}


def closed_lists(wheel: Path) -> dict[str, Any]:
    """The names that the vLLM in ``wheel`` knows: it ends when it is given another."""
    archive = zipfile.ZipFile(wheel)
    names = {
        key: names_of(name, assigned(archive.read(path).decode()))
        for key, (path, name) in _NAMES.items()
    }
    return {"vllm_version": version_of(wheel), "names": names}


def names_of(name: str, values: dict[str, Any]) -> list[str]:
    """Keys of a table, members of a Literal with those of others in it, or fields of a class."""
    node = values[name]
    if isinstance(node, ast.ClassDef):
        fields = (each for each in node.body if isinstance(each, ast.AnnAssign))
        return [
            each.target.id
            for each in fields
            if isinstance(each.target, ast.Name) and "init=False" not in ast.unparse(each)
        ]
    if isinstance(node, ast.Dict):
        return [ast.literal_eval(key) for key in node.keys if key is not None]
    found: list[str] = []
    for member in getattr(node.slice, "elts", [node.slice]):
        is_name = isinstance(member, ast.Name)
        found += names_of(member.id, values) if is_name else [ast.literal_eval(member)]
    return found


def version_of(wheel: Path) -> str:
    """The version in the name of ``wheel``."""
    match = _WHEEL.match(wheel.name)
    if match is None:
        raise SystemExit(f"{wheel} is no wheel of tpu-inference or vllm-tpu")
    return match[1]


def main() -> None:
    """See above."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("backend", type=Path, help="the wheel of tpu-inference")
    arguments.add_argument(
        "wheels", type=Path, nargs="+", help="wheels of vllm-tpu, the oldest first"
    )
    chosen = arguments.parse_args()
    from vllm.version import __version__

    document = {
        "vllm_version": __version__,
        "tpu_inference_version": version_of(chosen.backend),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "flags": parser_flags(),
        "closed_lists": [closed_lists(wheel) for wheel in chosen.wheels],
        "vllm_variables": vllm_variables(),
        "tpu_variables": tpu_variables(chosen.backend),
    }
    text = json.dumps(document, indent=1)
    # One row a line, so that two versions can be compared.
    text = re.sub(r"\n {3,}|\n {2}(?=[\]}])", " ", text)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
