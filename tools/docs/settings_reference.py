"""The text of docs/settings.md, from the schema of stack files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tpuflex.settings.schema import schema_text

Schema = Mapping[str, Any]

_HEAD = """\
# Settings of a stack file

Generated from the settings model by `make docs`; do not edit. A stack file is
`stacks/Pulumi.STACK.yaml`; its keys stand under `config:`. Unknown keys, wrong types and impossible
values are refused, all at once, each with what to write instead.
[stack.schema.json](stack.schema.json) says the same to an editor. Files to begin with:
[stacks.md](stacks.md). What may stand in `Pulumi.yaml`, or in an environment of Pulumi ESC:
[configuration.md](configuration.md).

A duration is written as `7d`, `4h`, `90m` or `1h30m`. A setting without a default is required.
"""
_KINDS = {
    "string": "text",
    "integer": "number",
    "boolean": "`true` or `false`",
    "object": "map",
}
#: Defaults that the settings model computes from other settings, by path.
_COMPUTED = {"serving.compile_cache": "`bucket`"}
#: Sections that have a page of their own.
_ELSEWHERE = {"tpuflex:catalog": "Rows of the catalog: [catalog.md](catalog.md)."}


def settings_reference() -> str:
    """The document: a section for each key of a stack file."""
    schema = json.loads(schema_text())
    defs, config = schema["$defs"], schema["properties"]["config"]
    parts = [_HEAD]
    for key, value in config["properties"].items():
        needed = ", required" if key in config["required"] else ""
        parts.append(
            f"\n## {key}\n\n{_line(value['description'])} ({_kind(value, defs)}{needed})\n"
        )
        if key in _ELSEWHERE:
            parts.append(f"\n{_ELSEWHERE[key]}\n")
        elif (section := _section(value, defs)) is not None:
            parts.extend(_tables(section, key.removeprefix("tpuflex:"), defs))
    return "".join(parts)


def _tables(section: Schema, path: str, defs: Schema) -> Iterator[str]:
    """A table of the fields of ``section``, then those of the sections within it."""
    required = section.get("required", ())
    yield "\n| setting | is | default | meaning |\n|---|---|---|---|\n"
    within = []
    for name, field in section["properties"].items():
        default = "-" if name in required else _default(field.get("default"))
        default = _COMPUTED.get(f"{path}.{name}", default)
        inner = _section(field, defs)
        if inner is not None:
            of_names = ".NAME" if _values(field) else ""
            within.append((f"{path}.{name}{of_names}", inner))
            default = "below"
        meaning = _line(field.get("description", "")) or _line((inner or {}).get("description", ""))
        yield f"| `{name}` | {_kind(field, defs)} | {default} | {meaning} |\n"
    for inner_path, inner in within:
        yield f"\n### {inner_path}\n\n{_line(inner['description'])}\n"
        yield from _tables(inner, inner_path, defs)


def _section(field: Schema, defs: Schema) -> Schema | None:
    """The object that ``field`` is, or that it is a list or a map of; None if it is none."""
    for part in (field, field.get("items", {}), *_values(field), *field.get("anyOf", ())):
        if "$ref" in part:
            found: Schema = defs[part["$ref"].rpartition("/")[2]]
            return found if "properties" in found else None
    return None


def _values(field: Schema) -> tuple[Schema, ...]:
    """What a map with sections has by its names."""
    values = (field.get("additionalProperties"), *field.get("patternProperties", {}).values())
    return tuple(each for each in values if isinstance(each, dict) and "$ref" in each)


def _kind(field: Schema, defs: Schema) -> str:
    """What a value of ``field`` looks like."""
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        kinds = (_kind(part, defs) for part in field["anyOf"] if part.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))
    if "$ref" in field:
        named = defs[field["$ref"].rpartition("/")[2]]
        return "section" if "properties" in named else _kind(named, defs)
    if field.get("type") == "array":
        return f"list of {_plural(_kind(field['items'], defs))}"
    if _values(field):
        return "sections by name"
    if "90m" in field.get("examples", ()):
        return "duration"
    kind = str(field.get("type", "any value"))
    return _KINDS.get(kind, kind) + _range(field)


def _plural(kind: str) -> str:
    plural = {"text": "texts", "section": "sections", "number": "numbers"}.get(kind, kind)
    return plural.replace("list of", "lists of")


def _range(field: Schema) -> str:
    least, most = field.get("minimum"), field.get("maximum")
    if least is None and most is None:
        return ""
    return f" {least if least is not None else ''}..{most if most is not None else ''}"


def _default(value: object) -> str:
    if value is None or value in ({}, []):
        return "none"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _line(text: str) -> str:
    """``text`` on one line, as a cell of a table."""
    return " ".join(text.replace("``", "`").split()).replace("|", "\\|")
