"""The head of a stack file: title, what was seen, what is unproven, what is planned."""

from __future__ import annotations

import pytest

from tools.docs.stacks_reference import StackHead, stack_head

HEAD = """\
# yaml-language-server: $schema=../docs/stack.schema.json
# A model on a chip.
#
# Seen: once,
#   on a Tuesday.
# Unproven: the rest.
# Planned: 1,000 tokens.
#
# Seen by nobody: this is an ordinary comment,
#   and so is this.
config:
  # Seen: not at the head.
"""


def test_paragraphs_are_unwrapped() -> None:
    """A paragraph goes on as long as its lines are indented; other comments belong to none."""
    assert stack_head(HEAD) == StackHead(
        "A model on a chip.", "once, on a Tuesday.", "the rest.", "1,000 tokens."
    )


@pytest.mark.parametrize("label", ["Seen", "Unproven"])
def test_a_missing_paragraph_is_refused(label: str) -> None:
    """A stack without evidence, or without saying what is unproven, is an error."""
    with pytest.raises(ValueError, match="Unproven:"):
        stack_head(HEAD.replace(f"# {label}: ", f"# {label}? "))


def test_a_plan_is_optional() -> None:
    """Models that the planner has no rule for have no planned memory."""
    assert stack_head(HEAD.replace("# Planned: ", "# Guessed: ")).planned == ""
