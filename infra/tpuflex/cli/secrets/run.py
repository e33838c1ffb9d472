"""What `tpuflex secrets put` reads from standard input."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tpuflex.naming import SecretRole


def read_value(role: SecretRole) -> str:
    """The value of a secret: prompted for without echo, or read from standard input.

    An API key may have several lines, a key on each.

    """
    if sys.stdin.isatty():
        value = click.prompt(f"Value of {role}", hide_input=True, err=True)
    else:
        value = sys.stdin.read()
    return str(value).removesuffix("\n")


def read_certificate_text() -> str:
    """A certificate with its key, from standard input.

    Raises:
        click.UsageError: standard input is a terminal.
    """
    if sys.stdin.isatty():
        raise click.UsageError("Give the PEM text on standard input: … < FILE")
    return sys.stdin.read()
