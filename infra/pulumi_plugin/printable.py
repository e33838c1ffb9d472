"""Foreign text made safe to show: nothing in it can act on a terminal, or hide from its reader.

A terminal obeys control characters: it renames its window, writes the clipboard, moves the cursor
over what stands there (ECMA-48; https://invisible-island.net/xterm/ctlseqs/ctlseqs.html).
Bidirectional controls show words in another order than a program reads them (CVE-2021-42574), and
invisible characters carry text that nobody sees. All of these are spelled out instead, as a Python
string literal would: ``\\x1b``, ``\\u202e``. Each character is judged alone, so a sequence that
arrives in pieces is as harmless as one that arrives whole.
"""

from __future__ import annotations

import unicodedata

#: Categories of https://www.unicode.org/reports/tr44/#General_Category_Values that are never
#: shown: control, format, surrogate, line separator, paragraph separator.
_NEVER_SHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

#: The other invisible characters: Default_Ignorable_Code_Point in
#: https://www.unicode.org/Public/17.0.0/ucd/DerivedCoreProperties.txt (2025-07-30).
_IGNORABLE = (
    range(0x034F, 0x0350),  # combining grapheme joiner
    range(0x115F, 0x1161),  # Hangul fillers
    range(0x17B4, 0x17B6),  # Khmer inherent vowels
    range(0x180B, 0x1810),  # Mongolian selectors and vowel separator
    range(0x200B, 0x2010),
    range(0x2060, 0x2070),
    range(0x3164, 0x3165),  # Hangul filler
    range(0xFE00, 0xFE10),  # variation selectors
    range(0xFFA0, 0xFFA1),  # halfwidth Hangul filler
    range(0xFFF0, 0xFFF9),
    range(0xE0000, 0xE1000),  # tags and variation selectors
)

#: GitHub takes `::error::` for a command also behind blanks.
_MARK = "  | "

#: Kept where they belong, after a visible character: emoji, Persian and Indic scripts need them.
_JOINERS = frozenset("\u200c\u200d")
_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))


def printable(text: str, *, lines: bool = False, after: str = "") -> str:
    """``text`` with everything spelled out that a terminal would obey or not show.

    What is printable already comes back as it is.

    Args:
        text: anything, lone surrogates included.
        lines: whether line breaks and tabs stay. Without it a foreign text cannot end its line,
            and so cannot pass for a message of ours.
        after: what was shown just before, where the text comes in pieces.
    """
    plain = text.replace("\n", "").replace("\t", "") if lines else text
    if plain.isascii() and plain.isprintable():
        return text
    if lines:
        text = text.replace("\r\n", "\n")
    shown = []
    before = after[-1:]
    for letter in text:
        kept = (lines and letter in "\n\t") or _is_shown(letter, before)
        shown.append(letter if kept else _spelled(letter))
        before = letter
    return "".join(shown)


def marked(text: str) -> str:
    """Foreign ``text``, printable, with a mark before each of its lines but the first, which
    follows words of ours: none passes for a message of ours, or for a command to the CI that shows
    it
    (https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands)."""
    return printable(text, lines=True).replace("\n", f"\n{_MARK}")


def is_printable(text: str) -> bool:
    """Whether ``text`` is one line that shows everything that it holds."""
    return printable(text) == text


def _is_shown(letter: str, before: str) -> bool:
    if letter in _SELECTORS:
        return _is_visible(before)
    if letter in _JOINERS:
        return _is_visible(before) or before in _SELECTORS
    return _is_visible(letter)


def _is_visible(letter: str) -> bool:
    """Whether ``letter`` has a shape or a width of its own."""
    if not letter or unicodedata.category(letter) in _NEVER_SHOWN:
        return False
    code = ord(letter)
    return not any(code in ignorable for ignorable in _IGNORABLE)


def _spelled(letter: str) -> str:
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
