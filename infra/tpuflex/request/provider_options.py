"""What a program may say about how capacity is had, kept, renewed and given up.

None of it reaches Google: it is what this provider does around the request. The field texts
are also the texts of the package schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from pulumi_plugin.values import Properties, Value
from tpuflex.catalog.zones import region_of
from tpuflex.request.values import Group, Seconds


class CapacityArgs(Group):
    """Inputs that steer the provider itself."""

    strategy: Literal["race", "ordered"] = "race"
    """How several zones are asked: `race` asks in all of them at once and deletes the losers;
    `ordered` asks in one after the other, each for its share of `queueTimeout`."""

    queue_timeout: Seconds = "86400s"
    """How long to wait in the queue: seconds with the suffix s, 24 hours by default. After
    that the request stays in the queue and in the state; the next `pulumi up` waits on."""

    provisioning_timeout: Seconds = "10800s"
    """How long the hosts may take to be made once capacity was granted: seconds with the suffix
    s, 3 hours by default."""

    delete_timeout: Seconds = "10800s"
    """How long a deletion may take: seconds with the suffix s, 3 hours by default. What is in
    PROVISIONING cannot be deleted, which was seen to last for 2 hours."""

    renew_before: Seconds | None = None
    """Plan a new run once less than this is left of the present one, or it is over: seconds
    with the suffix s. Without it, a run that ended stays ended."""

    rerun: str | None = Field(default=None, min_length=1, max_length=128)
    """Any text; changing it asks for a new run, whether the present one is over or not."""

    on_run_end: Literal["keep", "delete"] = "keep"
    """What the next `pulumi up` does with the leftover of a run that is over, which still uses
    quota: `keep` it, or `delete` it."""

    deletion_protection: bool = False
    """Whether deleting or replacing it is refused while it is ACTIVE. To delete it, set this to
    false and run `pulumi up` first."""


#: Inputs that no request carries: changing them changes nothing in the cloud.
STEERING = frozenset(to_camel(name) for name in CapacityArgs.model_fields)
#: What to write, by input.
EXAMPLES = {
    "strategy": "Write race or ordered.",
    "queueTimeout": "Write seconds with the suffix s, such as 86400s.",
    "provisioningTimeout": "Write seconds with the suffix s, such as 10800s.",
    "deleteTimeout": "Write seconds with the suffix s, such as 10800s.",
    "renewBefore": "Write seconds with the suffix s, such as 43200s.",
    "onRunEnd": "Write keep or delete.",
}


def seconds(text: str) -> float:
    """The number in ``14400s``."""
    return float(text.removesuffix("s"))


def conflicts(inputs: Properties) -> Iterator[tuple[str, str]]:
    """What cannot be honoured together, as (input, reason naming the other); only of values
    that are known and well-formed."""
    renew, run = inputs.get("renewBefore"), inputs.get("maxRunDuration")
    if _is_seconds(renew) and _is_seconds(run) and seconds(str(renew)) >= seconds(str(run)):
        yield (
            "renewBefore",
            f"{renew} is not shorter than maxRunDuration ({run}): every run would be renewed as"
            " soon as it begins. Write less, or a longer maxRunDuration.",
        )
    zones = inputs.get("zones")
    if not isinstance(zones, list) or not all(isinstance(zone, str) for zone in zones):
        return
    names = [str(zone) for zone in zones]
    if len(set(names)) < len(names):
        yield "zones", f"a zone is named twice: {', '.join(names)}. Name each once."
    regions = sorted({region_of(name) for name in names})
    if len(regions) > 1 and inputs.get("subnetwork") is not None:
        yield (
            "zones",
            f"the zones are in {' and '.join(regions)}, but subnetwork is in one region."
            " Write zones of one region, or no subnetwork.",
        )


def _is_seconds(value: Value) -> bool:
    return isinstance(value, str) and value.endswith("s") and value[:-1].isdecimal()
