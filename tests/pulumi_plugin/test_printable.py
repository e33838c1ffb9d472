"""What is shown of foreign text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_plugin.printable import is_printable, printable

ANYTHING = st.text(st.characters())  # surrogates included


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\x7fb\x08c\rd", r"a\x7fb\x08c\x0dd"),
        ("\u202etxt.exe\u2066", r"\u202etxt.exe\u2066"),
        ("a\u200bb\ufeffc\u2028d", r"a\u200bb\ufeffc\u2028d"),
        ("hi\U000e0041", r"hi\U000e0041"),
        ("\ud83d", r"\ud83d"),
        ("\u3164\uffa0", r"\u3164\uffa0"),
        ("one\ntwo\tthree", r"one\x0atwo\x09three"),
    ],
)
def test_spells_out(text: str, shown: str) -> None:
    """Control, bidirectional and invisible characters are spelled as in a string literal."""
    assert printable(text) == shown
    assert not is_printable(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text, [link=x] and \\x1b as six letters",
        "Grüße, 東京 “quoted” … 100 €",
        "\u2764\ufe0f\u200d\U0001f525 \U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a joiner that belongs
        "a\u00a0b\u0301",
    ],
)
def test_leaves_alone(text: str) -> None:
    """What people write in any script stays as it is, emoji with their joiners included."""
    assert printable(text) == text
    assert is_printable(text)


def test_joiners_in_a_row() -> None:
    """Joiners and selectors carry hidden text only where they follow each other."""
    assert printable("a\u200d\u200d\u200cb") == r"a" + "\u200d" + r"\u200d\u200cb"
    assert printable("\ufe0fa\ufe0f\ufe01") == r"\ufe0fa" + "\ufe0f" + r"\ufe01"


def test_lines() -> None:
    """Line breaks and tabs stay where they are asked for; a lone carriage return never does."""
    assert printable("a\r\n\tb\rc", lines=True) == "a\n\tb\\x0dc"


def test_pieces() -> None:
    """A text in pieces is shown as the whole is."""
    family = "\U0001f468\u200d\U0001f469"
    assert printable("\u200d\U0001f469", after=family[0]) == family[1:]


@given(ANYTHING, st.booleans())
def test_shows_everything_and_obeys_nothing(text: str, lines: bool) -> None:
    """Whatever the text: no control is left, nothing is lost, and twice is as good as once."""
    shown = printable(text, lines=lines)

    left = {letter for letter in shown if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")}
    formats = {letter for letter in shown if unicodedata.category(letter) == "Cf"}
    assert left <= ({"\n", "\t"} if lines else set())
    assert formats <= {"\u200c", "\u200d"}
    assert len(shown) >= len(text.replace("\r\n", "\n"))
    assert printable(shown, lines=lines) == shown
    shown.encode()


@given(ANYTHING, st.integers(0, 30))
def test_a_cut_changes_nothing(text: str, cut: int) -> None:
    """Cutting a line anywhere gives the same as showing it whole."""
    head, tail = text[:cut], text[cut:]

    assert printable(head) + printable(tail, after=head) == printable(text)
