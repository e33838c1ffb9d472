"""The engine on the library of a Google Cloud project: a Pulumi stack of its own kind.

Its Pulumi project is ``tpuflex-library`` and its stack is called like the Google Cloud project
(:func:`library_stack`), in the backend in which the stacks of endpoints are, so that whoever shares
their states shares it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuflex.deploy.engine_work import EngineWork, Workplace
from tpuflex.engine.backend import backend_url
from tpuflex.engine.environment import with_own_provider
from tpuflex.engine.events import EnginePlan
from tpuflex.engine.state import Stored, pending, resources, state_ids
from tpuflex.engine.state_files import file_backend, remove_truncated_files
from tpuflex.engine.state_lock import ThisMachine, break_locks, locks
from tpuflex.errors import EngineError, NotFoundError
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.inventory.kinds import BUCKET
from tpuflex.naming import LIBRARY_PROJECT, library_names
from tpuflex.recovery.look import CloudLook
from tpuflex.recovery.owners import Taken, names
from tpuflex.recovery.recover import recover, recovery_lock
from tpuflex.stack.known_state_ids import KnownStateIds
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.naming import Names
    from tpuflex.stack.connection import Connection


def library_stack(cloud: Connection) -> str:
    """Name of the library's stack: the Google Cloud project's, and on the embedded cloud one that
    no project has. Both keep their states in one directory by default, and name buckets alike."""
    project = cloud.stack.settings.project
    return f"{project}_embedded" if cloud.stack.embedded else project


def library_root(cloud: Connection) -> Path:
    """Where the library's project file is: what tpuflex keeps of the cloud."""
    where = "embedded" if cloud.stack.embedded else "google"
    return cloud.stack.own_files / "library" / where


def _manifest(root: Path) -> dict[str, object]:
    """The library's project file, with the backend and the plugins of the project at ``root``.
    (JSON is YAML.)"""
    import yaml

    said = yaml.safe_load((root / "Pulumi.yaml").read_text("utf-8"))
    found: dict[str, object] = {"name": LIBRARY_PROJECT, "runtime": "python"}
    if isinstance(said, dict) and isinstance(said.get("backend"), dict):
        found["backend"] = said["backend"]
    plugins = said.get("plugins") if isinstance(said, dict) else None
    if isinstance(plugins, dict):
        found["plugins"] = {
            kind: [_absolute(each, root) for each in entries]
            for kind, entries in plugins.items()
            if isinstance(entries, list)
        }
    return found


def _absolute(plugin: Any, root: Path) -> Any:
    if isinstance(plugin, dict) and plugin.get("path"):
        return {**plugin, "path": str(root / str(plugin["path"]))}
    return plugin


class LibraryEngine(EngineWork):
    """One command's work on the library of the project of a stack.

    Attributes:
        regions: regions with a bucket each, for the program.
    """

    def __init__(
        self, cloud: Connection, report: Report = silent, regions: tuple[str, ...] = ()
    ) -> None:
        super().__init__(cloud, report)
        self.regions = regions

    @property
    def project(self) -> str:
        """Google Cloud project id."""
        return self.cloud.stack.settings.project

    @property
    def names(self) -> Names:
        """The library's names."""
        return library_names(self.project)

    def place(self) -> Workplace:
        """A project of its own, with the backend of the stack's. The state holds no secret, so that
        whoever shares the backend needs no passphrase for it."""
        root = library_root(self.cloud)
        own_directory(root)
        write_private(root / "Pulumi.yaml", json.dumps(_manifest(self.cloud.stack.project.root)))
        environ = {**with_own_provider(self.cloud.environ), "PULUMI_CONFIG_PASSPHRASE": ""}
        environ.pop("PULUMI_CONFIG_PASSPHRASE_FILE", None)
        return Workplace(root, library_stack(self.cloud), environ)

    @cached_property
    def known_state_ids(self) -> KnownStateIds:
        """The ids of the library's states that this home has seen."""
        return KnownStateIds(self.cloud.stack.own_files, LIBRARY_PROJECT)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While inside, no other command on this machine settles the library's state; locks of dead
        processes are broken, and files that they have left half-written are mended.

        Raises:
            EngineError: another command works on it.
        """
        directory = file_backend(backend_url(self.target))
        place, name = directory or self.cloud.stack.project.home, library_stack(self.cloud)
        with recovery_lock(place, LIBRARY_PROJECT, name, "tpuflex library"):
            if directory is not None:
                held = locks(directory, LIBRARY_PROJECT, name)
                break_locks(held, ThisMachine(), self.report)
                remove_truncated_files(directory, LIBRARY_PROJECT, name)
            yield

    def state(self) -> Stored:
        """The library's state; empty if this backend has none."""
        deployment = self.engine.deployment() if self.engine.exists() else {}
        self.known_state_ids.remember(self.project, state_ids(deployment))
        return deployment

    def preview(self) -> EnginePlan:
        """What :meth:`up` would do."""
        return self.retry_while_settling(lambda: self.engine.preview(save=True))

    def settle(self) -> None:
        """Have the state know what a killed run has made.

        Raises:
            EngineError: something could not be settled.
            AccessError, ApiError: the cloud could not be asked.
        """
        apis = self.cloud.apis()
        self.engine.create()
        look = CloudLook(apis, state_ids(self.engine.deployment()))
        settled = recover(self.engine, look, self.report, timing=self.cloud.timing)
        if settled.unfinished is not None:
            raise settled.unfinished
        for error in settled.not_looked_at.values():
            raise error
        if settled.left:
            lines = "\n".join(f"  {each.name}: {each.detail}" for each in settled.left)
            raise EngineError(
                f"The library's state could not be settled:\n{lines}",
                hint="Run the same command again; it asks the cloud once more.",
            )

    def taken(self, plan: EnginePlan) -> Sequence[Taken]:
        """What of the creations in ``plan`` exists already."""
        found = names(self.cloud.apis(), plan.steps)
        for line in found.unlisted:
            self.report(f"  warning  nobody could look whether this name is free: {line}")
        return found.taken

    def up(self, plan: EnginePlan) -> None:
        """Bring the library to what the program says, as ``plan`` has it.

        Raises:
            PlanChangedError: it would take a step that ``plan`` does not have.
            TpuflexError: the engine failed, or Ctrl-C.
        """
        with self.changing(len(plan.changes)):
            self.retry_while_settling(lambda: self.engine.up(plan=plan))
        self.state()

    def destroy(self) -> None:
        """Delete everything of the state, and the empty stack.

        Raises:
            TpuflexError: the engine failed, or Ctrl-C.
        """
        with self.changing(0):
            try:
                self.engine.destroy()
            except EngineError as error:
                if not error.stale:
                    raise
                # pulumi-gcp does not take a bucket that is gone for deleted.
                self.engine.refresh()
                self.engine.destroy()

    def forget(self) -> None:
        """Remove the empty stack from the backend."""
        with suppress(NotFoundError):
            self.engine.remove()

    def program(self) -> None:
        """The library's buckets and its secret."""
        from tpuflex.components.library import deploy_library

        settings = self.cloud.stack.settings
        deploy_library(
            self.project, self.regions, cloud=settings.cloud, environ=self.target.environ
        )


def regions_of(deployment: Stored) -> tuple[str, ...]:
    """The regions of the buckets that the state has, or has begun to make."""
    begun = (operation["resource"] for operation in pending(deployment))
    found = {
        str((each.get("inputs") or {}).get("location") or "").lower()
        for each in (*resources(deployment), *begun)
        if each.get("type") == BUCKET.type
    }
    return tuple(sorted(found - {""}))


def unfinished(deployment: Stored) -> bool:
    """Whether a killed run has left something undecided."""
    return bool(pending(deployment))
