"""The steps of `tpuflex secrets`: create the secret containers, read a value to put in."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tpuflex.errors import Finding, NotFoundError, SettingsError
from tpuflex.naming import SecretRole
from tpuflex.settings.secrets import existing_secret_setting, version_setting

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack


def ensure_containers(invocation: Invocation, cloud: Connection) -> None:
    """Make sure that the stack's secret containers exist, and are ours.

    They are Pulumi resources, so Pulumi creates them: an `up` of just these resources.

    Raises:
        AlreadyExistsError: somebody else has made them, or holds the stack's names.
        ConflictError: with what is missing others would be made anew, without their values.
        TpuflexError: the engine failed.
    """
    from tpuflex.deploy.apis import require_apis
    from tpuflex.deploy.ownership import require_free_names, require_own_containers
    from tpuflex.deploy.plan import require_no_secret_replaced
    from tpuflex.deploy.stack_run import SECRETS, StackRun

    require_apis(cloud, invocation.report, invocation.consent)
    if not cloud.stack.settings.secrets.versions:
        return
    stack_run = StackRun(cloud, invocation.report)
    require_own_containers(cloud, stack_run)
    try:
        for role in cloud.stack.settings.secrets.versions:
            cloud.secrets.list_versions(cloud.secret(role))
    except NotFoundError:
        plan = stack_run.preview_without_weights()
        require_no_secret_replaced(cloud.stack, plan)
        require_free_names(cloud, stack_run, plan, invocation.output.progress)
        invocation.output.progress("Creating the secret containers …")
        stack_run.up_part(SECRETS)


def require_role(stack: Stack, role: SecretRole) -> None:
    """Refuse a secret that is not the stack's own: it has no container.

    Raises:
        SettingsError: the stack file pins no version of it, or it is one of the user's own.
    """
    if (existing := stack.settings.secrets.existing.get(role)) is not None:
        finding = Finding(
            f"tpuflex:secrets.{existing_secret_setting(role)}",
            f"it is {existing.version}, a secret of yours, to which tpuflex adds nothing",
            "Add the version there, and write its number here; or remove the line for a secret of"
            " the stack's own.",
        )
        raise SettingsError(stack.file.name, (finding,))
    if role not in stack.settings.secrets.versions:
        finding = Finding(
            f"tpuflex:secrets.{version_setting(role)}",
            "is not set, so the stack has no such secret",
            f"Write {version_setting(role)}: 1.",
        )
        raise SettingsError(stack.file.name, (finding,))


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
