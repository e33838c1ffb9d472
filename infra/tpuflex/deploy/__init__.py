"""What the engine does for a stack: a function for each command.

They take a :class:`~tpuflex.stack.connection.Connection`, return values, tell what goes on to a
callback, and ask through one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpuflex.deploy.approval import Approval
    from tpuflex.deploy.leftovers import sweep
    from tpuflex.deploy.library import library_down, library_status, library_up
    from tpuflex.deploy.many_teardowns import down_many
    from tpuflex.deploy.restarts import Restart, reboot, restart
    from tpuflex.deploy.secrets import ensure_secrets, list_secrets, put_secret, rotate_secret
    from tpuflex.deploy.stack_preview import Preview, preview
    from tpuflex.deploy.stack_up import UpResult, up
    from tpuflex.deploy.state_recovery import recover
    from tpuflex.deploy.teardown import down

#: Public name -> the module that has it, which is loaded on first use: the names cost nothing.
_MODULES = {
    "Approval": "approval",
    "Preview": "stack_preview",
    "Restart": "restarts",
    "UpResult": "stack_up",
    "down": "teardown",
    "down_many": "many_teardowns",
    "ensure_secrets": "secrets",
    "library_down": "library",
    "library_status": "library",
    "library_up": "library",
    "list_secrets": "secrets",
    "preview": "stack_preview",
    "put_secret": "secrets",
    "reboot": "restarts",
    "recover": "state_recovery",
    "restart": "restarts",
    "rotate_secret": "secrets",
    "sweep": "leftovers",
    "up": "stack_up",
}

__all__ = [
    "Approval",
    "Preview",
    "Restart",
    "UpResult",
    "down",
    "down_many",
    "ensure_secrets",
    "library_down",
    "library_status",
    "library_up",
    "list_secrets",
    "preview",
    "put_secret",
    "reboot",
    "recover",
    "restart",
    "rotate_secret",
    "sweep",
    "up",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
