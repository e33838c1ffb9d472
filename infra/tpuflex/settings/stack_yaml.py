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
        keys = _Keys()
        keys.note(node, "", 0)
        # A node may contain itself through an alias; the loader builds that too.
        return Document(loader.construct_document(node), keys.lines, tuple(keys.repeated))
    finally:
        loader.dispose()


class _Keys:
    """The keys of a document: their lines, and those that occur twice."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.repeated: list[Finding] = []

    def note(self, node: yaml.Node, path: str, depth: int) -> None:
        """Note the keys of ``node``, which stands at ``path``."""
        if depth > _DEEPEST:
            return
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.note(item, f"{path}[{index}]", depth + 1)
        if not isinstance(node, yaml.MappingNode):
            return
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            name = str(key_node.value)
            line = key_node.start_mark.line + 1
            key = join(path, name) if path else name
            full = key.removeprefix("config.")
            if name in seen:
                problem = f"is written twice (lines {seen[name]} and {line})"
                self.repeated.append(Finding(full, problem, "Remove one of them."))
            seen[name] = line
            self.lines[full] = line
            self.note(value_node, key, depth + 1)
