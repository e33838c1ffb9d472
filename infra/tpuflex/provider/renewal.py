"""When a run is renewed: only by a rule that somebody wrote down, never by itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pulumi_plugin.values import Properties
from tpuflex.provider.pace import elapsed
from tpuflex.request.outcomes import TABLE, Condition
from tpuflex.request.provider_options import seconds
from tpuflex.request.states import Lifecycle

#: Said whenever a run is found to be over and nobody asked for another: with what to do then,
#: alone, and where nothing is left to clean up.
RUN_OVER_AND_NOW = TABLE[Condition.ENDED].up.text
RUN_OVER = RUN_OVER_AND_NOW.partition(": ")[0]
RUN_OVER_AND_GONE = RUN_OVER_AND_NOW.partition("; ")[0]


@dataclass(frozen=True, slots=True)
class Renewal:
    """A new run that the state and the clock ask for.

    Attributes:
        property: the output that is the reason.
        text: the reason in words.
    """

    property: str
    text: str


def due(inputs: Properties, outputs: Properties, now: float) -> Renewal | None:
    """The renewal that ``renewBefore`` asks for; None if it asks for none (yet).

    Args:
        inputs: inputs now.
        outputs: what the state says about the run.
        now: seconds since the epoch.
    """
    wanted = inputs.get("renewBefore")
    if not isinstance(wanted, str) or not wanted.removesuffix("s").isdecimal():
        return None
    where = outputs.get("lifecycle")
    if where == Lifecycle.ENDED.value:
        return Renewal("lifecycle", "the run is over, and renewBefore asks for a new one")
    left = remaining(outputs, now)
    if where != Lifecycle.ACTIVE.value or left is None or left >= seconds(wanted):
        return None
    return Renewal(
        "expireTime",
        f"{elapsed(left)} of the run are left, less than renewBefore ({elapsed(seconds(wanted))}):"
        " a new one takes over",
    )


def remaining(outputs: Properties, now: float) -> float | None:
    """Seconds until the run ends; None while that is not known."""
    expires = outputs.get("expireTime")
    if not isinstance(expires, str):
        return None
    try:
        return datetime.fromisoformat(expires).timestamp() - now
    except ValueError:
        return None
