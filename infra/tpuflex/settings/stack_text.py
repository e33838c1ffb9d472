"""The text of a stack file, with comments, from its sections. Pure: no file is written.

What is written here reads back as the same settings (:func:`tpuflex.settings.load.parse` of the
sections, and :func:`tpuflex.settings.load.load_stack_file` of the text).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import yaml

from pulumi_plugin.printable import printable
from tpuflex.errors import SettingsError
from tpuflex.settings.model import NAMESPACE
from tpuflex.settings.plain import JsonValue, make_plain
from tpuflex.settings.stack_yaml import join

#: For the passphrase `tpuflex-embedded`, which everybody knows: the engine wants a salt in the
#: file of each stack, and writes one if there is none. Nothing in a stack is secret.
EMBEDDED_SALT = "v1:d4whmWDvQtU=:v1:QSkaC9msNTiWOzQs:D716H//hGnRnLbOqgRINrSbesjn9XA=="
ABOUT_SALT = (
    "# For the passphrase tpuflex-embedded. Nothing in this stack is secret; the engine wants one."
)
#: `tpuflex:serving`, `flags`, `max_model_len`.
_DEPTH_OF_SETTINGS = 3
#: A longer key is not seen as one (https://yaml.org/spec/1.2.2/#rule-ns-s-implicit-yaml-key);
#: YAML's own writer marks it, in a mapping that it writes whole.
_LONGEST_KEY = 1000
#: Wider than any value: a value stays on the line of its key.
_ONE_LINE = 1 << 20


def stack_text(
    sections: Mapping[str, object],
    heading: Sequence[str] = (),
    *,
    comments: Mapping[str, Sequence[str]] | None = None,
    schema: str | None = None,
) -> str:
    """The text of ``Pulumi.<stack>.yaml``.

    Args:
        sections: ``cloud``, ``project``, ``slice``, ``model``, ``serving`` and so on; values as in
            a stack file, or settings objects, as for :func:`tpuflex.settings.load.parse`. A setting
            of None, or an empty section, is left out.
        heading: lines of the comment at the head, without ``#``.
        comments: lines of the comment above a key, by the key's path without namespace, such as
            ``serving.flags.max_num_seqs``; a path that the sections do not have is an error.
        schema: path of the JSON Schema for editors, relative to the file's directory.

    Raises:
        SettingsError: a value cannot stand in a stack file.
        KeyError: a comment belongs to no key.
    """
    plain, problems = make_plain(sections, NAMESPACE)
    if problems or not isinstance(plain, dict):
        raise SettingsError("the new stack file", tuple(problems))
    remarks = dict(comments or {})
    body = list(_lines(_without_empty(plain, 1), "", 1, remarks))
    if remarks:
        raise KeyError(f"no key {', '.join(remarks)} in the sections")
    head = [] if schema is None else [f"# yaml-language-server: $schema={_harmless(schema)}"]
    head += _comment(heading, 0)
    if plain.get("cloud") == "embedded":
        head += [ABOUT_SALT, f"encryptionsalt: {EMBEDDED_SALT}"]
    return "\n".join([*head, "config:", *body]) + "\n"


def _lines(
    section: Mapping[str, JsonValue],
    path: str,
    depth: int,
    comments: dict[str, Sequence[str]],
) -> Iterator[str]:
    """The lines of ``section``; the comments that were written are taken out of ``comments``."""
    indent = "  " * depth
    for name, value in section.items():
        key = join(path, name)
        yield from _comment(comments.pop(key, ()), depth)
        written = f"{NAMESPACE}{name}" if depth == 1 else _scalar(name)
        if (
            isinstance(value, dict)
            and value
            and all(len(_scalar(n)) <= _LONGEST_KEY for n in value)
        ):
            yield f"{indent}{written}:"
            yield from _lines(value, key, depth + 1, comments)
        else:
            yield f"{indent}{written}: {_scalar(value)}"


def _comment(lines: Sequence[str], depth: int) -> list[str]:
    return [f"{'  ' * depth}# {_harmless(line)}".rstrip() for line in lines]


def _harmless(text: str) -> str:
    """``text`` for a comment: nothing in it can end the comment, or is refused in YAML."""
    return yaml.reader.Reader.NON_PRINTABLE.sub("\N{REPLACEMENT CHARACTER}", printable(text))


def _scalar(value: JsonValue) -> str:
    """``value`` on one line of YAML; lists and what is in them in flow style."""
    for style in (None, '"'):  # only within double quotes are line breaks always spelled out
        text: str = yaml.safe_dump(
            value,
            default_style=style,
            default_flow_style=True,
            sort_keys=False,
            width=_ONE_LINE,
        )
        text = text.removesuffix("\n").removesuffix("\n...")
        if "\n" not in text:
            break
    return text


def _without_empty(section: Mapping[str, JsonValue], depth: int) -> dict[str, JsonValue]:
    """``section`` without what says nothing: None, and sections in which nothing is left.

    What lies deeper than settings do is a value of vLLM's, and stays as it is.
    """
    kept: dict[str, JsonValue] = {}
    for name, value in section.items():
        inner = value
        if isinstance(value, dict) and depth < _DEPTH_OF_SETTINGS:
            inner = _without_empty(value, depth + 1)
        if inner is not None and inner != {}:
            kept[name] = inner
    return kept
