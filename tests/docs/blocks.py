"""The fenced blocks of README and of the pages of docs/, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(
        page
        for page in (ROOT / "docs").rglob("*.md")
        if not page.relative_to(ROOT / "docs").parts[0].startswith("_")
    ),
]
_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>(?:not run|example): [^\n]*?) -->\n)?"
    r"```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_SUBSTITUTED = re.compile(r"\$\((?!\()([^()]*)\)")
_ENDS_A_COMMAND = frozenset({"|", "||", "&&", ";", "&", "(", ")"})
_INLINE = re.compile(r"(?<![`\w])`(tpuflex [^`\n]+(?:\n[^`\n]+)?)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        page: the page's path in the project.
        line: its number.
        language: what stands behind the fence; empty if nothing does.
        text: what is between the fences.
        mark: what the comment above says, ``not run: REASON`` or ``example: FILE``; may be empty.
    """

    page: str
    line: int
    language: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def lines(self) -> list[str]:
        """The lines of a block of shell, without comments and doubled spaces."""
        return lines_of_shell(self.text)

    def commands(self) -> list[list[str]]:
        """The words of each command of a block of shell, those in ``$(…)`` among them."""
        found: list[list[str]] = []
        for line in self.text.replace("\\\n", " ").splitlines():
            for inner in _SUBSTITUTED.findall(line):
                found.extend(split_commands(inner))
            found.extend(split_commands(_SUBSTITUTED.sub("SUBSTITUTED", line)))
        return found


def lines_of_shell(text: str) -> list[str]:
    """The lines of ``text``, each of one command or several, without comments."""
    lines = text.replace("\\\n", " ").splitlines()
    return [" ".join(line.partition(" #")[0].split()) for line in lines]


def blocks(*languages: str) -> list[Block]:
    """The blocks in these languages."""
    return [block for page in PAGES for block in _blocks(page) if block.language in languages]


def inline_commands() -> Iterator[tuple[str, str]]:
    """Each command of tpuflex within a sentence, with its page."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for found in _INLINE.findall(text):
            yield str(page.relative_to(ROOT)), " ".join(found.split())


def split_commands(line: str) -> Iterator[list[str]]:
    """The words of each command on a line of shell, without redirections and comments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    redirected = False
    for word in lexer:
        if word in _ENDS_A_COMMAND:
            if words:
                yield words
            words = []
        elif set(word) <= {"<", ">", "&"}:
            redirected = True
        elif redirected:
            redirected = False
        elif words or not re.fullmatch(r"[A-Za-z_]\w*=.*", word):
            words.append(word)
    if words:
        yield words


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _FENCE.finditer(text):
        yield Block(
            page=str(page.relative_to(ROOT)),
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=found["text"],
            mark=found["mark"] or "",
        )
