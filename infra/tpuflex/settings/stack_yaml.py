"""YAML with the line number of each key, and the keys that occur twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

from tpuflex.errors import Finding
from tpuflex.settings.plain import join

_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document.

    Attributes:
        value: the content of the document.
        lines: line number of each key, by its dotted path.
        repeated: keys that occur twice in one section; YAML would silently keep the last.
    """

    value: object
    lines: dict[str, int] = field(default_factory=dict)
    repeated: tuple[Finding, ...] = ()


def read_yaml(text: str) -> Document:
    """Read one YAML document.

    Raises:
        yaml.YAMLError: the text is not YAML.
        ValueError: a scalar cannot be read, such as a date with month 13.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None)
        lines: dict[str, int] = {}
        repeated: list[Finding] = []
        _note_lines(node, "", lines, repeated, 0)
        # A node may contain itself through an alias; the loader builds that too.
        return Document(loader.construct_document(node), lines, tuple(repeated))
    finally:
        loader.dispose()


def _note_lines(
    node: yaml.Node, path: str, lines: dict[str, int], repeated: list[Finding], depth: int
) -> None:
    if depth > _DEEPEST:
        return
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(item, f"{path}[{index}]", lines, repeated, depth + 1)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            continue
        name = str(key_node.value)
        line = key_node.start_mark.line + 1
        key = join(path, name) if path else name
        if name in seen:
            repeated.append(
                Finding(
                    key.removeprefix("config."),
                    f"is written twice (lines {seen[name]} and {line})",
                    "Remove one of them.",
                )
            )
        seen[name] = line
        lines[key.removeprefix("config.")] = line
        _note_lines(value_node, key, lines, repeated, depth + 1)
