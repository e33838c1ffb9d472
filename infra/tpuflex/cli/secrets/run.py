"""What `tpuflex secrets put` reads from standard input."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.naming import SecretRole


def read_value(role: SecretRole) -> str:
    """The value of a secret: prompted for without echo, or read from standard input.

    An API key may have several lines, a key on each.

    Raises:
        click.UsageError: the value is empty, has characters that no key has, or too many lines.
    """
    if sys.stdin.isatty():
        value = click.prompt(f"Value of {role}", hide_input=True, err=True)
    else:
        value = sys.stdin.read()
    lines = str(value).removesuffix("\n").split("\n")
    if not all(lines):
        raise click.UsageError("The value must have lines that are not empty.")
    if not all("!" <= letter <= "~" for line in lines for letter in line):
        raise click.UsageError("The value may have visible ASCII characters only, and no spaces.")
    return "\n".join(lines)


def read_certificate_text(invocation: Invocation) -> str:
    """A certificate with its key, from standard input.

    Raises:
        SettingsError: a server could not use it.
        click.UsageError: standard input is a terminal.
    """
    from tpuflex.boot.certificate import read_certificate

    if sys.stdin.isatty():
        raise click.UsageError("Give the PEM text on standard input: … < FILE")
    pem = sys.stdin.read()
    read_certificate(pem, invocation.now())
    return pem
