"""Talking to a running endpoint, or its slice: a function for each command.

They take a :class:`~tpuflex.stack.connection.Connection`, return values, and tell what goes on to a
callback.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpuflex.operate.boots import boots_of
    from tpuflex.operate.endpoint_events import Event, Events, events
    from tpuflex.operate.endpoint_status import EndpointStatus, status
    from tpuflex.operate.host_access import ssh, tunnel
    from tpuflex.operate.host_log import HostLog, logs
    from tpuflex.operate.openai_client import Client, client, run_client
    from tpuflex.operate.question import Answer, Question, ask

#: Public name -> the module that has it, which is loaded on first use: the names cost nothing.
_MODULES = {
    "Answer": "question",
    "Client": "openai_client",
    "EndpointStatus": "endpoint_status",
    "Event": "endpoint_events",
    "Events": "endpoint_events",
    "HostLog": "host_log",
    "Question": "question",
    "ask": "question",
    "boots_of": "boots",
    "client": "openai_client",
    "events": "endpoint_events",
    "logs": "host_log",
    "run_client": "openai_client",
    "ssh": "host_access",
    "status": "endpoint_status",
    "tunnel": "host_access",
}

__all__ = [
    "Answer",
    "Client",
    "EndpointStatus",
    "Event",
    "Events",
    "HostLog",
    "Question",
    "ask",
    "boots_of",
    "client",
    "events",
    "logs",
    "run_client",
    "ssh",
    "status",
    "tunnel",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
