"""`tpuflex gateway`: one address in front of endpoints."""

from __future__ import annotations

import ipaddress
import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import (
    Commands,
    as_json,
    pass_invocation,
    stack_name,
    watch,
    watch_every,
)

if TYPE_CHECKING:
    from tpuflex.gateway.config import GatewayConfig
    from tpuflex.gateway.render import Rendered
    from tpuflex.stack.progress import Progress

#: What the extra has, by the names that are imported.
_EXTRA = ("aiohttp", "limits", "redis", "uvloop")


_config = click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Configuration in a file of its own: the keys of tpuflex:gateway, without that prefix.",
)


@click.group(
    cls=Commands,
    examples=(
        "tpuflex gateway run  # in front of the stack",
        "tpuflex gateway run --config gateway.yaml",
        "tpuflex gateway key team-a  # a key for a client, and its lines of the configuration",
        "tpuflex gateway status --watch",
    ),
)
def gateway() -> None:
    """One address in front of endpoints, which outlives every slice.

    It finds the slices of its stacks by itself, and sends each request to one that has room for it.
    Under overload it refuses at once what would come too late, and says when to try again. Clients
    have keys of the gateway's, with limits of their own.

    It is configured in tpuflex:gateway of a stack file, or in a file of its own: `tpuflex docs
    gateway` shows how, and `tpuflex docs settings` has every key.
    """


@gateway.command(
    examples=(
        "tpuflex gateway run",
        "tpuflex --stack prod gateway run",
        "tpuflex gateway run --config gateway.yaml  # stacks and other servers behind one address",
    ),
)
@_config
@stack_name
@pass_invocation
def run(invocation: Invocation, file: Path | None) -> None:
    """Run the gateway in this terminal.

    It listens at host and port of its configuration, by default at 127.0.0.1:8080, and answers as
    OpenAI's API does: /v1/chat/completions, /v1/completions and /v1/models. Without --config it
    reads tpuflex:gateway of the stack's file; without upstreams there, the stack alone is behind
    it.

    New slices are found within seconds, and get requests once they have answered one. Where no
    clients are configured it makes a key, in a file that it names at the start.

    Ctrl-C, or SIGTERM, ends it: requests under way then have 30 seconds to finish, and none at a
    second one. Needs `pip install 'tpuflex[gateway]'`.
    """
    with _needs_extra():
        from tpuflex.gateway.run import run_gateway
    from tpuflex.stack.connection import connect

    def report(progress: Progress) -> None:
        if isinstance(progress, str):
            progress = f"{invocation.now().astimezone():%H:%M:%S} {progress}"
        invocation.report(progress)

    # What fails in the libraries of the gateway, or in itself, while it goes on.
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    run_gateway(
        _configured(invocation, file),
        invocation.home,
        connect=lambda stack: connect(stack, invocation.environ, start=False),
        reopen=lambda stack: invocation.open_named(stack.name),
        report=report,
        output=sys.stdout.fileno(),
    )


@gateway.command(
    examples=(
        "tpuflex gateway key team-a",
        "tpuflex gateway key team-a --json",
    ),
)
@click.argument("client")
@as_json
@pass_invocation
def key(invocation: Invocation, client: str) -> None:
    """Make a key for CLIENT, and print it this once.

    The gateway's configuration has only its SHA-256, in the lines that are printed: put them into
    tpuflex:gateway of a stack file, or into a file of its own. A client has one key: another
    replaces it. A gateway that runs knows it after a restart.
    """
    from tpuflex.gateway.clients import new_key

    made = new_key(client)
    invocation.output.document(made.to_json())
    invocation.output.result(f"The key of {made.client}, which is shown this once:")
    invocation.output.verbatim(f"\n{made.key}\n")
    invocation.output.result("Lines of the gateway's configuration:")
    invocation.output.verbatim(f"\n{made.configuration.rstrip()}")


@gateway.command(
    examples=(
        "tpuflex gateway status",
        "tpuflex gateway status --watch  # every 2 seconds, until Ctrl-C",
        "tpuflex gateway status --config gateway.yaml --json",
    ),
)
@_config
@watch_every(2.0)
@stack_name
@as_json
@pass_invocation
def status(invocation: Invocation, file: Path | None, seconds: float | None) -> None:
    """Show the state of the gateway that runs on this machine.

    Of each upstream: whether it takes requests, and if not, since when and why; what it has in
    flight and may have, the 95th percentile of its first tokens of the last five minutes, how full
    its KV cache is, and how much of its run is left. Of each class: how many requests wait, how
    many were answered since the start, and how many not, by reason. Of clients: what they have used
    of each limit.

    It asks the gateway that was started with the same --stack or --config, with the key that this
    one keeps in the state directory: run it in the same project, as the same user. Prometheus gets
    the same, and more, from /metrics with that key.

    Exit code 7: none runs with this configuration, or it does not answer.
    """
    from tpuflex.cli.gateway.status import show_status

    with _needs_extra():
        from tpuflex.gateway.gateway_status import read_status, watch_status

    config = _configured(invocation, file)
    if seconds is not None:
        looks = watch_status(config, invocation.home, seconds)
        watch(invocation.output, looks, partial(show_status, invocation))
        return
    found = read_status(config, invocation.home)
    invocation.output.document(found.to_json())
    show_status(invocation, found)


@gateway.command(
    examples=(
        "tpuflex --stack prod gateway alerts > gateway.rules.yml",
        "tpuflex gateway alerts --config gateway.yaml --job llm-gateway",
    ),
)
@_config
@click.option(
    "--job",
    metavar="NAME",
    default="tpuflex-gateway",
    show_default=True,
    help="Job of Prometheus that collects from the gateway.",
)
@stack_name
@as_json
@pass_invocation
def alerts(invocation: Invocation, file: Path | None, job: str) -> None:
    """Print the gateway's alert rules as a rule file for Prometheus.

    They are about what clients get, whichever slice serves them: first tokens that come late, by
    the gateway's own histogram, which has edges at 0.8 and 2 seconds; requests that are refused or
    fail; a model that nothing serves; a breaker that stays open; a gateway that does not answer.
    The file's head says how to collect the metrics.

    Thresholds are tpuflex:monitoring.thresholds of the stack; with --config, their defaults. Of
    first tokens those classes count whose own very_slow is no later than first_token_very_slow.
    """
    from tpuflex.advice import Advice
    from tpuflex.alerts.gateway_rules import gateway_rules
    from tpuflex.alerts.prometheus import gateway_text, job_of, prometheus_rules
    from tpuflex.settings.monitoring import AlertThresholds

    config = _configured(invocation, file)
    if file is None:
        stack = invocation.open_named(invocation.stack)
        name, limits = stack.name, stack.settings.monitoring.thresholds
        status = Advice("{gateway_status}")
    else:
        name, limits = "", AlertThresholds()
        status = Advice("{gateway_status} --config {file}", file=shlex.quote(str(file)))
    rules = gateway_rules(config.settings.all_classes, limits, status)
    host = "ADDRESS" if config.listens_everywhere else config.settings.host
    job, url = job_of(name, job), config.url(host, config.settings.port or "PORT")
    invocation.output.document(prometheus_rules(rules, name, job))
    invocation.output.verbatim(gateway_text(rules, name, job, url))


@gateway.group(
    cls=Commands,
    examples=(
        "tpuflex gateway render envoy --certificate tls.pem --key key.pem > envoy.yaml",
        "tpuflex gateway render bifrost --config gateway.yaml > config.json",
    ),
)
def render() -> None:
    """Print configuration for other programs: before, beside or instead of a gateway.

    What they cannot express of the gateway's configuration is said: in comments, or for JSON on
    standard error.
    """


@render.command(
    examples=(
        "tpuflex gateway render envoy --certificate tls.pem --key key.pem > envoy.yaml",
        "tpuflex gateway render envoy --listen [::]:443 --certificate /etc/tls/tls.pem"
        " --key /etc/tls/key.pem",
    ),
)
@click.option("--certificate", required=True, metavar="FILE", help="Certificate, where Envoy is.")
@click.option("--key", required=True, metavar="FILE", help="Its key, where Envoy is.")
@click.option(
    "--listen",
    default="0.0.0.0:8443",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where Envoy listens.",
)
@_config
@stack_name
@as_json
@pass_invocation
def envoy(
    invocation: Invocation, certificate: str, key: str, listen: str, file: Path | None
) -> None:
    """Print Envoy's configuration as what ends TLS in front of the gateway.

    Envoy 1.40 decides nothing there: one listener with the certificate, one cluster with the
    gateway. It retries nothing, no time-out of its own ends an answer, and it buffers at most 32
    KiB for a slow client. Clients reach the paths of OpenAI's API and /health through it.
    """
    from tpuflex.gateway.render import envoy_edge

    host, _, written = listen.rpartition(":")
    host, port = host.removeprefix("[").removesuffix("]"), 0
    with suppress(ValueError):
        ipaddress.ip_address(host)  # Envoy resolves no name here
        port = int(written)
    if not 0 < port < 65536:
        raise click.BadParameter("write ADDRESS:PORT, with an IP address.", param_hint="--listen")
    config = _configured(invocation, file)
    _show(
        invocation,
        envoy_edge(config, certificate=certificate, key=key, host=host, port=port),
    )


@render.command(
    "llm-d",
    examples=(
        "tpuflex gateway render llm-d > endpoints.yaml",
        "tpuflex gateway render llm-d --config gateway.yaml --model chat > endpoints.yaml",
    ),
)
@click.option("--model", metavar="MODEL", help="The model, where there are several.")
@_config
@stack_name
@as_json
@pass_invocation
def llm_d(invocation: Invocation, model: str | None, file: Path | None) -> None:
    """Print the servers of a model as a file of endpoints for llm-d's router.

    They are those that serve now, as `status` finds them, at their own addresses, without those
    that drain; the router's plugin file-discovery reads the file again when it changes.
    """
    from tpuflex.gateway.render import llm_d_endpoints, serving_addresses
    from tpuflex.stack.connection import connect

    config = _configured(invocation, file)
    serving = serving_addresses(
        config,
        lambda stack: connect(stack, invocation.environ, start=False),
        invocation.report,
    )
    _show(invocation, llm_d_endpoints(config, serving, model))


@render.command(
    examples=("tpuflex gateway render bifrost --config gateway.yaml > config.json",),
)
@_config
@stack_name
@as_json
@pass_invocation
def bifrost(invocation: Invocation, file: Path | None) -> None:
    """Print Bifrost's config.json: pools as routing rules, URLs as providers, clients as its keys.

    Stacks are asked through the gateway, which finds their slices. Bifrost reads keys from its
    environment; standard error says from which variables, and what Bifrost cannot express.
    """
    from tpuflex.gateway.render_bifrost import bifrost_config

    _show(invocation, bifrost_config(_configured(invocation, file)))


def _show(invocation: Invocation, rendered: Rendered) -> None:
    invocation.output.document(rendered.to_json())
    invocation.output.verbatim(rendered.text)
    if not rendered.commented and not invocation.output.json:
        for each in rendered.omitted:
            invocation.output.progress(f"- {each}")


def _configured(invocation: Invocation, file: Path | None) -> GatewayConfig:
    from tpuflex.gateway.config import read_file, read_section

    if file is None:
        return read_section(invocation.stack, invocation.open_named)
    return read_file(file, invocation.open_named, invocation.environ)


@contextmanager
def _needs_extra() -> Iterator[None]:
    """While inside, what the extra has is imported.

    Raises:
        TpuflexError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        from tpuflex.errors import TpuflexError

        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise TpuflexError(
            "The gateway needs libraries that are not installed.",
            hint="Run: pip install 'tpuflex[gateway]'",
        ) from error
