"""What the comment at the head of a stack file says about it: evidence, gaps, planned memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Labels of a head's paragraphs, in their order; `Planned` only where the planner has a plan.
SEEN, UNPROVEN, PLANNED = "Seen", "Unproven", "Planned"

_PARAGRAPH = re.compile(r"(Seen|Unproven|Planned): (.*)")


@dataclass(frozen=True, slots=True)
class StackHead:
    """The head of a stack file, unwrapped.

    Attributes:
        title: what the stack serves, and on what.
        seen: what was seen of it: by whom, where, when.
        unproven: what nobody has seen.
        planned: what the planner says of its memory; empty without a plan.
    """

    title: str
    seen: str
    unproven: str
    planned: str = ""


def stack_head(text: str) -> StackHead:
    """The head of the stack file ``text``.

    A paragraph begins with its label, and its other lines are indented:

        # Title.
        #
        # Seen: what was seen.
        #   More of it.

    Raises:
        ValueError: there is no title, or a paragraph is missing.
    """
    title, parts, current = "", {SEEN: "", UNPROVEN: "", PLANNED: ""}, ""
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comment = line.removeprefix("#").removeprefix(" ")
        if comment.startswith("yaml-language-server"):
            continue
        if begun := _PARAGRAPH.match(comment):
            current, words = begun.groups()
            parts[current] = words
        elif current and comment.startswith("  "):
            parts[current] += f" {comment.strip()}"
        else:
            current = ""
            title = title or comment
    if not (title and parts[SEEN] and parts[UNPROVEN]):
        raise ValueError("write a title, and paragraphs that begin with Seen: and Unproven:")
    return StackHead(title, parts[SEEN], parts[UNPROVEN], parts[PLANNED])
