"""A long text of another program keeps its beginning and its end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tpuflex.both_ends import both_ends, both_ends_of_lines


@given(st.text(), st.integers(min_value=10, max_value=200))
def test_a_text_has_both_ends_and_is_no_longer_than_allowed(text: str, longest: int) -> None:
    """What it is about stands first, and why it failed last; a short one is left alone."""
    shown = both_ends(text, longest)

    whole = text.strip()
    assert len(shown) <= longest
    if len(whole) <= longest:
        assert shown == whole
    else:
        assert shown.startswith(whole[:3].rstrip())
        assert shown.endswith(whole[-3:].lstrip())


def test_letters_and_lines() -> None:
    """The file that the error begins with, and the reason that it ends with."""
    lines = [f"line {number}" for number in range(20)]

    long = both_ends(f"error: Pulumi.dev.yaml{'x' * 500} denied", 60)
    assert long.startswith("error: Pulumi.dev.ya")
    assert long.endswith(" denied")
    assert both_ends_of_lines("\n".join(lines), first=1, last=2) == "line 0\n…\nline 18\nline 19"
    assert both_ends_of_lines("\n".join(lines[:3]) + "\n", first=1, last=2) == "\n".join(lines[:3])
    assert both_ends_of_lines("a\n\n\n\nb", first=1, last=1) == "a\nb"
    assert both_ends_of_lines("", first=1, last=1) == ""
