"""The stacks that come with tpuflex, as starting points of one's own."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuflex.errors import NotFoundError
from tpuflex.project import stack_names_in
from tpuflex.settings.model import NAMESPACE, PLACEHOLDER_PROJECT
from tpuflex.settings.stack_text import ABOUT_SALT
from tpuflex.settings.stack_yaml import read_yaml

_DIRECTORY = Path(__file__).parents[1] / "stacks"
_SCHEMA_LINE = re.compile(r"\A# yaml-language-server: \$schema=.*\n")
_HEAD = re.compile(r"(?:#.*\n)*")
#: The stack that runs on the embedded cloud.
EMBEDDED = "dev"


@dataclass(frozen=True, slots=True)
class ShippedStack:
    """A stack that comes with tpuflex.

    Attributes:
        name: its name.
        text: the text of its file.
    """

    name: str
    text: str

    @property
    def sections(self) -> dict[str, Any]:
        """Its sections, as :func:`tpuflex.settings.load.parse` takes them."""
        document = read_yaml(self.text).value
        config = document["config"] if isinstance(document, dict) else {}
        return {str(key).removeprefix(NAMESPACE): value for key, value in config.items()}

    @property
    def heading(self) -> tuple[str, ...]:
        """What it says of itself at its head: what was seen, and what is unproven."""
        head = _HEAD.match(_SCHEMA_LINE.sub("", self.text))
        lines = head[0].splitlines() if head else []
        texts = (line.removeprefix("#").removeprefix(" ") for line in lines if line != ABOUT_SALT)
        return tuple(texts)

    def text_for(self, project: str, schema: str | None) -> str:
        """Its text for the Google Cloud project ``project``, with the schema at ``schema``."""
        text = _SCHEMA_LINE.sub("", self.text).replace(PLACEHOLDER_PROJECT, project)
        return text if schema is None else f"# yaml-language-server: $schema={schema}\n{text}"


def shipped_names() -> tuple[str, ...]:
    """Names of the stacks that come with tpuflex, sorted."""
    return stack_names_in(_DIRECTORY)


def shipped_stack(name: str) -> ShippedStack:
    """The stack called ``name``.

    Raises:
        NotFoundError: none of that name comes with tpuflex; suggests the nearest.
    """
    known = shipped_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        suggestion = f"Did you mean {near[0]}? " if near else ""
        raise NotFoundError(
            f"No stack {name!r} comes with tpuflex.",
            hint=f"{suggestion}There are: {', '.join(known)}.",
        )
    text = (_DIRECTORY / f"Pulumi.{name}.yaml").read_text(encoding="utf-8")
    return ShippedStack(name, text)
