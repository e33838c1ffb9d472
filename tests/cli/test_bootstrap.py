"""`tpuflex bootstrap`: what is refused before anything is asked."""

from __future__ import annotations

import pytest

from tests.cli.typing import TypeIn

NUMBERS = ("--owner-id", "1", "--repository-id", "2")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "Give --repository, --owner-id and --repository-id"),
        (("--repository", "acme/chat"), "gh api repos/OWNER/NAME"),
        (("--repository", "acme", *NUMBERS), "'acme' is no repository: write OWNER/NAME"),
        (("--repository", "acme/chat", *NUMBERS, "--environment", "a:b"), "no name of an envi"),
        (("--repository", "acme/chat", "--owner-id", "0"), "--owner-id"),
        (("--remove", "--repository", "acme/chat"), "--remove takes no repository"),
        (("--with-states",), "--with-states is for --remove"),
    ],
)
def test_usage(type_in: TypeIn, words: tuple[str, ...], problem: str) -> None:
    """A slip on the command line is refused by name, and no cloud is started."""
    typed = type_in("bootstrap", *words)

    assert typed.code == 2
    assert problem in typed.err
