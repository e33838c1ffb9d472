"""What a client writes to standard input: lines of JSON, each of which can be read.

The SDK drops a line that it cannot read, and its client would wait for an answer that never comes.
"""

from __future__ import annotations

import os
import re

import anyio

#: An escaped backslash, a pair of surrogates, or half of one, which is the group.
_ESCAPED = re.compile(
    r"\\\\|\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(\\u[dD][89a-fA-F][\da-fA-F]{2})"
)


class _Lines(anyio.AsyncFile[str]):
    async def readline(self) -> str:
        return readable(await super().readline())


def readable(line: str) -> str:
    """``line`` of JSON with the replacement character for half a surrogate pair, which is no
    text."""
    return _ESCAPED.sub(lambda found: r"\ufffd" if found[1] else found[0], line)


def claimed_input() -> anyio.AsyncFile[str]:
    """Standard input, which nothing else in this process and no child of it reads any more."""
    own = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # A thread may still read it when the server ends: it is not closed.
    return _Lines(os.fdopen(own, encoding="utf-8", errors="replace", closefd=False))
