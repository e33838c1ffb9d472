"""The `tpuflex` command: its options, its commands by name, and the one handler of errors.

Commands are imported when they are run, so that `tpuflex --help` does not pay for Pulumi.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import sys
import traceback
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pulumi_plugin.printable import printable
from tpuflex.cli.examples import ExampleGroup
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, stack_name, verbose
from tpuflex.errors import InterruptedByUser, TpuflexError, reported
from tpuflex.terminal.output import usage_document

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: What a shell sets when it asks what to offer on TAB.
_COMPLETE = "_TPUFLEX_COMPLETE"

#: name -> (module, short help). The short help is the first line of the command's docstring;
#: a test compares the two.
COMMANDS = {
    "init": (
        "project.command",
        "Make a new project, or a new stack in this one, by questions or options.",
    ),
    "validate": (
        "plan.command",
        "Check stack files, and print each finding with file, line and column.",
    ),
    "recommend": (
        "plan.command",
        "Rank chips for a model and a load, with price, limits and evidence.",
    ),
    "memory": (
        "plan.command",
        "Show what a chip's memory will hold, and whether the model fits.",
    ),
    "catalog": (
        "plan.command",
        "Show what is known of accelerators, zones, prices, models and images.",
    ),
    "zones": (
        "plan.command",
        "Compare the zones for an accelerator: offer, quota, price, what was seen.",
    ),
    "cost": (
        "plan.command",
        "Show what the stack costs per hour, run, day and million tokens.",
    ),
    "doctor": (
        "doctor.command",
        "Show what would keep `up` from succeeding, each with the command that mends it.",
    ),
    "bootstrap": (
        "project.command",
        "Make what a project needs once for previews and deployments from GitHub.",
    ),
    "up": (
        "up.command",
        "Bring the stack's endpoint up and wait until it has served a completion.",
    ),
    "preview": ("preview.command", "Show what `up` would do, and what it would cost."),
    "policy": (
        "plan.command",
        "List the rules of policy, and where their CrossGuard pack is.",
    ),
    "status": (
        "endpoint.command",
        "Show the state of the endpoint, from the queue to the host.",
    ),
    "logs": (
        "endpoint.command",
        "Show the log of the host's boot or of its server, or how long boots took.",
    ),
    "events": (
        "endpoint.command",
        "Show what has happened to the endpoint: slices, hosts, servers, changes.",
    ),
    "diagnose": (
        "diagnose.command",
        "Say what is wrong with the endpoint, what shows it, and what to type next.",
    ),
    "ssh": (
        "endpoint.command",
        "Open a shell on the stack's host, through IAP, or run COMMAND there.",
    ),
    "tunnel": (
        "endpoint.command",
        "Forward the endpoint's port to this machine, through IAP.",
    ),
    "ask": ("endpoint.command", "Ask the endpoint one question and stream the answer."),
    "client": (
        "endpoint.command",
        "Show how programs call the endpoint, or run a command with what it needs.",
    ),
    "verify": (
        "measure.command",
        "Check that the endpoint does what it is there for, token by token.",
    ),
    "details": (
        "measure.command",
        "Show what the endpoint serves, and how, as its server says.",
    ),
    "metrics": (
        "measure.command",
        "Show how the endpoint is used: requests, KV cache, latencies, tokens, cost so far.",
    ),
    "alerts": (
        "alerts.command",
        "Say whether an alert fires: by the endpoint's metrics, its slice, and what that costs.",
    ),
    "bench": (
        "bench.command",
        "What a server does under load, and what figures are worth.",
    ),
    "capacity": (
        "measure.command",
        "Show what the stack has served, what that cost, and whether another slice pays.",
    ),
    "gateway": (
        "gateway.command",
        "One address in front of endpoints, which outlives every slice.",
    ),
    "restart": (
        "endpoint.restart",
        "Start the server again, on the same host, and wait until it has served a completion.",
    ),
    "reboot": (
        "endpoint.restart",
        "Boot the host's machine again, and wait until it has served a completion.",
    ),
    "down": ("down.command", "Destroy everything of the stack and prove that nothing is left."),
    "recover": ("recover.command", "Repair the stack's state after a run was killed."),
    "sweep": ("sweep.command", "List what stacks have left behind in the cloud, and delete it."),
    "weights": ("weights.command", "The model's weights in the stack's bucket."),
    "library": (
        "library.command",
        "A home for weights that outlives the endpoints: one library per Google Cloud project.",
    ),
    "secrets": ("secrets.command", "The endpoint's secrets in Secret Manager."),
    "ci": (
        "project.command",
        "What a repository's workflows need: which stacks, and the workflows themselves.",
    ),
    "render": (
        "plan.command",
        "Print what the host boots with: startup script and configuration.",
    ),
    "mcp": (
        "mcp.command",
        "Serve the project's stacks to an assistant, by the Model Context Protocol.",
    ),
    "engine": ("engine", "Show which Pulumi engine is used, and why."),
    "emulator": ("emulator.command", "The embedded cloud on this machine."),
    "docs": ("docs", "Show a page of the manual, or a section of one."),
    "completion": (
        "completion",
        "Print the script that makes a shell complete commands, options and values on TAB.",
    ),
    "demo": (
        "demo",
        "Bring up a small stack, ask it a question, take it down, and show that nothing is left.",
    ),
}


class LazyCommands(ExampleGroup):
    """A group that knows its commands' names and short help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they are used."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command ``cmd_name``; None when there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tpuflex.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module.__name__} defines no command {cmd_name}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table above, importing none."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Offer commands from the table above, importing none, and options."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=short)
            for name, (_, short) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown name, suggest the nearest."""
        name = args[0] if args else ""
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=(
        "tpuflex init demo --cloud embedded  # a project on this machine, without an account",
        "tpuflex up",
        'tpuflex ask "In one sentence, what is the capital of France?"',
        "tpuflex status",
        "tpuflex down",
        "tpuflex --stack prod preview  # another stack: stacks/Pulumi.prod.yaml",
    ),
)
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
    invocation = ctx.ensure_object(Invocation)
    invocation.directory = project_dir
    if invocation.rehearsing:
        from tpuflex.stack.rehearsal import NOTICE

        click.echo(NOTICE, err=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the code of the outcome.

    Args:
        arguments: as :func:`run`. Given, they come from a program that may go on afterwards, so
            that its process ends as Python ends it.
    """
    # A command loads hundreds of modules, none of which is garbage: collecting takes up to a tenth
    # of the time until it begins.
    gc.set_threshold(100_000)
    os.umask(os.umask(0o022) | 0o022)  # what others may write to is refused the next time
    # Nobody plugs into our models; looking for plugins reads all installed packages (40 ms).
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Else google-cloud-storage reads each bucket's metadata in a thread of its own, for traces that
    # nobody asked for (its _opentelemetry_tracing.py). Set before there are threads: gRPC's read
    # the environment at any time, and setting a variable moves it under them (docs/traps.md).
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    if _COMPLETE in os.environ:
        from tpuflex.cli.completion import answer_shell

        sys.exit(answer_shell(tpuflex))
    if arguments is not None:
        sys.exit(run(arguments))
    end = QuickEnd()
    end.code = run(arguments)
    sys.exit(end.code)


def run(arguments: list[str] | None = None, invocation: Invocation | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: the words after ``tpuflex``; those of the process by default.
        invocation: environment and clock; those of the process by default.

    What a shell would have evaluated of a command that failed is told to it even so.
    """
    code = _run(arguments, invocation)
    words = sys.argv[1:] if arguments is None else arguments
    if code and "emulator" in words:
        from tpuflex.cli.emulator.shell_variables import lines_of_failure

        for line in lines_of_failure(words):
            click.echo(line)
    return code


def _run(arguments: list[str] | None, invocation: Invocation | None) -> int:
    """Run the command line and return its exit code.

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
        usage = io.StringIO()  # it repeats what was typed, or what a script typed
        error.show(usage)
        click.echo(printable(usage.getvalue(), lines=True), nl=False, err=True)
        # What is wrong may have kept the option from being read.
        words = sys.argv[1:] if arguments is None else arguments
        if "--json" in takewhile(lambda word: word != "--", words):
            invocation.json = True
            invocation.output.document(usage_document(error.format_message(), error.exit_code))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return invocation.output.failure(InterruptedByUser("Interrupted."))
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nothing to report.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (TpuflexError, OSError) as error:
        return invocation.output.failure(reported(error))
    except Exception as error:  # the last gate before the terminal
        if invocation.verbose:
            click.echo(printable(traceback.format_exc(), lines=True), err=True)
        return invocation.output.failure(reported(error))


class QuickEnd:
    """The last thing that a process does, once it is known how it ended: it leaves its memory to
    the kernel.

    Python frees each module and class before a process ends. A command that has loaded Pulumi's and
    Google's libraries has thousands, and freeing them is a sixth of the time of `status`. mypy ends
    in the same way (`hard_exit` of its util.py).

    Made before whatever else is registered with :mod:`atexit`, it comes after all of that, and
    after the threads that Python waits for.

    Attributes:
        code: the exit code; None until it is known, and then the process ends as Python does it.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self._process = os.getpid()
        atexit.register(self._end)

    def _end(self) -> None:
        # A fork of this process has an end of its own.
        if self.code is None or os.getpid() != self._process or _is_watched():
            return
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # None: the shell has closed it, by `>&-`
                    stream.flush()
        except (OSError, ValueError):
            return  # Python meets it again, and says so
        os._exit(self.code)


def _is_watched() -> bool:
    """Whether a debugger or a measurement of coverage has something to do yet."""
    if sys.gettrace() or sys.getprofile():
        return True
    # https://docs.python.org/3/library/sys.monitoring.html#tool-identifiers
    return sys.version_info >= (3, 12) and any(sys.monitoring.get_tool(tool) for tool in range(6))
