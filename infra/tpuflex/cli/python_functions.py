"""The package's functions in Python, rendered from its schema: each at once, and as an output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic.alias_generators import to_snake

from tpuflex.cli.python_syntax import (
    Schema,
    docstring,
    input_type,
    name_in,
    output_type,
    property_lines,
    python_names,
    required_first,
    wrapped,
)


def output_class(group: Schema, name: str, text: str) -> str:
    """The class ``name`` of what the provider answers with."""
    lines = ["@_output", f"class {name}(_Output):", *docstring(text, 4)]
    for wire, kind in required_first(group["properties"], group["required"]):
        optional = wire not in group["required"]
        type_ = output_type(kind) + (" | None" if optional else "")
        default = ", default=None" if optional else ""
        lines += ["", *property_lines(to_snake(wire), type_, f'"{wire}"{default}')]
        lines += docstring(python_names(kind["description"], group["properties"]), 4)
    return "\n".join(lines) + "\n"


def function_texts(token: str, function: Schema) -> Iterator[str]:
    """The class of its answer, and its two forms."""
    name = name_in(token)
    answer = f"{name[0].upper()}{name[1:]}Result"
    yield output_class(function["outputs"], answer, f"What :func:`{to_snake(name)}` answers with.")
    yield _form(token, function, answer, eventual=False)
    yield _form(token, function, answer, eventual=True)


def _form(token: str, function: Schema, answer: str, *, eventual: bool) -> str:
    name = to_snake(name_in(token)) + ("_output" if eventual else "")
    options = "InvokeOutputOptions" if eventual else "InvokeOptions"
    taken = [*required_first(function["inputs"]["properties"], function["inputs"]["required"])]
    explained = [f"{to_snake(wire)}: {kind['description']}" for wire, kind in taken]
    explained.append("opts: Options of the call, such as its provider.")
    first = "As :func:`" + name.removesuffix("_output") + "`, also of what is not known yet."
    lines = [
        f"def {name}(",
        "    *,",
        *(_parameter(wire, kind, function, eventual=eventual) for wire, kind in taken),
        f"    opts: pulumi.{options} | None = None,",
        f") -> {f'pulumi.Output[{answer}]' if eventual else answer}:",
        *docstring(first if eventual else function["description"], 4)[:-1],
    ]
    text = docstring(first if eventual else function["description"], 4)
    lines += [text[-1].removesuffix('"""'), "", "    Args:"]
    lines += [line for item in explained for line in wrapped(item, 8, 12)]
    lines += [
        '    """',
        "    given = {" + ", ".join(f'"{wire}": {to_snake(wire)}' for wire, _ in taken) + "}",
        f"    versioned = pulumi.{options}(version=__version__)",
    ]
    call = "return pulumi.runtime.invoke_output" if eventual else "asked = pulumi.runtime.invoke"
    lines += [
        f"    {call}(",
        f'        "{token}",',
        "        given,",
        f"        pulumi.{options}.merge(versioned, opts),",
        f"        typ={answer},",
        "    )",
    ]
    if not eventual:
        lines.append(f'    return cast("{answer}", asked.value)')
    return "\n".join(lines) + "\n"


def _parameter(wire: str, kind: Any, function: Schema, *, eventual: bool) -> str:
    plain = input_type(kind)
    type_ = f"pulumi.Input[{plain}]" if eventual else plain
    optional = "" if wire in function["inputs"]["required"] else " | None = None"
    return f"    {to_snake(wire)}: {type_}{optional},"
