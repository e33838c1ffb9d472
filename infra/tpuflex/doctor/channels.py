"""Whether the notification channels of the endpoint's alert policies exist, and notify."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import NotFoundError
from tpuflex.gcloud_commands import list_channels
from tpuflex.google.reading import Unread, attempt_if_there

if TYPE_CHECKING:
    from tpuflex.doctor.cloud import ExaminedCloud
    from tpuflex.google.transport import JsonObject

#: The examination, by the name that `up --skip-check` takes.
CHANNELS = "channels"
CHANNEL = Subject(Group.PERMISSIONS, "alert channel")


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of the notification channels."""
    return [Examination(Group.PERMISSIONS, CHANNELS, partial(channel_checks, cloud))]


def channel_checks(cloud: ExaminedCloud) -> list[Check]:
    """Whether each channel that the stack names notifies anybody."""
    monitoring = cloud.apis.monitoring
    return [
        channel_check(
            name,
            attempt_if_there(partial(monitoring.call, "GET", f"/v3/{name}")),
            cloud.project,
        )
        for name in cloud.settings.monitoring.notification_channels
    ]


def channel_check(name: str, found: JsonObject | Unread | None, project: str) -> Check:
    """Whether the channel ``name`` notifies anybody.

    Args:
        name: its full name.
        found: the channel as Cloud Monitoring has it; None if it is not there.
        project: the project whose channels the remedy lists.
    """
    if found is None:
        return CHANNEL.failed(
            NotFoundError,
            f"{name} is not there",
            f"Write one that `{list_channels(project)}` shows to"
            " tpuflex:monitoring.notification_channels.",
        )
    if isinstance(found, Unread):
        return CHANNEL.unknown(found)
    shown = found.get("displayName") or found.get("type") or "without a name"
    if found.get("enabled") is False:
        text, remedy = "is disabled: it notifies nobody", "Enable it in the console."
    elif found.get("verificationStatus") == "UNVERIFIED":
        text, remedy = "is not verified: it notifies nobody", "Verify it in the console."
    else:
        return CHANNEL.ok(f"{shown}, {name}")
    return CHANNEL.warning(f"{shown}, {name}, {text}", remedy)
