"""Beginning and end of what another program said at length: what it is about stands first, and
why it failed last. Pure."""

from __future__ import annotations

#: In place of what is left out.
_GAP = "…"


def both_ends(text: str, longest: int) -> str:
    """``text``, or its beginning and its end, at most ``longest`` letters."""
    text = text.strip()
    if len(text) <= longest:
        return text
    first = longest // 3
    return f"{text[:first].rstrip()} {_GAP} {text[-(longest - first - 3) :].lstrip()}"


def both_ends_of_lines(text: str, *, first: int, last: int) -> str:
    """``text``, or its ``first`` lines and its ``last``, which hold no empty ones then."""
    lines = text.strip().splitlines()
    if len(lines) <= first + last:
        return "\n".join(lines)
    lines = [line for line in lines if line.strip()]
    if len(lines) <= first + last:
        return "\n".join(lines)
    return "\n".join((*lines[:first], _GAP, *lines[-last:]))
