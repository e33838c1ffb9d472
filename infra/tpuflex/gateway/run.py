"""A gateway from its configuration to its end."""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from tpuflex.errors import TpuflexError
from tpuflex.files.trusted import own_directory, read_private, write_private
from tpuflex.gateway.access_log import open_access_log
from tpuflex.gateway.admission import Admission, ClassRules
from tpuflex.gateway.budgets import open_budgets
from tpuflex.gateway.clients import Clients, digest, new_key
from tpuflex.gateway.config import key_file
from tpuflex.gateway.counters import Counters
from tpuflex.gateway.first_token import FirstTokenLimits
from tpuflex.gateway.fleet import Fleet
from tpuflex.gateway.gateway_status import status_of
from tpuflex.gateway.relay import Relay
from tpuflex.gateway.running import running
from tpuflex.gateway.server import DRAIN_S, Gateway, serving
from tpuflex.settings.gateway import ClientSettings

if TYPE_CHECKING:
    from tpuflex.gateway.config import GatewayConfig
    from tpuflex.gateway.outcome import Outcome
    from tpuflex.settings.gateway import GatewaySettings
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report
    from tpuflex.stack.stack import Stack

#: Name of the client whose key is made where none is configured.
_LOCAL = "local"


def run_gateway(
    config: GatewayConfig,
    home: Path,
    *,
    connect: Callable[[Stack], Connection],
    reopen: Callable[[Stack], Stack],
    report: Report,
    output: int,
) -> None:
    """Run a gateway until Ctrl-C or SIGTERM. Requests in flight have half a minute then; at a
    second signal they end at once, with an error.

    Args:
        config: its configuration.
        home: the state directory, in which keys are.
        connect: connects to the cloud of a stack, in a thread.
        reopen: opens a stack again whose file has changed, in a thread.
        report: receives where it listens, and what becomes of upstreams.
        output: descriptor of standard output, for the access log.

    Raises:
        TpuflexError: it cannot listen, a store of budgets does not answer, or answers were cut off
            at the end.
    """
    # A client takes a descriptor, and its request at an upstream another; the default is 1024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS allows less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # What is loaded now stays loaded: a collection that looked at it would hold up every stream.
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_run(config, home, connect, reopen, report, output))
        except asyncio.CancelledError:
            return


async def _run(
    config: GatewayConfig,
    home: Path,
    connect: Callable[[Stack], Connection],
    reopen: Callable[[Stack], Stack],
    report: Report,
    output: int,
) -> None:
    settings, ends = config.settings, _until_a_signal()
    fleet = Fleet(
        settings, config.stacks, connect, files=config.files, reopen=reopen, report=report
    )
    operator_key, since = _kept_key(home, "operator"), datetime.now(UTC)
    async with AsyncExitStack() as opened:
        listens = opened.enter_context(running(home, config))
        log = opened.enter_context(open_access_log(settings.access_log, config.files, output))
        budgets = await opened.enter_async_context(
            open_budgets(settings.budgets, config.files, report)
        )
        admission = Admission(_classes(settings), fleet.pools)
        counters = Counters(fleet, admission, settings.all_classes, log)

        def ended(outcome: Outcome) -> None:
            counters.ended(outcome)
            if log is not None:
                log.ended(outcome)

        def status() -> Mapping[str, object]:
            at, now = datetime.now(UTC), time.monotonic()
            parts = (settings, fleet, admission, counters, budgets)
            return status_of(*parts, since=since, at=at, now=now).to_json()

        relay = Relay(settings, fleet, admission, budgets, ended=ended)
        gateway = Gateway(
            settings,
            fleet,
            _clients(settings, home, report),
            relay,
            operator_key=operator_key,
            metrics=counters.text,
            status=status,
        )
        watching = asyncio.create_task(fleet.run())
        try:
            with suppress(asyncio.CancelledError):  # a second signal
                async with serving(
                    gateway, relay, settings.host, settings.port, tls=config.tls
                ) as port:
                    listens(port)
                    report(f"Listening at {config.url(settings.host, port)}/v1")
                    stopped = asyncio.ensure_future(ends.wait())
                    await asyncio.wait((stopped, watching), return_when=asyncio.FIRST_COMPLETED)
                    stopped.cancel()
                    if relay.under_way:
                        report(
                            f"Requests under way ({relay.under_way}) have {DRAIN_S:.0f} s to end;"
                            " Ctrl-C ends them now."
                        )
            if watching.done():
                watching.result()
            if relay.cut_off:
                raise TpuflexError(
                    f"Answers that were cut off: {relay.cut_off}.",
                    hint="Their clients have the error gateway_stopping, and may ask again.",
                )
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def _until_a_signal() -> asyncio.Event:
    """What is set at Ctrl-C or SIGTERM; a second one cancels the task that runs."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    ends = asyncio.Event()

    def end() -> None:
        if ends.is_set() and task is not None:
            task.cancel()
        ends.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    return ends


def _classes(settings: GatewaySettings) -> dict[str, ClassRules]:
    return {
        name: ClassRules(
            FirstTokenLimits(
                each.first_token.slow, each.first_token.very_slow, each.first_token.learn
            ),
            each.wait.total_seconds(),
            each.waiting,
        )
        for name, each in settings.all_classes.items()
    }


def _clients(settings: GatewaySettings, home: Path, report: Report) -> Clients:
    if settings.clients:
        return Clients(settings.clients)
    key = _kept_key(home, "client")
    report(f"Key: {key_file(home, 'client')}")
    return Clients({_LOCAL: ClientSettings(key_sha256=digest(key.encode()))})


def _kept_key(home: Path, whose: str) -> str:
    """The key in a file that only this user can read; made if there is none."""
    path = key_file(home, whose)
    own_directory(path.parent)
    if path.exists():
        return read_private(path).strip()
    key = new_key(whose).key
    write_private(path, f"{key}\n")
    return key
