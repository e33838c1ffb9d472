"""The Cloud Logging v2 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.logging.handlers import EntryHandlers
from embedded_cloud.logging.state import Entries
from embedded_cloud.routing import Context, Service


def service(context: Context) -> Service:
    """Cloud Logging: the entries of projects."""
    entries = EntryHandlers(Entries(context.store, context.clock), context.clock)
    return Service(
        name="logging",
        version="v2",
        handlers={
            "logging.entries.write": entries.write,
            "logging.entries.list": entries.list,
            "logging.entries.tail": entries.tail,
        },
    )
