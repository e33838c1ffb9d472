"""`tpuflex completion`: what makes a shell complete the command line on TAB."""

from __future__ import annotations

import contextlib
import io

import click

from tpuflex.cli.examples import ExampleCommand

#: What a shell sets when it asks for the script, or for what to offer; click's name for it.
VARIABLE = "_TPUFLEX_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command(
    cls=ExampleCommand,
    examples=(
        'eval "$(tpuflex completion bash)"  # in ~/.bashrc',
        'eval "$(tpuflex completion zsh)"  # in ~/.zshrc, below compinit',
        "tpuflex completion fish > ~/.config/fish/completions/tpuflex.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes a shell complete commands, options and values on TAB.

    Values are stacks of the project, zones, accelerator types, models and images of the catalog,
    and whatever an option gives a choice of. Asks no cloud. bash has to be 4.4 or later.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click completes nothing in {shell}.")
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "tpuflex", VARIABLE).source())


def answer_shell(root: click.Group) -> int:
    """Answer a shell that asks what to offer; it is told nothing rather than an error, which would
    stand in the middle of what is being typed.

    Returns:
        the exit code.
    """
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            root.main([], prog_name="tpuflex", complete_var=VARIABLE)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except (Exception, KeyboardInterrupt):
        return 1
    return 1
