"""Why a copy ended: a code for the command line, and a line for people."""

from __future__ import annotations

from typing import Literal, get_args

#: Who must act, and on what. The command line has the words for each.
Code = Literal[
    "hub-refused",  # gated, private, gone, or a token that is not enough
    "hub-unreachable",
    "hub-content",  # what came is not what the Hub lists
    "source-refused",  # the bucket that the files come from, or one of its objects, is not let read
    "source-unreachable",
    "source-content",  # what came is not what the bucket lists
    "source-changed",  # a file was replaced or deleted since it was listed
    "token",  # the secret with the Hub's token cannot be read
    "storage-refused",  # the bucket that they go to
    "storage-unreachable",
    "conflict",  # somebody else is writing the same weights
    "in-the-way",  # what is there already, and may not be replaced
    "not-pinned",  # not the weights that the stack file pins
    "internal",
]
CODES: tuple[Code, ...] = get_args(Code)


class CopyError(Exception):
    """The copy cannot go on.

    Args:
        code: what it is about.
        text: a line that names file and status; never an answer's body, never a token.
    """

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code: Code = code
        self.text = text
