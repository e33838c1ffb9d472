"""GitHub-flavoured Markdown in which no foreign text can act.

Branch names, stack files, resources and error messages put words into a comment that many people
trust. All of it is shown in code: there GitHub and GitLab resolve no mention, no reference to an
issue, no link, no image and no HTML (https://github.github.com/gfm/#code-spans). What could end the
code (a backtick, the bar of a table, a line break) is spelled out, and so is what a terminal would
obey.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pulumi_plugin.printable import printable

#: In place of what there is not.
NONE = "none"
#: Characters of a foreign text that are shown; what is longer ends in an ellipsis.
LONGEST_CODE = 160
_LONGEST_BLOCK = 6_000
_SPELLED = {ord("`"): "\\x60", ord("|"): "\\x7c"}


def code(text: str, *, longest: int = LONGEST_CODE) -> str:
    """``text`` as a code span, for anywhere in a line or a table; ``none`` for an empty one."""
    shown = shortened(printable(text), longest).translate(_SPELLED)
    return f"`{shown}`" if shown.strip() else NONE


def code_block(text: str, *, longest: int = _LONGEST_BLOCK) -> str:
    """``text`` as a block of code, with its line breaks."""
    shown = shortened(printable(text, lines=True), longest).replace("`", "\\x60").rstrip()
    return f"```text\n{shown}\n```"


def shortened(text: str, longest: int) -> str:
    """``text``, or its beginning with an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def alert(kind: str, *lines: str) -> str:
    """A box that stands out (https://github.com/orgs/community/discussions/16925); a quotation
    elsewhere.

    Args:
        kind: ``CAUTION``, ``WARNING`` or ``NOTE``.
        lines: Markdown, each a line of its own.
    """
    return "\n".join([f"> [!{kind}]", *(f"> {line}  " for line in lines)]).rstrip()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
