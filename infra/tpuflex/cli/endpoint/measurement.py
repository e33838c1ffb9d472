"""`tpuflex verify`, `details` and `metrics`: what a running endpoint says of itself."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import (
    FiniteRange,
    as_json,
    endpoint_name,
    no_tunnel,
    pass_invocation,
    stack_name,
)

#: Seconds from one look of `metrics --watch` to the next.
_WATCH_S = 5.0


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex verify",
        "tpuflex --stack prod verify --json  # for a script",
    ),
)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
def verify(invocation: Invocation, no_tunnel: bool) -> None:
    """Check that the endpoint does what it is there for, token by token.

    Every check is made, also after one has failed: /health answers; the model is served; vLLM is
    no older than the oldest without known holes; a request without the key is refused; 16 tokens
    are completed; the engine has counted them. An engine that is frozen fails, though its /health
    answers 200: half a minute at most.

    Exit code 7: it does not serve as it should; 6: it answers without a key, or refuses the
    stack's, or a role is missing; 4: there is no endpoint. What is not known fails nothing.

    A private endpoint is reached through IAP, as by `tpuflex ask`.
    """
    from tpuflex.cli.endpoint.measured import show_verification
    from tpuflex.measure.verify import verify as verify_endpoint
    from tpuflex.stack.progress import working

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    with working(invocation.report, "Verifying the endpoint"):
        found = verify_endpoint(cloud, invocation.report, tunnel=not no_tunnel)
    show_verification(invocation, found)


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex details",
        "tpuflex --stack prod details --json",
    ),
)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
def details(invocation: Invocation, no_tunnel: bool) -> None:
    """Show what the endpoint serves, and how, as its server says.

    Model, context and version; how weights and KV cache are quantised, and the type that is
    computed in; blocks and tokens of the KV cache, and how many sequences of full length that is;
    memory of the server's process. What vLLM does not report is by the stack file, or by the
    catalog's row of the model, and says so. A figure that was planned otherwise (`tpuflex memory`)
    has the planned one beside it.

    A private endpoint is reached through IAP, as by `tpuflex ask`. Exit code 4: there is no
    endpoint; 6: it refuses the stack's key, or a role is missing.
    """
    from tpuflex.cli.endpoint.measured import show_details
    from tpuflex.measure.details import details as read_details
    from tpuflex.stack.progress import working

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    with working(invocation.report, "Asking the endpoint"):
        found = read_details(cloud, invocation.report, tunnel=not no_tunnel)
    show_details(invocation, found)


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex metrics",
        "tpuflex metrics --watch  # every 5 seconds, until Ctrl-C",
        "tpuflex --stack prod metrics --watch 60 --json >> metrics.jsonl",
    ),
)
@click.option(
    "--watch",
    "seconds",
    type=FiniteRange(1, 86_400),
    is_flag=False,
    flag_value=_WATCH_S,
    metavar="[SECONDS]",
    help="Look again every so many seconds, until Ctrl-C.  [5, if not given]",
)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
def metrics(invocation: Invocation, seconds: float | None, no_tunnel: bool) -> None:
    """Show how the endpoint is used: requests, KV cache, latencies, tokens, cost so far.

    All of it is what vLLM counts itself, since its start. Quantiles come from its histograms, as
    Prometheus computes them: within a bucket they are interpolated. Its time to the first token
    begins when a request has arrived at the server. Tokens of a prompt that the prefix cache had
    are counted apart from those that were computed.

    The cost per million tokens is that of the slice since the server's start, over one kind of
    tokens alone: idle time is in it.

    With --watch, what was counted between two looks stands beside it; a terminal is drawn again,
    elsewhere a block follows the other, with --json a document on a line. While there is no answer,
    the last values stand with their age, and after two intervals they are called stale. Ctrl-C
    ends it with exit code 0.

    A private endpoint is reached through IAP, as by `tpuflex ask`. Exit code 4: there is no
    endpoint; 6: it refuses the stack's key, or a role is missing.
    """
    from tpuflex.cli.endpoint.measured import show_usage, watch
    from tpuflex.measure.usage import read_usage, watch_usage
    from tpuflex.stack.progress import working

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    if seconds is None:
        with working(invocation.report, "Asking the endpoint"):
            found = read_usage(cloud, invocation.report, tunnel=not no_tunnel)
        invocation.output.document(found.to_json())
        show_usage(invocation.output, found)
        return
    watch(invocation.output, watch_usage(cloud, seconds, invocation.report, tunnel=not no_tunnel))
