"""The `tpuflex` command: its options, its commands by name, and the one handler of errors.

A command's module imports what it works with only when it runs, so that `tpuflex --help` does not
wait for Pulumi.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import Commands, as_json, assume_yes, stack_name, verbose
from tpuflex.errors import InterruptedByUser, TpuflexError

#: The commands in the order in which they are used; each is a module of this package.
COMMANDS = (
    "up",
    "preview",
    "status",
    "ask",
    "down",
    "recover",
    "sweep",
    "weights",
    "secrets",
    "render",
    "engine",
    "emulator",
    "demo",
)


class LazyCommands(Commands):
    """The group of all commands, each imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command ``cmd_name``; None when there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tpuflex.cli.{cmd_name}")
        command = getattr(module, cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"tpuflex.cli.{cmd_name} defines no command {cmd_name}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown name, suggest the nearest."""
        name = args[0] if args else ""
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-C",
    "--project-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Directory of the project, or one below it.  [default: the current directory]",
)
@stack_name
@as_json
@assume_yes
@verbose
@click.version_option(package_name="tpuflex", message="%(prog)s %(version)s")
@click.pass_context
def tpuflex(ctx: click.Context, project_dir: Path) -> None:
    """A private, cost-bounded vLLM endpoint on Cloud TPU Flex-start capacity.

    Reads stacks/Pulumi.STACK.yaml. The dev stack runs on the embedded cloud and needs no
    account; start with `tpuflex up`.
    """
    ctx.ensure_object(Invocation).directory = project_dir


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the code of the outcome."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None, invocation: Invocation | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: the words after ``tpuflex``; those of the process by default.
        invocation: environment and clock; those of the process by default.

    This is the only place that catches a TpuflexError: its message and its hint go to
    standard error, and its class gives the exit code.
    """
    invocation = invocation or Invocation(environ=dict(os.environ))
    try:
        outcome = tpuflex.main(
            arguments, prog_name="tpuflex", standalone_mode=False, obj=invocation
        )
        return outcome if isinstance(outcome, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return invocation.output.failure(InterruptedByUser("Interrupted."))
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nothing to report.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except TpuflexError as error:
        return invocation.output.failure(error)
