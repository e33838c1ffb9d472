"""The slices of a stack, read as ``tpuflex status`` reads them, and the way to each.

All of it blocks: it runs in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from tpuflex.errors import TpuflexError
from tpuflex.host.serving import ServingPhase
from tpuflex.operate.endpoint_connection import (
    Route,
    api_key,
    certificate_fingerprint,
    connected,
)
from tpuflex.operate.slice import running_slices
from tpuflex.operate.tpu_lists import TpuLists
from tpuflex.planning.request import NotPlannable
from tpuflex.planning.stack import plan_stack
from tpuflex.settings.gateway import InFlightBand

if TYPE_CHECKING:
    from tpuflex.host.report import HostReport
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report
    from tpuflex.stack.stack import Stack

#: Requests in flight of a server of which nothing else is known.
ANY_SERVER = InFlightBand(least=16, most=256)

#: What makes a slice the same as before: the full name of its node, and its address.
Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class FoundSlice:
    """A slice whose host boots, or serves.

    Attributes:
        status: it, as the cloud has it.
        ready: whether its host has said READY.
        ends_in: seconds of this machine's time until its run ends; None if nobody ends it.
        draining: whether it takes nothing new.
    """

    status: SliceStatus
    ready: bool
    ends_in: float | None
    draining: bool

    @property
    def node(self) -> str:
        """Id of its node."""
        return self.status.node.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Look:
    """A look at a stack's slices.

    Attributes:
        slices: those whose hosts boot, or serve.
        unsure: those whose hosts cannot be asked now.
        whole: whether every zone has answered, so that there are no others.
    """

    slices: dict[Place, FoundSlice]
    unsure: frozenset[Place]
    whole: bool

    def is_gone(self, place: Place) -> bool:
        """Whether nothing serves there any more, for all that is known."""
        return self.whole and place not in self.slices and place not in self.unsure


@dataclass(frozen=True, slots=True)
class Way:
    """The way to a slice.

    Attributes:
        url: base URL from here, which ends in ``/v1``.
        fingerprint: SHA-256 of the certificate that its server has, in hex; or empty.
        key: reads the API key.
        tunnelled: whether it goes through a tunnel, which may break.
    """

    url: str
    fingerprint: str
    tunnelled: bool
    key: Callable[[], str]


class StackDiscovery:
    """Finds the slices of a stack. Safe to use from several threads, of which one looks.

    Args:
        stack: the stack.
        connect: connects to its cloud.
        reopen: opens it again whose file has changed: a run may be followed by one with another
            key, another port, or in another zone.

    Attributes:
        stack: the stack, as it was read last.
    """

    def __init__(
        self,
        stack: Stack,
        connect: Callable[[Stack], Connection],
        reopen: Callable[[Stack], Stack],
    ) -> None:
        self.stack = stack
        self._connect, self._reopen = connect, reopen
        self._version = _version(stack)
        self._found: Connection | None = None
        self._recorded: Callable[[], Collection[str]] = tuple

    def look(self) -> Look:
        """How its slices are now.

        Raises:
            TpuflexError: the cloud cannot be asked, or the stack's file is wrong by now.
        """
        self._read_again()
        cloud = self._cloud()
        try:
            lists, now = TpuLists(cloud.tpu), cloud.now()
            found = running_slices(
                self.stack.settings, self.stack.names, lists, now=now, recorded=self._recorded
            )
        except TpuflexError:
            self._found = None  # an embedded cloud may be elsewhere when it is started again
            raise
        speed = cloud.timing.speed
        slices = {
            (each.node, each.address): _found(each, each.host, now, speed)
            for each in found
            if each.address and each.host is not None and not _has_failed(each.host)
        }
        unsure = frozenset((each.node, each.address) for each in found if each.unread)
        return Look(slices, unsure, lists.whole)

    @contextmanager
    def way(self, status: SliceStatus, report: Report) -> Iterator[Way]:
        """The way to a slice, while the block runs.

        Args:
            status: the slice.
            report: receives why a tunnel is opened.

        Raises:
            TpuflexError: there is none.
        """
        cloud = self._cloud()
        with connected(cloud, status, report, tunnel=True) as found:
            fingerprint = certificate_fingerprint(cloud, found.url)
            tunnelled = found.through is Route.IAP
            yield Way(found.url, fingerprint, tunnelled, self._key)

    def _key(self) -> str:
        return api_key(self._cloud())

    def _read_again(self) -> None:
        version = _version(self.stack)
        if version != self._version:
            self.stack = self._reopen(self.stack)
            self._version, self._found = version, None

    def _cloud(self) -> Connection:
        cloud = self._found
        if cloud is None:
            cloud = self._connect(self.stack)
            # Where slices were made before does not change by itself, and may need the engine.
            self._recorded = cache(cloud.recorded_zones)
            self._found = cloud
        return cloud


def _version(stack: Stack) -> tuple[int, int] | None:
    """What differs when the stack's file was changed; None where there is none."""
    try:
        found = stack.file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def has_priorities(settings: StackSettings) -> bool:
    """Whether the scheduler of the stack's servers heeds the priorities of requests."""
    return settings.serving.given_flags.get("scheduling_policy") == "priority"


def in_flight_band(settings: StackSettings, host: HostReport | None) -> InFlightBand:
    """From the sequences of full length that the KV cache holds, as its host has counted it or
    else as it is planned, to the sequences that the server takes at once."""
    plan = plan_stack(settings)
    if isinstance(plan, NotPlannable):
        most = settings.serving.given_flags.get("max_num_seqs")
        if not isinstance(most, int):
            return ANY_SERVER
        return InFlightBand(least=1, most=most)
    held, most = plan.full_length_sequences, plan.request.max_num_seqs
    if host is not None and host.kv_cache is not None:
        held = host.kv_cache.tokens / plan.request.max_model_len
    return InFlightBand(least=min(max(1, int(held)), most), most=most)


def _has_failed(host: HostReport) -> bool:
    """Whether it does not come to serve by itself."""
    failed = host.serving is not None and host.serving.phase is ServingPhase.FAILED
    return failed or bool(host.error)


def _found(status: SliceStatus, host: HostReport, now: datetime, speed: float) -> FoundSlice:
    said = host.serving
    ends = (said and said.ends_at) or status.expires
    drains = said is not None and (
        said.phase is ServingPhase.DRAINING
        or (said.drains_at is not None and said.drains_at <= now)
    )
    ends_in = None if ends is None else (ends - now).total_seconds() / speed
    return FoundSlice(status, host.ready, ends_in, drains)
