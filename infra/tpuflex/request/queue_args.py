"""What a program may say about the request: on what terms, for how long, valid from and until.

Source of all fields: `QueuedResource` of `tpu.v2alpha1`, revision 20261001, unless another is
named.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tpuflex.request.values import Group, Moment, Seconds

SHORTEST_RUN = 600
LONGEST_RUN = 7 * 24 * 3600
#: Our own limit, Google documents none: each node is looked at, and may have to be deleted, by
#: itself.
MOST_NODES = 256
#: The two ways to bound a run.
RUN_LENGTH = ("maxRunDuration", "terminationTime")
#: A oneof in Google's definition: giving two of them is not "and".
QUEUEING_POLICY = (
    "validUntilDuration",
    "validUntilTime",
    "validAfterDuration",
    "validAfterTime",
    "validInterval",
)


def _run_length(value: str) -> str:
    seconds = int(value.removesuffix("s"))
    if not SHORTEST_RUN <= seconds <= LONGEST_RUN:
        raise ValueError("a Flex-start run lasts at least 600s (10m) and at most 604800s (7d)")
    return value


class Interval(Group):
    """A span of absolute time."""

    start_time: Moment | None = None
    """First moment at which hosts may be made (RFC 3339)."""

    end_time: Moment | None = None
    """From this moment on, hosts are not made any more (RFC 3339)."""


class Guaranteed(Group):
    """Terms of the guaranteed tier."""

    min_duration: Seconds | None = None
    """Only hosts that are free for at least this time will do: seconds with the suffix s."""

    reserved: bool = False
    """Whether only reserved capacity will do. Off by default."""


class MultiNode(Group):
    """Several nodes in one request: granted all together, or not at all."""

    node_count: int = Field(ge=2, le=MOST_NODES)
    """Number of nodes, 2 to 256."""

    node_id_prefix: str | None = Field(default=None, pattern=r"^[a-z]([a-z0-9-]{0,59}[a-z0-9])?$")
    """The nodes are called PREFIX-0, PREFIX-1, …; the id of the queued resource unless given.
    While it stays, old and new nodes cannot exist together: a replacement deletes first."""

    workload_type: Literal["THROUGHPUT_OPTIMIZED", "AVAILABILITY_OPTIMIZED"] | None = None
    """What maintenance spares: AVAILABILITY_OPTIMIZED for serving, THROUGHPUT_OPTIMIZED for
    jobs; Google chooses unless given."""


class QueueArgs(Group):
    """Inputs for the terms of the request."""

    provisioning_model: Literal["FLEX_START", "STANDARD", "SPOT", "RESERVATION_BOUND"] = (
        "FLEX_START"
    )
    """How capacity is obtained: FLEX_START (the default; waits in a queue, then runs for a fixed
    time), STANDARD (on demand), SPOT (may be taken back at any time) or RESERVATION_BOUND (from
    `reservationName`)."""

    max_run_duration: Annotated[Seconds, AfterValidator(_run_length)] | None = None
    """After this time Google deletes the hosts, whatever they do: seconds with the suffix s,
    600s to 604800s (7 days). FLEX_START needs either this or `terminationTime`."""

    termination_time: Moment | None = None
    """At this time Google deletes the hosts, whatever they do (RFC 3339), at most 7 days from
    now. FLEX_START needs either this or `maxRunDuration`."""

    valid_until_duration: Seconds | None = None
    """Give the request up after this time in the queue: seconds with the suffix s. By default it
    waits until it is granted or deleted."""

    valid_until_time: Moment | None = None
    """Give the request up at this time (RFC 3339)."""

    valid_after_duration: Seconds | None = None
    """Make no hosts before this time has passed: seconds with the suffix s."""

    valid_after_time: Moment | None = None
    """Make no hosts before this time (RFC 3339)."""

    valid_interval: Interval | None = None
    """Make hosts only within this span of time; for an earliest and a latest time together."""

    reservation_name: str | None = Field(
        default=None, pattern=r"^projects/[^/]+/locations/[^/]+/reservations/[^/]+$"
    )
    """Reservation to take the capacity from, `projects/P/locations/Z/reservations/R`. Only with
    RESERVATION_BOUND, which needs it."""

    best_effort: bool = False
    """Whether to ask in the best-effort tier, whose hosts may be taken back at any time. Only
    with STANDARD; off by default."""

    guaranteed: Guaranteed | None = None
    """Ask in the guaranteed tier, on these terms. Only with STANDARD or RESERVATION_BOUND."""

    multi_node: MultiNode | None = None
    """Ask for several nodes (slices of the same shape) instead of one, which has the id of the
    queued resource. It is ACTIVE once every node is READY, and replaced once one of them is lost.
    Google's API allows it with every provisioning model; with FLEX_START it was tried on the
    embedded cloud only. The stack file's `tpuflex:slice` is always one node."""
