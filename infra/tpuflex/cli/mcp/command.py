"""`tpuflex mcp`: the server of the Model Context Protocol on the project."""

from __future__ import annotations

import signal

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import pass_invocation, stack_name, until_interrupted


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex mcp  # what an assistant starts: it speaks on standard input and output",
        "tpuflex --stack prod mcp --allow-changes",
        "tpuflex mcp --http 8765  # for a client that connects by HTTP",
    ),
)
@click.option(
    "--allow-changes",
    is_flag=True,
    help="Offer up, renew, down and rotate_secret: each takes a plan's hash, and a person who types"
    " the stack's name.",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve streamable HTTP at 127.0.0.1:PORT to clients that have the token of this run; 0 is"
    " any free port.",
)
@stack_name
@pass_invocation
def mcp(invocation: Invocation, allow_changes: bool, port: int | None) -> None:
    """Serve the project's stacks to an assistant, by the Model Context Protocol.

    Its tools are what the commands do: status, logs, doctor, recommend, query and others, each with
    the document of `--json`; its resources are stack files, runbooks and benchmarks. Tools take a
    stack of this project, by default the one of --stack. None changes a stack, unless
    --allow-changes is given.

    Then a first call returns a plan and its hash. A second one with that hash, within 10 minutes,
    has the client ask a person to type the stack's name; the plan is made again, and the command
    runs only if it is the same, held to it. A client that cannot ask is refused. The command goes
    on without this server, and get_operation says how far it is. Ctrl-C ends the server.

    Without --http, standard output is the protocol's. With it, the URL and the file of the token
    are written to standard error. Needs `pip install 'tpuflex[mcp]'`.
    """
    from tpuflex.errors import TpuflexError

    try:
        from tpuflex.mcp_server.server import ProjectServer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise TpuflexError(
            "The server needs the Model Context Protocol's SDK, which is not installed.",
            hint="Run: pip install 'tpuflex[mcp]'",
        ) from error
    from tpuflex.mcp_server.workspace import Workspace

    project = invocation.project
    workspace = Workspace(project.root, invocation.stack, invocation.environ)
    server = ProjectServer(workspace, allow_changes=allow_changes)
    if port is None:
        # Else the thread that reads standard input would keep the process until the client ends.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        server.run()
        return
    from tpuflex.mcp_server.http import LOOPBACK, listening, serve, token_file

    with (
        until_interrupted(),
        listening(port) as listener,
        token_file(project.home) as (path, token),
    ):
        url = f"http://{LOOPBACK}:{listener.getsockname()[1]}/mcp"
        invocation.output.progress(f"Listening at {url}\nToken: {path}")
        serve(server, listener, token)
