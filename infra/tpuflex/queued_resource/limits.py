"""Limits and rules that hold for a stack file and for a program alike. Pure.

Each border says in its own names what breaks them: the stack file in
:mod:`tpuflex.settings`, the provider in :mod:`tpuflex.queued_resource.check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from tpuflex.catalog.zones import region_of

#: The shortest run that leaves time to boot and load weights (Compute Engine's own minimum for
#: Flex-start), and the longest that Flex-start allows
#: (https://cloud.google.com/tpu/docs/request-using-flex-start).
SHORTEST_RUN = timedelta(minutes=10)
LONGEST_RUN = timedelta(days=7)
#: Our own limit: a deletion that waits goes on costing money.
LONGEST_DRAIN = timedelta(hours=1)
#: Our own limit, Google documents none: each node is looked at, and may have to be deleted, by
#: itself.
MOST_NODES = 256
#: Google documents no limit; as for every name in RFC 1035.
NODE_ID_LIMIT = 63
ZONE_PATTERN = r"[a-z]+-[a-z]+\d+-[a-z0-9]+"
#: 6 to 30 characters, letter first, no hyphen at the end
#: (https://cloud.google.com/resource-manager/docs/creating-managing-projects).
PROJECT_PATTERN = r"[a-z][a-z0-9-]{4,28}[a-z0-9]"
#: Ids that the API takes, but for `%` and a leading dot: in a URL these name something else
#: (https://cloud.google.com/tpu/docs/reference/rest/v2alpha1/projects.locations.queuedResources/create).
REQUEST_ID_PATTERN = r"[A-Za-z0-9_~+-][A-Za-z0-9_.~+-]*"


def run_fits(length: timedelta) -> bool:
    """Whether Flex-start allows a run of that length."""
    return SHORTEST_RUN <= length <= LONGEST_RUN


def named_twice(zones: Sequence[str]) -> list[str]:
    """The zones that stand more than once in ``zones``."""
    return sorted({zone for zone in zones if zones.count(zone) > 1})


def regions_of(zones: Sequence[str]) -> list[str]:
    """The regions of ``zones``; a subnetwork lies in one."""
    return sorted({region_of(zone) for zone in zones})


def renews_at_once(renew_before: timedelta, run: timedelta) -> bool:
    """Whether every run would be renewed as soon as it begins."""
    return renew_before >= run
