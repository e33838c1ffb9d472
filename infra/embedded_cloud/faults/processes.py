"""Kill points: finding the client's processes by role, and sending them signals.

Only processes that belong to a registered root are ever signalled (its descendants, and processes
with the registered mark in their environment), and the role ``gcp``: the stand-in for the gcp
provider, a child of the emulator, which starts it again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

import psutil

from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, JsonValue
from embedded_cloud.machines.hosts.processes import is_alive, same_process

#: All processes that belong to the registered root.
FAMILY = "family"
#: Roles that need no registration: what a word of the command line begins with, and the name
#: of the program (also of a script that an interpreter runs).
_MODULES = {"provider": "tpuflex.plugin"}
_PROGRAMS = {"provider": "pulumi-resource-tpuflex", "engine": "pulumi"}
#: The emulator's own child that plays a provider.
GCP = "gcp"
_GCP_MODULE = "embedded_cloud.gcp_plugin"
_LOOK_S = 0.005


@dataclass(frozen=True, slots=True)
class Roles:
    """Which process has which role.

    Attributes:
        root: process id whose descendants may be signalled; 0 for none.
        mark: ``NAME=value`` in the environment of further processes that may be signalled: it
            still finds those whose parents are dead.
        processes: role -> (process id, start time in epoch seconds).
    """

    root: int = 0
    mark: str = ""
    processes: Mapping[str, tuple[int, float]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: JsonValue) -> Roles:
        """Read ``{"root": pid, "mark": "NAME=value", "cli": pid}``.

        Raises:
            CloudError: 400; also when a named process does not run.
        """
        if not isinstance(document, dict):
            raise invalid_argument("roles must be an object")
        root, mark = document.get("root", 0), document.get("mark", "")
        if not isinstance(root, int) or not isinstance(mark, str):
            raise invalid_argument("roles: root must be a process id and mark NAME=value")
        processes: dict[str, tuple[int, float]] = {}
        for role, who in document.items():
            if role in ("root", "mark"):
                continue
            if isinstance(who, int) and not isinstance(who, bool):
                processes[role] = (who, _started(who))
            else:
                raise invalid_argument(f"roles: {role} must be a process id")
        return cls(root, mark, processes)

    def to_json(self) -> JsonObject:
        """The form that :meth:`from_json` reads."""
        return {
            "root": self.root,
            "mark": self.mark,
            **{role: pid for role, (pid, _) in self.processes.items()},
        }


def find(roles: Roles, names: Iterable[str]) -> list[tuple[str, psutil.Process]]:
    """The living processes of the named roles, each once, with the role."""
    family = _family(roles)
    matching: dict[int, tuple[str, psutil.Process]] = {}
    for name in names:
        for process in _of_role(roles, name, family):
            matching.setdefault(process.pid, (name, process))
    return list(matching.values())


def send(processes: Iterable[psutil.Process], name: str) -> list[psutil.Process]:
    """Send the signal ``name`` (KILL, TERM, INT, STOP, CONT); returns those that got it."""
    number = signal.Signals[f"SIG{name}"]
    reached = []
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue
        reached.append(process)
    return reached


def await_end(processes: Iterable[psutil.Process], seconds: float) -> bool:
    """Wait until all are dead (or zombies); false if they are not in time."""
    deadline = time.monotonic() + seconds
    left = [process for process in processes if is_alive(process)]
    while left:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_S)
        left = [process for process in left if is_alive(process)]
    return True


def described(role: str, process: psutil.Process) -> JsonObject:
    """``process`` as the history shows it."""
    try:
        name = process.name()
    except psutil.Error:
        name = ""
    return {"role": role, "pid": process.pid, "name": name}


def _of_role(roles: Roles, name: str, family: list[psutil.Process]) -> list[psutil.Process]:
    if name == FAMILY:
        return family
    if name == GCP:
        mine = psutil.Process().children()
        return [process for process in mine if _GCP_MODULE in _words(process)]
    if name in roles.processes:
        pid, started = roles.processes[name]
        process = same_process(pid, started)
        return [] if process is None else [process]
    return [process for process in family if _plays(name, _words(process))]


def _plays(role: str, words: list[str]) -> bool:
    module, program = _MODULES.get(role, ""), _PROGRAMS.get(role, role)
    if any(PurePath(word).name == program for word in words[:2]):
        return True
    return bool(module) and any(word.startswith(module) for word in words)


def _family(roles: Roles) -> list[psutil.Process]:
    """Root, its descendants, and what carries the mark; never this process or its ancestors."""
    protected = {os.getpid(), 0, 1, *(parent.pid for parent in psutil.Process().parents())}
    found: dict[int, psutil.Process] = {}
    for root in _existing(roles.root):
        try:
            members = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
        found |= {member.pid: member for member in members}
    if roles.mark:
        name, _, value = roles.mark.partition("=")
        found |= {
            process.pid: process
            for process in psutil.process_iter()
            if _variable(process, name) == value
        }
    return [process for pid, process in found.items() if pid not in protected and is_alive(process)]


def _existing(pid: int) -> list[psutil.Process]:
    try:
        return [psutil.Process(pid)] if pid > 1 else []
    except psutil.NoSuchProcess:
        return []


def _started(pid: int) -> float:
    for process in _existing(pid):
        return process.create_time()
    raise invalid_argument(f"roles: there is no process {pid}")


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _variable(process: psutil.Process, name: str) -> str | None:
    try:
        return process.environ().get(name)
    except psutil.Error:
        return None
