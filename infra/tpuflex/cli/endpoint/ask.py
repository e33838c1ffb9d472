"""The steps of `tpuflex ask`: find the endpoint, fetch the API key, ask, say how fast it was."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from tpuflex import gcloud_commands
from tpuflex.boot.certificate import read_certificate
from tpuflex.google.http import OwnersAdapter
from tpuflex.naming import API_KEY, TLS_CERTIFICATE
from tpuflex.operate.ask import Answer, Question, ask, direct_session, pinned_session
from tpuflex.operate.reach import reached
from tpuflex.operate.route import Route
from tpuflex.operate.slice import SliceStatus
from tpuflex.operate.status import slice_status
from tpuflex.operate.way_in import not_there
from tpuflex.terminal.output import for_stack

if TYPE_CHECKING:
    import requests

    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection


def run_ask(
    invocation: Invocation, cloud: Connection, question: Question, *, tunnel: bool = True
) -> None:
    """Ask ``question``, streaming the answer to standard output.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        question: the question; one without an endpoint is for the stack's own.
        tunnel: whether a tunnel may be opened to that.

    Raises:
        NotFoundError: the stack is not up, or its host has no address yet.
        TpuflexError: there is no API key, no way to the endpoint, or it did not answer.
    """
    if question.endpoint:
        _ask(invocation, question, api_key(cloud), session(cloud, question.endpoint))
        return
    status, key = serving_slice(cloud), api_key(cloud)
    with reached(invocation, cloud, status, tunnel=tunnel) as found:
        question = replace(
            question, endpoint=found.url, reach=reach(cloud, status, through=found.through)
        )
        _ask(invocation, question, key, session(cloud, found.url))


def _ask(
    invocation: Invocation, question: Question, key: str, connections: requests.Session
) -> None:
    output = invocation.output
    answer = ask(
        question,
        key,
        show=output.piece,
        now=time.perf_counter,
        session=connections,
    )
    output.result()
    output.document(answer.to_json())
    output.progress(summary(answer))


def serving_slice(cloud: Connection) -> SliceStatus:
    """The slice of the stack of ``cloud``, which has an address.

    Raises:
        NotFoundError: the stack is not up, or its host has no address yet.
    """
    stack = cloud.stack
    status = slice_status(stack.settings, stack.names, cloud.tpu, recorded=cloud.recorded_zones)
    if not status.address:
        raise not_there(cloud, status, "no endpoint")
    return status


def reach(cloud: Connection, status: SliceStatus, *, through: Route = Route.DIRECT) -> str:
    """What to try when the endpoint cannot be reached, directly or ``through`` a tunnel."""
    ready = "`tpuflex status` says whether the host is READY."
    if through is Route.IAP:
        text = f"The tunnel is open, and nothing answers at its end: {ready}"
        return for_stack(text, cloud.stack.name)
    if cloud.stack.embedded:
        return for_stack(ready, cloud.stack.name)
    port = cloud.stack.settings.serving.port
    command = gcloud_commands.tunnel(
        status.node, local_port=port, address=status.address, port=port
    )
    text = (
        f"{ready} The endpoint has a private address: add your range to "
        "tpuflex:network.allowed_cidrs, or open a tunnel and ask through it:\n"
        f"  {command}\n  {command.hint}\n"
        f"  tpuflex ask --endpoint {cloud.stack.settings.url('127.0.0.1')} …"
    )
    return for_stack(text, cloud.stack.name)


def api_key(cloud: Connection) -> str:
    """The serving API key, from Secret Manager: the first one, where clients have a key each.

    Raises:
        NotFoundError: the pinned version does not exist.
        AccessError: it may not be read.
    """
    value = cloud.secrets.access(cloud.secret_version(API_KEY))
    return value.strip().partition("\n")[0].strip()


def session(cloud: Connection, endpoint: str) -> requests.Session:
    """Connections to ``endpoint``: over TLS, to the holder of the stack's certificate alone, whose
    fingerprint is the same at both ends of a tunnel; else, on this machine, to a process of this
    user alone, since every user can listen where an emulated host, or a tunnel, should.

    Args:
        cloud: the stack's cloud.
        endpoint: base URL, of a tunnel's local end where there is one.

    Raises:
        UsageError: the stack has a certificate, and the key would be sent in clear.
        TpuflexError: the certificate cannot be had, or used.
    """
    if TLS_CERTIFICATE not in cloud.stack.settings.secrets.roles:
        plain = direct_session()
        plain.mount("http://", OwnersAdapter())
        return plain
    if not endpoint.startswith("https://"):
        raise click.UsageError(
            f"{endpoint} would take the API key over the network in clear, and the stack has a"
            " certificate: write https://."
        )
    pem = cloud.secrets.access(cloud.secret_version(TLS_CERTIFICATE))
    return pinned_session(read_certificate(pem, datetime.now(UTC)).fingerprint)


def summary(answer: Answer) -> str:
    """How fast the answer came, on one line."""
    speed = answer.tokens_per_second
    rate = f", {speed:.1f} tokens/s" if speed is not None else ""
    cut = ", cut off by --max-tokens" if answer.finish_reason == "length" else ""
    return f"TTFT {answer.ttft * 1000:.0f} ms{rate} ({answer.tokens} tokens{cut})"
