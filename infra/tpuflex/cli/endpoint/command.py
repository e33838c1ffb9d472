"""`tpuflex status`, `logs`, `events`, `ask`, `client`, `ssh` and `tunnel`: using an endpoint."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import datetime, timedelta

import click

from tpuflex.cli.endpoint.client import FORMS, show_client
from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import (
    FiniteRange,
    Tokens,
    as_json,
    begin,
    endpoint_name,
    no_tunnel,
    pass_invocation,
    since,
    stack_name,
    until_interrupted,
    watch_every,
)


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex status  # the dev stack",
        "tpuflex --stack prod status --json  # for a script",
        "tpuflex --stack prod status --no-tunnel  # from the cloud alone",
        "tpuflex status --all  # every stack of the project on one screen",
        "tpuflex status --all --watch 30  # until Ctrl-C",
    ),
)
@click.option("--all", "every", is_flag=True, help="Every stack of the project.")
@watch_every(10.0)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
def status(invocation: Invocation, every: bool, seconds: float | None, no_tunnel: bool) -> int:
    """Show the state of the endpoint, from the queue to the host.

    Asks the cloud, not Pulumi's state. Exit code 0: the endpoint serves; 3: the request is waiting,
    the host is booting or starts its server again; 4: there is no endpoint; 7: the boot or the
    server failed, what says READY does not answer, the host drains, or the run has ended.

    While one slice hands over to another, it shows the one that serves; the other is under `also`.

    A host that says READY is asked for one token, with the stack's API key: a private endpoint
    through IAP, as by `tpuflex ask`. That takes some seconds, a minute at most; --no-tunnel leaves
    it out. One that does not answer is NOT READY: "ready": false with --json. One that cannot be
    asked from here, without gcloud, a role or the key, is READY as its host says, and the reason
    is under `answers`.

    With --all, a row for each stack of the project: its state, the phase of a boot, the zone, the
    time that its run has left, what it has cost so far, and the tokens that it generates a second.
    Those that are not up are named below. Each Google Cloud project is listed once, and servers are
    asked what they count, not for a token: all of them together for 20 seconds at most. The exit
    code is the highest of the rows, where a stack that cannot be read has that of its error; 4 if
    no stack is up.

    With --all --watch, a terminal is drawn again, elsewhere a table follows the other, with --json
    a document on a line. A stack that cannot be read any more stays as it was, with its age.
    A stack that is added meanwhile is not shown. Ctrl-C ends it with exit code 0; before the first
    look, with 130.
    """
    if every:
        if invocation.chosen_stack or invocation.endpoint:
            raise click.UsageError("--all is of every stack: leave --stack and --endpoint out.")
        from tpuflex.cli.endpoint.status_all import run_status_all

        return run_status_all(invocation, seconds, tunnel=not no_tunnel)
    if seconds is not None:
        raise click.UsageError("--watch is for --all. Of one stack: tpuflex metrics --watch")
    from tpuflex.cli.endpoint.status import show_status
    from tpuflex.operate.endpoint_status import status as read_status
    from tpuflex.stack.progress import working

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    with working(invocation.report, "Asking the cloud, and the endpoint"):
        found = read_status(cloud, invocation.report, tunnel=not no_tunnel)
    show_status(invocation.output, found)
    return found.exit_code


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex logs --lines 200",
        "tpuflex --stack prod logs --follow  # until Ctrl-C",
        "tpuflex --stack prod logs --kept --follow  # where gcloud does not reach the host",
        "tpuflex --stack prod logs --phase fetch  # image and weights",
        "tpuflex --stack prod logs --server --follow  # what the server writes",
        "tpuflex --stack prod logs --server --since 15m",
        "tpuflex --stack prod logs --boots --lines 3  # how long the last three boots took",
    ),
)
@click.option("-f", "--follow", is_flag=True, help="Show new lines as they come, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1, 100_000),
    help="Lines to show of what is there; with --boots, boots."
    "  [default: 50, with --since all; boots: 10]",
)
@click.option("--kept", is_flag=True, help="Read Cloud Logging, also if the host is there.")
@click.option(
    "--phase",
    metavar="PHASE",
    help="Only the lines of a phase of the last boot, such as fetch, from Cloud Logging.",
)
@click.option(
    "--server",
    is_flag=True,
    help="What the server writes, instead of the host's boot.",
)
@since("Everything")
@click.option(
    "--boots",
    is_flag=True,
    help="The boots of the stack's hosts instead: how long, how they ended.",
)
@stack_name
@endpoint_name
@as_json
@pass_invocation
def logs(
    invocation: Invocation,
    follow: bool,
    lines: int | None,
    kept: bool,
    phase: str | None,
    server: bool,
    since: timedelta | datetime | None,
    boots: bool,
) -> None:
    """Show the log of the host's boot or of its server, or how long boots took.

    On the embedded cloud the log is a file. On Google it is read by gcloud, which needs its
    component alpha, over SSH through IAP; gcloud's exit code is passed on. With --server, what the
    server writes is read the same way, without its lines about requests of the host's watch.

    The host also sends its log to Cloud Logging, which keeps it for 30 days: after every phase what
    is new, and the server's last lines when the boot ends, and when the watch reports that the
    server froze, died or failed. That log is shown if the host is gone, and with --kept or --phase.
    It needs neither gcloud nor SSH, and is some seconds behind; --follow shows it up to the phase
    that began last. Exit code 4: there is no log, or no such part of it.

    --boots reads there when the stack's hosts booted, how long that took, and how it ended, also
    after `down`. The newest is shown by phase beside the median of those shown that were READY.
    Chips are billed while a host boots. A boot without an end goes on, or its host was lost.
    """
    from tpuflex.cli.endpoint.logs import run_boots, run_logs
    from tpuflex.operate.host_log import MOST_LINES, Part

    if follow and invocation.json:
        raise click.UsageError("--json prints one document: it cannot be used with --follow.")
    if phase and server:
        raise click.UsageError("--phase is of the script's lines, --server of the server's.")
    if boots and (follow or kept or phase or server):
        raise click.UsageError(
            "--boots is a table of boots, and no log: of the others, only --lines and --since can"
            " be added."
        )
    cloud = invocation.connect(invocation.open_deployed(), start=False)
    begun = None if since is None else begin(since, cloud.now())
    if boots:
        run_boots(invocation, cloud, lines or 10, begun)
        return
    part = Part(lines or (50 if begun is None else MOST_LINES), phase or "", server, begun)
    with until_interrupted() if follow else nullcontext():
        run_logs(invocation, cloud, part, follow=follow, kept=kept)


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex --stack prod events  # of the last 24 hours",
        "tpuflex --stack prod events --since 7d --lines 200",
        "tpuflex --stack prod events --since 2026-11-28T03:00Z --json",
    ),
)
@since("Events", default="24h")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="At most so many events, the newest.",
)
@stack_name
@endpoint_name
@as_json
@pass_invocation
def events(invocation: Invocation, since: timedelta | datetime, lines: int) -> None:
    """Show what has happened to the endpoint: slices, hosts, servers, changes.

    The newest comes last. From the TPU API: when slices were requested and granted, and maintenance
    that is announced. From the hosts' logs, which Cloud Logging keeps for 30 days: boots and how
    they ended, servers that froze or died, drains. From Cloud Audit Logs, which keep 400 days: who
    made, changed and deleted what, also by the console or gcloud, and what was refused. From
    Pulumi's history: runs of `up` and `down`, once they have ended.

    Changes of one kind by one account are one line if they came together. What could not be read is
    named below the list, and the rest is shown. Logs need the permission logging.logEntries.list.
    """
    from tpuflex.cli.endpoint.events import run_events

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    run_events(invocation, cloud, begin(since, cloud.now()), lines)


@click.command(
    cls=ExampleCommand,
    examples=(
        'tpuflex ask "In one sentence, what is the capital of France?"',
        'tpuflex --stack prod ask "Hello" --json  # answer and figures, for a script',
        'tpuflex ask "Hello" --url http://127.0.0.1:8000  # through a tunnel that is open',
        "tpuflex ask - < question.txt",
    ),
)
@click.argument("question")
@click.option("--max-tokens", type=Tokens(1), default=256, show_default=True)
@click.option("--temperature", type=FiniteRange(0, 2), default=0.0, show_default=True)
@click.option("--url", metavar="URL", default="", help="Ask here instead, such as at a tunnel.")
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
def ask(
    invocation: Invocation,
    question: str,
    max_tokens: int,
    temperature: float,
    url: str,
    no_tunnel: bool,
) -> None:
    """Ask the endpoint one question and stream the answer.

    Every user of this machine can read a command line, and the question with it: with - as the
    question, it is read from standard input.

    The API key is fetched from Secret Manager. Time to first token and tokens per second go
    to standard error.

    A private endpoint is asked through IAP, by a tunnel of its own that gcloud opens and that is
    closed afterwards; where tpuflex:network.allowed_cidrs lets somebody in, its address is tried
    first, for 2 seconds. Exit code 4: there is no endpoint; 6: a role is missing.
    """
    from tpuflex.operate.endpoint_connection import clear_text_refusal
    from tpuflex.operate.question import Question
    from tpuflex.operate.question import ask as ask_endpoint

    stack = invocation.open_deployed()
    model = stack.settings.model.name
    if url:
        from tpuflex.measure.server import base_url

        url = f"{base_url(url, '--url')}/v1"
    asked = Question(url, model, _read(question), max_tokens, temperature)
    cloud = invocation.connect(stack, start=False)
    if url and (why := clear_text_refusal(cloud, url)):
        raise click.UsageError(why)
    output = invocation.output
    answer = ask_endpoint(cloud, asked, output.piece, invocation.report, tunnel=not no_tunnel)
    output.result()
    output.document(answer.to_json())
    output.progress(answer.summary)


def _read(question: str) -> str:
    try:
        text = sys.stdin.read().strip() if question == "-" else question
    except UnicodeDecodeError as error:
        raise click.UsageError("The question on standard input is no text.") from error
    if not text:
        raise click.UsageError("The question is empty.")
    return text


@click.command(
    cls=ExampleCommand,
    context_settings={"allow_interspersed_args": False},
    examples=(
        "tpuflex client  # all of it, for a person",
        "tpuflex --stack prod client -- python bench.py",
        'eval "$(tpuflex client --as env --show-key)"  # for this shell',
        "tpuflex client --as python > hello.py",
        "tpuflex client --json --show-key  # for a script",
    ),
)
@click.option(
    "--as",
    "form",
    type=click.Choice(FORMS),
    help="Only this: variables for a shell, a command, or a program.",
)
@click.option("--show-key", is_flag=True, help="Show the API key, too: with --as env or --json.")
@no_tunnel
@stack_name
@endpoint_name
@as_json
@click.argument("command", nargs=-1, metavar="[-- COMMAND ...]")
@pass_invocation
def client(
    invocation: Invocation,
    form: str | None,
    show_key: bool,
    no_tunnel: bool,
    command: tuple[str, ...],
) -> None:
    """Show how programs call the endpoint, or run a command with what it needs.

    The endpoint speaks OpenAI's API. Clients need a base URL, the model's name and the API key:
    here they are as variables, and as examples for curl, Python and TypeScript. OpenAI's libraries
    read OPENAI_BASE_URL and OPENAI_API_KEY by themselves; OPENAI_MODEL is for your own code.

    COMMAND is run with these variables in its environment, once the endpoint has answered; its
    exit code is passed on, and may be one of tpuflex's own. A private endpoint is reached as by
    `tpuflex ask`: through a tunnel that ends with COMMAND. Without COMMAND, the URL of a private
    endpoint is the one at which `tpuflex tunnel` listens; the key is shown only while it does.

    For a stack with a TLS certificate, further variables name a file that holds it together with
    the authorities of SSL_CERT_FILE or a similar variable, or else the usual ones. Exit code 4:
    there is no endpoint, or no tunnel; 6: a role is missing, or another user listens at the
    tunnel's port.
    """
    from tpuflex.operate.openai_client import client as read_client
    from tpuflex.operate.openai_client import run_client

    if command and (form or show_key or invocation.json):
        raise click.UsageError(
            "COMMAND has the variables in its environment: --as, --show-key and --json are for what"
            " is shown without one."
        )
    if form and invocation.json:
        raise click.UsageError("--json has all of it: it cannot be used with --as.")
    if show_key and form != "env" and not invocation.json:
        raise click.UsageError(
            "--show-key is for --as env and --json: the other texts read the key from"
            " OPENAI_API_KEY."
        )
    cloud = invocation.connect(invocation.open_deployed(), start=False)
    if command:
        words, tunnel = command, not no_tunnel
        code = run_client(cloud, words, invocation.environ, invocation.report, tunnel=tunnel)
        raise SystemExit(code)
    show_client(invocation, read_client(cloud, show_key=show_key, tunnel=not no_tunnel), form)


@click.command(
    cls=ExampleCommand,
    context_settings={"allow_interspersed_args": False},
    examples=(
        "tpuflex --stack prod ssh",
        "tpuflex --stack prod ssh -- sudo docker ps",
        "tpuflex --stack prod ssh -- 'sudo tail /var/log/tpuflex/*'  # a line for its shell",
    ),
)
@click.argument("words", metavar="[-- COMMAND ...]", nargs=-1, type=click.UNPROCESSED)
@stack_name
@endpoint_name
@pass_invocation
def ssh(invocation: Invocation, words: tuple[str, ...]) -> None:
    """Open a shell on the stack's host, through IAP, or run COMMAND there.

    Several words are passed on as they are; one alone is a line for the host's shell. COMMAND gets
    standard input, and a terminal only if tpuflex has one.

    Runs gcloud, which needs its component alpha; its exit code, which is that of COMMAND, is passed
    on. A host of the embedded cloud has an SSH server only with a private address (`tpuflex
    emulator strictness`). Exit code 4: there is no host.
    """
    from tpuflex.operate.host_access import ssh as open_shell

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    raise SystemExit(open_shell(cloud, invocation.report, words=words, terminal=terminal))


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex --stack prod tunnel",
        "tpuflex --stack prod tunnel --port 9000",
    ),
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of this machine.  [default: the endpoint's own]",
)
@stack_name
@endpoint_name
@pass_invocation
def tunnel(invocation: Invocation, port: int | None) -> None:
    """Forward the endpoint's port to this machine, through IAP.

    Runs gcloud, which needs its component alpha, until Ctrl-C; its exit code is passed on. The
    port listens on 127.0.0.1 alone. A tunnel that breaks off after a minute or more is opened
    again. An endpoint on the embedded cloud needs none, unless its hosts have private addresses
    (`tpuflex emulator strictness`). Exit code 4: there is no host.
    """
    from tpuflex.operate.host_access import tunnel as hold_tunnel

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    with until_interrupted():
        raise SystemExit(hold_tunnel(cloud, port, invocation.report))
