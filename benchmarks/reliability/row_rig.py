"""The dev stack, brought up once, and from there taken straight to any row of the refresh table.

The stack is saved once it is up (Pulumi's state, the embedded cloud's store and objects) and
restored before each case. Where the cloud would need days to reach a condition, its store is edited
instead; clients see no difference.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import yaml

from reliability import processes
from reliability.processes import Ended
from reliability.rig import TIMEOUT_S, StackRig
from tpuflex.naming import LABEL_OWNER, LABEL_STACK
from tpuflex.request.outcomes import Condition

Json = dict[str, Any]
Documents = dict[tuple[str, str], Json]

REQUESTS, NODES = "tpu/queuedResources", "tpu/nodes"
#: Real seconds after which the stack is brought up anew, so that its run is never over.
_KEPT_FOR_S = 3600.0
#: Longer than any command takes.
FOR_EVER = 1e9


class RowRig(StackRig):
    """A :class:`StackRig` that can be put into each condition."""

    def __init__(self, home: Path, *, speed: float = 1.0) -> None:
        super().__init__(home, speed=speed)
        self._kept_at: float | None = None
        self._documents: Documents = {}

    def __enter__(self) -> Self:
        super().__enter__()
        file = self.home / "stacks" / "Pulumi.dev.yaml"
        document = yaml.safe_load(file.read_text())
        slice_ = document["config"]["tpuflex:slice"]
        # Time runs fast: a run outlasts all cases, and a wait is soon over.
        slice_["max_run_duration"] = "7d"
        slice_["timeouts"] = {"queue": "10m", "provisioning": "10m", "delete": "1h"}
        file.write_text(yaml.safe_dump(document))
        return self

    def begin(self) -> None:
        """Begin a case with the stack up, just as it was the first time."""
        if self._kept_at is None or time.monotonic() - self._kept_at > _KEPT_FOR_S:
            self.reset()
            assert self.run("up", "--yes").exit_code == 0, self.said[-1].stderr
            self._keep()
            return
        self.control.set_faults()
        self.control.capacity()
        for directory in ("backend", "emulator/objects"):
            target = self.home / ".tpuflex" / directory
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(self._kept / directory, target)
        with self._stored() as documents:
            settings = {key: value for key, value in documents.items() if key[0] == "_emulator"}
            documents.clear()
            documents.update(self._documents)
            documents.update(settings)

    def stand(self, condition: Condition) -> None:
        """Bring the stack into ``condition`` without Pulumi knowing."""
        # The rules come first: they apply to an edited resource from the moment of the edit.
        self.control.capacity(**_RULES.get(condition, {}))
        with self._stored() as documents:
            if condition is not Condition.ACTIVE:
                _EDITS[condition](documents)

    def run_engine(self, *words: str) -> Ended:
        """Run one of the engine's own commands on the stack."""
        ended = processes.run(
            [str(self.engine().path), "--non-interactive", *words],
            cwd=self.home,
            environ={**self.environ(), **self._pace(), processes.MARK: self.mark},
            started=self._register,
            timeout_s=TIMEOUT_S,
        )
        self.said.append(ended)
        return ended

    @property
    def _kept(self) -> Path:
        return self.home / "kept"

    def _keep(self) -> None:
        shutil.rmtree(self._kept, ignore_errors=True)
        for directory in ("backend", "emulator/objects"):
            shutil.copytree(self.home / ".tpuflex" / directory, self._kept / directory)
        with self._stored() as documents:
            self._documents = dict(documents)
        self._kept_at = time.monotonic()

    @contextmanager
    def _stored(self) -> Iterator[Documents]:
        """The embedded cloud's documents; all changes to them are written in one transaction."""
        file = self.home / ".tpuflex" / "emulator" / "store.sqlite"
        with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as database:
            database.execute("BEGIN IMMEDIATE")
            rows = database.execute("SELECT collection, key, value FROM documents").fetchall()
            documents = {(collection, key): json.loads(value) for collection, key, value in rows}
            yield documents
            database.execute("DELETE FROM documents")
            database.executemany(
                "INSERT INTO documents VALUES (?, ?, ?)",
                [(c, key, json.dumps(value)) for (c, key), value in documents.items()],
            )
            database.execute("COMMIT")


def _all(documents: Documents, kind: str) -> list[Json]:
    return [value for (collection, _), value in documents.items() if collection == kind]


def _remove(documents: Documents, kind: str) -> None:
    for key in [key for key in documents if key[0] == kind]:
        del documents[key]


def _enter(state: str, **more: Any) -> Callable[[Documents], None]:
    """An edit that puts the request into another state and removes its node."""

    def edit(documents: Documents) -> None:
        _remove(documents, NODES)
        for request in _all(documents, REQUESTS):
            request.update(state=state, initiator="SERVICE", active_at=None, **more)

    return edit


def _lose_request(documents: Documents) -> None:
    _remove(documents, REQUESTS)
    for node in _all(documents, NODES):
        node["queued_resource"] = ""


def _lose_all(documents: Documents) -> None:
    _remove(documents, REQUESTS)
    _remove(documents, NODES)


def _give_away(documents: Documents) -> None:
    """Give the name to somebody else: a later request, for hosts in another network."""
    stranger = {LABEL_OWNER: "ffff", LABEL_STACK: "prod"}
    for request in _all(documents, REQUESTS):
        request["created_at"] += 1
        for each in request["spec"]["tpu"]["nodeSpec"]:
            each["node"] = {**each["node"], "labels": stranger, "networkConfig": {}}
    for node in _all(documents, NODES):
        node["created_at"] += 1
        node["spec"] = {**node["spec"], "labels": stranger, "networkConfig": {}}


def _being_deleted(documents: Documents) -> None:
    """Let somebody begin to delete the request, as of now on the cloud's clock."""
    _remove(documents, NODES)
    for request in _all(documents, REQUESTS):
        request.update(state="DELETING", initiator="USER")


_EDITS: dict[Condition, Callable[[Documents], None]] = {
    Condition.WAITING: _enter("WAITING_FOR_RESOURCES"),
    Condition.PROVISIONING: _enter("PROVISIONING"),
    Condition.ENDED: _enter("SUSPENDED"),
    Condition.FAILED: _enter("FAILED", error=["RESOURCE_EXHAUSTED", "no more capacity"]),
    Condition.NODE_MISSING: lambda documents: _remove(documents, NODES),
    Condition.ORPHANED: _lose_request,
    Condition.DELETING: _being_deleted,
    Condition.GONE: _lose_all,
    Condition.FOREIGN: _give_away,
}
_RULES: dict[Condition, Json] = {
    Condition.WAITING: {"never": True},
    Condition.PROVISIONING: {"provisioning_s": FOR_EVER},
    Condition.DELETING: {"deleting_s": FOR_EVER},
}
