"""The inputs of a queued resource: one row each, from which everything else is made.

A row is a field: its type with its limits, its :class:`~tpuflex.queued_resource.rows.Input` (place
on the wire, what to write, what a change does), its default, and its text. Check, body, import,
diff, package schema and the generated Python class (:mod:`tpuflex.tpu`) all read it here. How to
add one: contributing/FIELD.md.

Source of all fields: `QueuedResource` and `Node` of `tpu.v2alpha1`, revision 20261001.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_origin

from pydantic import AfterValidator, Field
from pydantic.alias_generators import to_camel

from pulumi_plugin.values import Value
from tpuflex.duration import format_duration, google_duration, google_seconds, parse_duration
from tpuflex.queued_resource.limits import (
    LONGEST_DRAIN,
    LONGEST_RUN,
    PROJECT_PATTERN,
    SHORTEST_RUN,
    ZONE_PATTERN,
    run_fits,
)
from tpuflex.queued_resource.node_fields import Host, HostNetwork
from tpuflex.queued_resource.objects import (
    ID_EXAMPLE,
    SECONDS_EXAMPLE,
    SWITCH_EXAMPLE,
    TIME_EXAMPLE,
    Guaranteed,
    Interval,
    MultiNode,
)
from tpuflex.queued_resource.rows import (
    Form,
    Group,
    Input,
    Moment,
    OnChange,
    Seconds,
    defaults,
    object_type,
    provider_input,
    rows,
)

_POLICY = "queueingPolicy"
_QUEUES = OnChange.QUEUES
_Zone = Annotated[str, Field(pattern=f"^{ZONE_PATTERN}$")]


def _checked_run(value: str) -> str:
    if google_seconds(value) is None or not run_fits(parse_duration(value)):
        shortest, longest = (
            f"{google_duration(limit)} ({format_duration(limit)})"
            for limit in (SHORTEST_RUN, LONGEST_RUN)
        )
        raise ValueError(f"a Flex-start run lasts at least {shortest} and at most {longest}")
    return value


def _checked_drain(value: str) -> str:
    if parse_duration(value) > LONGEST_DRAIN:
        longest = f"{google_duration(LONGEST_DRAIN)} ({format_duration(LONGEST_DRAIN)})"
        raise ValueError(f"a drain lasts at most {longest}")
    return value


class ProviderOptions(Group):
    """How capacity is had, kept, renewed and given up: what this provider does around the
    request. None of it reaches Google."""

    strategy: Annotated[Literal["race", "ordered"], provider_input("Write race or ordered.")] = (
        "race"
    )
    """How several zones are asked: `race` asks in all of them at once and deletes the losers;
    `ordered` asks in one after the other, each for its share of `queueTimeout`."""

    queue_timeout: Annotated[
        Seconds, provider_input("Write seconds with the suffix s, such as 86400s.")
    ] = "86400s"
    """How long to wait in the queue: seconds with the suffix s, 24 hours by default. After
    that the request stays in the queue and in the state; the next `pulumi up` waits on."""

    provisioning_timeout: Annotated[
        Seconds, provider_input("Write seconds with the suffix s, such as 10800s.")
    ] = "10800s"
    """How long the hosts may take to be made once capacity was granted: seconds with the suffix
    s, 3 hours by default."""

    delete_timeout: Annotated[
        Seconds, provider_input("Write seconds with the suffix s, such as 10800s.")
    ] = "10800s"
    """How long a deletion may take: seconds with the suffix s, 3 hours by default. What is in
    PROVISIONING cannot be deleted, which was seen to last for 2 hours."""

    drain_timeout: Annotated[
        Annotated[str, Field(pattern=r"^(0|[1-9]\d{0,9})s$"), AfterValidator(_checked_drain)],
        provider_input("Write seconds with the suffix s, such as 600s; 0s does not wait."),
    ] = "600s"
    """How long a deletion waits for the answers that the host has begun: seconds with the suffix s,
    at most 3600s, 10 minutes by default; 0s deletes at once. Only hosts that report what they
    serve are asked to drain."""

    ready_timeout: Annotated[
        Seconds, provider_input("Write seconds with the suffix s, such as 3600s.")
    ] = "3600s"
    """How long the host of what takes over from a slice that serves may take until it serves
    itself, once it runs: seconds with the suffix s, an hour by default. The slice that serves is
    deleted only then."""

    first_report_timeout: Annotated[
        Seconds, provider_input("Write seconds with the suffix s, such as 600s.")
    ] = "600s"
    """How long that host may say nothing at all: seconds with the suffix s, 10 minutes by
    default."""

    renew_before: Annotated[
        Seconds | None, provider_input("Write seconds with the suffix s, such as 43200s.")
    ] = None
    """Plan a new run once less than this is left of the present one, or it is over: seconds
    with the suffix s. Without it, a run that ended stays ended."""

    rerun: Annotated[
        str | None,
        Field(min_length=1, max_length=128),
        provider_input("Write any text, such as run-2."),
    ] = None
    """Any text; changing it asks for a new run, whether the present one is over or not."""

    on_run_end: Annotated[
        Literal["keep", "delete", "accept"], provider_input("Write keep, delete or accept.")
    ] = "keep"
    """What the next `pulumi up` does when the run is over: `keep` its leftover, which still uses
    quota, or `delete` it, and fail, because there is no slice; or `accept` the end: keep the
    leftover, warn, and succeed."""

    on_boot_failure: Annotated[
        Literal["keep", "delete"], provider_input("Write keep or delete.")
    ] = "keep"
    """What becomes of a slice that was just made to take over from one that serves, and whose host
    says that its boot has failed, or says nothing: `keep` it in the state, where the next
    `pulumi up` goes on with it, and billed, for a look at it; or `delete` it, and fail. One that is
    only slow is kept. Where nothing serves yet, nobody waits for the boot here."""

    replace: Annotated[
        Literal["create_first", "delete_first"],
        provider_input("Write create_first or delete_first."),
    ] = "create_first"
    """How a slice is replaced: `create_first` has the next one serve before this one is deleted,
    which takes quota for both; `delete_first` drains and deletes this one before capacity is asked
    for again: nothing serves until that is granted and has booted."""

    deletion_protection: Annotated[bool, provider_input(SWITCH_EXAMPLE)] = False
    """Whether deleting or replacing it is refused while it is ACTIVE. To delete it, set this to
    false and run `pulumi up` first."""


class Terms(Group):
    """On what terms capacity is asked for, for how long, valid from and until."""

    provisioning_model: Annotated[
        Literal["FLEX_START", "STANDARD", "SPOT", "RESERVATION_BOUND"],
        Input("provisioningModel", "Write FLEX_START, STANDARD, SPOT or RESERVATION_BOUND."),
    ] = "FLEX_START"
    """How capacity is obtained: FLEX_START (the default; waits in a queue, then runs for a fixed
    time), STANDARD (on demand), SPOT (may be taken back at any time) or RESERVATION_BOUND (from
    `reservationName`)."""

    max_run_duration: Annotated[
        Annotated[Seconds, AfterValidator(_checked_run)] | None,
        Input("runDuration.maxRunDuration", SECONDS_EXAMPLE),
    ] = None
    """After this time Google deletes the hosts, whatever they do: seconds with the suffix s,
    600s to 604800s (7 days). FLEX_START needs either this or `terminationTime`."""

    termination_time: Annotated[
        Moment | None, Input("runDuration.terminationTime", TIME_EXAMPLE)
    ] = None
    """At this time Google deletes the hosts, whatever they do (RFC 3339), at most 7 days from
    now. FLEX_START needs either this or `maxRunDuration`."""

    valid_until_duration: Annotated[
        Seconds | None, Input(f"{_POLICY}.validUntilDuration", SECONDS_EXAMPLE, _QUEUES)
    ] = None
    """Give the request up after this time in the queue: seconds with the suffix s. By default it
    waits until it is granted or deleted."""

    valid_until_time: Annotated[
        Moment | None, Input(f"{_POLICY}.validUntilTime", TIME_EXAMPLE, _QUEUES)
    ] = None
    """Give the request up at this time (RFC 3339)."""

    valid_after_duration: Annotated[
        Seconds | None, Input(f"{_POLICY}.validAfterDuration", SECONDS_EXAMPLE, _QUEUES)
    ] = None
    """Make no hosts before this time has passed: seconds with the suffix s."""

    valid_after_time: Annotated[
        Moment | None, Input(f"{_POLICY}.validAfterTime", TIME_EXAMPLE, _QUEUES)
    ] = None
    """Make no hosts before this time (RFC 3339)."""

    valid_interval: Annotated[
        Interval | None,
        Input(
            f"{_POLICY}.validInterval",
            "Write {startTime, endTime}, times such as 2026-12-01T08:00:00Z.",
            _QUEUES,
        ),
    ] = None
    """Make hosts only within this span of time; for an earliest and a latest time together."""

    reservation_name: Annotated[
        str | None,
        Field(pattern=r"^projects/[^/]+/locations/[^/]+/reservations/[^/]+$"),
        Input("reservationName", "Write projects/P/locations/Z/reservations/R."),
    ] = None
    """Reservation to take the capacity from, `projects/P/locations/Z/reservations/R`. Only with
    RESERVATION_BOUND, which needs it."""

    best_effort: Annotated[bool, Input("bestEffort", SWITCH_EXAMPLE, form=Form.FLAG)] = False
    """Whether to ask in the best-effort tier, whose hosts may be taken back at any time. Only
    with STANDARD; off by default."""

    guaranteed: Annotated[
        Guaranteed | None, Input("guaranteed", "Write {minDuration, reserved}, or {}.")
    ] = None
    """Ask in the guaranteed tier, on these terms. Only with STANDARD or RESERVATION_BOUND."""

    multi_node: Annotated[
        MultiNode | None, Input("tpu.nodeSpec.multiNodeParams", "Write {nodeCount}, 2 to 256.")
    ] = None
    """Ask for several nodes (slices of the same shape) instead of one, which has the id of the
    queued resource. It is ACTIVE once every node is READY, and replaced once one of them is lost.
    Google's API allows it with every provisioning model; with FLEX_START it was tried on the
    embedded cloud only. The stack file's `tpuflex:slice` is always one node."""


class RequestArgs(ProviderOptions, Terms, HostNetwork, Host):
    """Inputs of `tpuflex:tpu:QueuedResource`."""

    queued_resource_id: Annotated[
        str,
        Field(pattern=r"^[a-z]([a-z0-9-]{0,58}[a-z0-9])?$"),
        Input(
            "tpu.nodeSpec.nodeId",
            "Write 1 to 60 lower-case letters, digits and hyphens, a letter first.",
            form=Form.IN_NAME,
        ),
    ]
    """Id of the queued resource within its zone; the node gets the same id. While it is given,
    old and new cannot exist together: a replacement deletes first. Made from
    `queuedResourceIdPrefix` unless given."""

    queued_resource_id_prefix: Annotated[
        str | None,
        Field(pattern=r"^[a-z]([a-z0-9-]{0,198}[a-z0-9])?$"),
        Input(
            example=ID_EXAMPLE,
            on_change=OnChange.NOTHING,
        ),
    ] = None
    """What ids are made of: PREFIX-g1, and PREFIX-g2 for what replaces it. Made from Pulumi
    project, stack and logical name unless given."""

    project: Annotated[
        str,
        Field(pattern=f"^{PROJECT_PATTERN}$"),
        Input(
            "tpu.nodeSpec.parent",
            "Write the id of a Google Cloud project, or set it on the provider.",
            form=Form.IN_NAME,
        ),
    ]
    """Google Cloud project id; the provider's project unless given."""

    zones: Annotated[
        tuple[_Zone, ...],
        Field(min_length=1),
        Input(
            "tpu.nodeSpec.parent",
            "Write zones, such as [us-east5-a, us-east5-b].",
            form=Form.IN_NAME,
        ),
    ]
    """Zones in which capacity is asked for, such as us-east5-a. The first that grants it has the
    slice (see `strategy`)."""


#: The rows by the inputs' names on the wire.
ROWS: Mapping[str, Input] = {to_camel(name): row for name, row in rows(RequestArgs).items()}
#: Names on the wire of all inputs.
INPUTS = frozenset(ROWS)
#: Inputs for this provider alone, which states of imports do not hold.
PROVIDER_ONLY = frozenset(to_camel(name) for name in ProviderOptions.model_fields)
#: Inputs that are maps, whose keys are the program's own words.
MAPS = frozenset(
    to_camel(name)
    for name, field in RequestArgs.model_fields.items()
    if get_origin(field.annotation) is dict
)
#: Inputs without which nothing can be asked for.
REQUIRED = frozenset(
    to_camel(name) for name, field in RequestArgs.model_fields.items() if field.is_required()
)
#: What an input that is left out means, where that is not "nothing".
DEFAULTS: Mapping[str, Value] = defaults(RequestArgs)
#: The same for what is inside of an input.
INNER_DEFAULTS: Mapping[str, Mapping[str, Value]] = {
    to_camel(name): defaults(group)
    for name, field in RequestArgs.model_fields.items()
    if (group := object_type(field.annotation)) is not None
}
