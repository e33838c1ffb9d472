"""YAML with the position of each key, and the keys that occur twice.

A checkout is not always one's own, so reading is bounded before anything is built: by the length
of the text, and by the values that it stands for once every alias is replaced by what it names
(ten aliases of ten aliases of ten … are a few hundred bytes and more values than memory holds).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from pulumi_plugin.credentials import REMOVED
from tpuflex.errors import Finding, Position

_DEEPEST = 32
#: Characters of a file. The stack files that come with the project have 2,000; the parser, which
#: is written in Python, takes 2 seconds for the worst that fits.
LONGEST = 128 * 1024
#: Values of a file with its aliases replaced.
MOST_VALUES = 20_000

#: Keys of a stack file whose values Pulumi has encrypted, or encrypts with.
_CIPHERTEXTS = ("secure", "encryptionsalt", "encryptedkey")
_IN_COMMENT = re.compile(rf"#.*?(?:{'|'.join(_CIPHERTEXTS)})['\"]?\s*:.*")

_WRITE_OUT = "Write the values out instead of using aliases."


class RefusedYamlError(ValueError):
    """YAML that is not read.

    Attributes:
        problem: what is wrong with it.
        remedy: what to do.
        position: where; None for the whole of it.
    """

    def __init__(self, problem: str, remedy: str, position: Position | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.position = position


def position_of(mark: yaml.Mark) -> Position:
    """The position at ``mark``."""
    return Position(mark.line + 1, mark.column + 1)


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document.

    Attributes:
        value: the content of the document.
        positions: where each key stands, by its dotted path.
        repeated: keys that occur twice in one section; YAML would silently keep the last.
    """

    value: object
    positions: dict[str, Position] = field(default_factory=dict)
    repeated: tuple[Finding, ...] = ()


def join(key: str, name: str) -> str:
    """``key.name``; the namespace ``tpuflex:``, and a document's top, take no dot."""
    return f"{key}{name}" if not key or key.endswith(":") else f"{key}.{name}"


def read_yaml(text: str) -> Document:
    """Read one YAML document.

    Raises:
        yaml.YAMLError: the text is not YAML.
        RefusedYamlError: it is too long, stands for too many values, is nested too deeply, or
            holds a value that cannot be read, such as a date with month 13.
    """
    if len(text) > LONGEST:
        raise RefusedYamlError(f"is longer than {LONGEST} characters", "Write it shorter.")
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None)
        _Values().count(node)
        keys = _Keys()
        keys.note(node, "", 0)
        return Document(loader.construct_document(node), keys.positions, tuple(keys.repeated))
    except RecursionError:
        raise RefusedYamlError("is nested too deeply", "Write it flat.") from None
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        # The loader's own, for values that do not fit their tags: `!!bool x`, `1:1:1…1.5`.
        if isinstance(error, RefusedYamlError):
            raise
        problem = "holds a value that cannot be read"
        raise RefusedYamlError(problem, "Write it in quotes.") from error
    finally:
        loader.dispose()


def without_ciphertexts(text: str) -> str:
    """A stack file to show to others: without what Pulumi has encrypted, or encrypts with. A text
    that cannot be read as YAML is withheld as a whole."""
    try:
        read_yaml(text)
        node = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RefusedYamlError):
        return "# Withheld: it cannot be read as YAML, so what is encrypted in it is not known.\n"
    shown, at = [], 0
    for begin, end in sorted(_ciphertext_spans(node)) if node is not None else ():
        if begin >= at:  # not within the one before
            line_end = "\n" if text[end - 1] == "\n" else ""  # of a text of several lines
            shown += [text[at:begin], REMOVED, line_end]
            at = end
    return _IN_COMMENT.sub(f"# {REMOVED}", "".join((*shown, text[at:])))


def _ciphertext_spans(root: yaml.Node) -> Iterator[tuple[int, int]]:
    """Where the values of such keys begin and end, each once; of an alias, where its anchor is."""
    left, seen = [root], set()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        hidden = (
            {id(value) for key, value in node.value if key.value in _CIPHERTEXTS}
            if isinstance(node, yaml.MappingNode)
            else set()
        )
        for each in _children(node):
            if id(each) in hidden:
                seen.add(id(each))
                yield each.start_mark.index, each.end_mark.index
            else:
                left.append(each)


class _Values:
    """How many values nodes stand for, each node counted once however often it is named."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._open: set[int] = set()

    def count(self, node: yaml.Node) -> int:
        """The values in ``node``, itself included."""
        key, position = id(node), position_of(node.start_mark)
        if key in self._open:
            raise RefusedYamlError("contains itself through an alias", _WRITE_OUT, position)
        if key not in self._counts:
            self._open.add(key)
            self._counts[key] = 1 + sum(map(self.count, _children(node)))
            self._open.remove(key)
        if self._counts[key] > MOST_VALUES:
            problem = f"stands for more than {MOST_VALUES} values"
            raise RefusedYamlError(problem, _WRITE_OUT, position)
        return self._counts[key]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


class _Keys:
    """The keys of a document: where they stand, and those that occur twice."""

    def __init__(self) -> None:
        self.positions: dict[str, Position] = {}
        self.repeated: list[Finding] = []

    def note(self, node: yaml.Node, path: str, depth: int) -> None:
        """Note the keys of ``node``, which stands at ``path``."""
        if depth > _DEEPEST:
            return
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                member = f"{path}[{index}]"
                self._place(member, item)
                self.note(item, member, depth + 1)
        if not isinstance(node, yaml.MappingNode):
            return
        seen: dict[str, Position] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            name = str(key_node.value)
            key = join(path, name)
            position = self._place(key, key_node)
            if name in seen:
                problem = f"is written twice, first in line {seen[name].line}"
                found = Finding(_of_config(key), problem, "Remove one of them.", position)
                self.repeated.append(found)
            seen[name] = position
            self.note(value_node, key, depth + 1)

    def _place(self, key: str, node: yaml.Node) -> Position:
        """Note where ``key`` stands."""
        position = self.positions[_of_config(key)] = position_of(node.start_mark)
        return position


def _of_config(key: str) -> str:
    return key.removeprefix("config.")
