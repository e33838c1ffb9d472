"""`tpuflex secrets …`: the endpoint's secrets in Secret Manager."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import (
    Commands,
    as_json,
    assume_yes,
    endpoint_name,
    pass_invocation,
    stack_name,
)
from tpuflex.naming import MADE_SECRET_ROLES, SECRET_ROLES, TLS_CERTIFICATE, SecretRole
from tpuflex.settings.secrets import version_setting

if TYPE_CHECKING:
    from tpuflex.deploy.secrets import AddedVersion


@click.group(
    cls=Commands,
    examples=(
        "tpuflex --stack prod secrets ls",
        "tpuflex --stack prod secrets rotate api-key",
    ),
)
def secrets() -> None:
    """The endpoint's secrets in Secret Manager.

    Values go straight there, never through Pulumi, its state, or a command line.
    """


@secrets.command(
    examples=("tpuflex --stack prod secrets ensure",),
)
@stack_name
@endpoint_name
@assume_yes
@pass_invocation
def ensure(invocation: Invocation) -> None:
    """Create the keys of the pinned versions if they do not exist: API key, metrics key, and the
    key for compiled programs.

    APIs of the project that are off are enabled, on Google after a question.
    """
    from tpuflex.deploy.secrets import ensure_secrets

    cloud = invocation.connect(invocation.open_deployed(wrong_file=False))
    ensure_secrets(cloud, invocation.report, consent=invocation.consent)
    invocation.output.result("Every secret version that the stack names exists.")


@secrets.command(
    examples=(
        "tpuflex secrets put api-key --yes < keys.txt  # a line for each client",
        "cat server.pem key.pem | tpuflex secrets put tls-certificate --yes",
    ),
)
@click.argument("role", type=click.Choice(SECRET_ROLES))
@stack_name
@endpoint_name
@as_json
@assume_yes
@pass_invocation
def put(invocation: Invocation, role: SecretRole) -> None:
    """Add a version of a secret; the value is read from standard input.

    On a terminal the value is prompted for without echo. An api-key may have several lines, a key
    for a client on each; tpuflex itself uses the first. A certificate is one PEM text with its
    private key, and is checked. What is to be used is the version that the stack file pins.

    Works before the first `up`: Pulumi then creates the secret's container, with everything that it
    needs. APIs of the project that are off are enabled, on Google after a question: where the value
    comes from a pipe, add --yes.
    """
    from tpuflex.deploy.secrets import put_secret, require_own_secret, require_value

    stack = invocation.open_deployed(wrong_file=False)
    require_own_secret(stack, role)
    value = read_certificate_text() if role == TLS_CERTIFICATE else read_value(role)
    require_value(role, value, invocation.now())
    cloud = invocation.connect(stack)
    added = put_secret(cloud, role, value, invocation.report, consent=invocation.consent)
    _show_added(invocation, role, added)


@secrets.command(
    examples=("tpuflex --stack prod secrets rotate api-key",),
)
@click.argument("role", type=click.Choice(MADE_SECRET_ROLES))
@click.option(
    "--expect",
    type=click.IntRange(1),
    metavar="VERSION",
    help="Go on only if the new version gets this number; otherwise nothing is added, and the exit"
    " code is 12.",
)
@stack_name
@endpoint_name
@as_json
@assume_yes
@pass_invocation
def rotate(invocation: Invocation, role: SecretRole, expect: int | None) -> None:
    """Add a version of a secret with a new random key, which is not shown.

    Nothing changes for hosts and clients until the stack file has its number and `tpuflex up` has
    given it to a host: the old key is good until then. An api-key with several lines is not
    rotated: a new key would take those of all clients back.
    """
    from tpuflex.deploy.secrets import rotate_secret

    cloud = invocation.connect(invocation.open_deployed(wrong_file=False), start=False)
    added = rotate_secret(cloud, role, consent=invocation.consent, expected=expect)
    _show_added(invocation, role, added)


def _show_added(invocation: Invocation, role: SecretRole, added: AddedVersion) -> None:
    number = added.version.number
    invocation.output.document(added.to_json())
    invocation.output.result(
        f"Added version {number} of {role}. The stack file chooses it with "
        f"tpuflex:secrets.{version_setting(role)}: {number}"
    )


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


@secrets.command(
    examples=(
        "tpuflex --stack prod secrets ls",
        "tpuflex --stack prod secrets ls --json",
    ),
)
@stack_name
@endpoint_name
@as_json
@pass_invocation
def ls(invocation: Invocation) -> None:
    """List the secrets' versions, never their values."""
    from tpuflex.deploy.secrets import list_secrets

    cloud = invocation.connect(invocation.open_deployed(wrong_file=False), start=False)
    found = list_secrets(cloud)
    invocation.output.document([each.to_json() for each in found])
    invocation.output.table(
        ("SECRET", "VERSION", "STATE"),
        [(each.role, str(each.number), each.state) for each in found],
    )
