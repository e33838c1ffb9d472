"""The stack that a command works on: its file, its settings, its names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tpuflex.advice import Advice
from tpuflex.errors import Finding, SettingsError
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.project import Project
from tpuflex.settings.load import FilesReader, LoadedStack, Opener, load_stack_file
from tpuflex.settings.model import StackSettings
from tpuflex.settings.opened import OpenedConfig, refuse_environments
from tpuflex.settings.weights_source import LocalDirectory, PackagedModel, Source
from tpuflex.stack.recorded import RecordedEndpoint
from tpuflex.stack.rehearsal import Rehearsal

_OUTSIDE = Finding(
    "secretsprovider",
    "names a key outside of this machine, and this stack is on the embedded cloud; the engine asks"
    " Google's own address for a key of Cloud KMS, whatever the environment says",
    "Remove it, and encryptedkey: the passphrase of the embedded cloud is used.",
)


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack file that was read and is valid; or an endpoint in the state of a stack whose file is
    not there, wrong, or none of tpuflex's.

    Attributes:
        project: the project it belongs to.
        name: stack name.
        file: the stack file.
        settings: its content; or what the last update gave the endpoint.
        set_aside: as of :class:`tpuflex.settings.load.LoadedStack`.
        rehearsing: whether the command runs in a rehearsal.
        files_unread: why nothing is known of the files of its model, where they were looked for.
        stand_in: what a rehearsal has a checkpoint without weights in place of: the source that
            the stack file names, which is not on this machine.
        recorded: the endpoint in the state that it was opened by; None if by its stack file.
    """

    project: Project
    name: str
    file: Path
    settings: StackSettings
    set_aside: tuple[Finding, ...] = ()
    rehearsing: bool = False
    files_unread: str = ""
    stand_in: Source | None = None
    recorded: RecordedEndpoint | None = None

    @property
    def names(self) -> Names:
        """Names of the endpoint's resources."""
        if self.recorded is not None:
            return self.recorded.names
        return Names(
            self.project.name,
            self.name,
            ENDPOINT_NAME,
            self.settings.model.weights.bucket_suffix or "",
        )

    def check_catalog(self) -> None:
        """Refuse a catalog with wrong rows, or without the stack's accelerator type.

        Raises:
            SettingsError: that is so.
        """
        chosen = self.settings.slice.accelerator_type
        findings = self.set_aside
        if not findings and self.settings.catalog.accelerator(chosen) is None:
            key = "tpuflex:slice.accelerator_type"
            remedy = "Add its row to catalog.yaml (`tpuflex catalog accelerators`)."
            findings = (Finding(key, f"{chosen} is not in the catalog", remedy),)
        if findings:
            raise SettingsError(self.file.name, findings)

    @property
    def embedded(self) -> bool:
        """Whether the stack runs on the embedded cloud: made for it, or rehearsed there."""
        return self.settings.cloud == "embedded" or self.rehearsed

    @property
    def rehearsed(self) -> bool:
        """Whether the stack is made for Google and runs on the embedded cloud nevertheless."""
        return self.rehearsing and self.settings.cloud == "google"

    @property
    def needs(self) -> ServerNeeds:
        """What its server reads of a checkpoint."""
        return ServerNeeds.of(self.settings, stand_in=self.rehearsed)

    @property
    def own_program(self) -> bool:
        """Whether a program of the user's own deploys it, and not the `tpuflex` command."""
        return self.recorded is not None and not self.recorded.by_command

    def advise(self, advice: Advice) -> str:
        """Advice as text, with commands about this stack, which is always named."""
        return advice.for_stack(self.name, own_program=self.own_program)

    @property
    def cloud_text(self) -> str:
        """Where it runs, in words."""
        google = f"Google Cloud {self.settings.project}"
        if self.rehearsed:
            return f"the embedded cloud: a rehearsal for {google}"
        return "the embedded cloud" if self.embedded else google

    @property
    def own_files(self) -> Path:
        """Where tpuflex keeps the states that it saw of the stack, and what it pushed."""
        home = self.project.home
        return Rehearsal.below(home).directory if self.rehearsed else home

    @property
    def engine_project(self) -> Path:
        """The directory that the engine works in."""
        if self.recorded is not None:
            return self.own_files / "by-state"
        return self.own_files if self.rehearsed else self.project.root


def read_stack(
    project: Project,
    stack: str,
    *,
    file: Path | None = None,
    deploying: bool = True,
    rehearsing: bool = False,
    opener: Opener | None = None,
    files: FilesReader | None = None,
) -> Stack:
    """Read the stack file of ``stack``.

    Args:
        project: the project.
        stack: stack name.
        file: the stack file where it is not the project's, such as one that is deleted since.
        deploying: as for :func:`load_stack_file`.
        rehearsing: whether the command runs in a rehearsal.
        opener: as for :func:`load_stack_file`; not called in a rehearsal.
        files: as for :func:`load_stack_file`.

    Raises:
        NotFoundError: there is no such stack file.
        SettingsError: the stack file is wrong; lists every finding.
    """
    root = project.root if file is None else None
    file = file or project.stack_file(stack)

    def closed() -> OpenedConfig:
        raise refuse_environments(file.name, "a rehearsal asks nothing of Pulumi Cloud")

    loaded = load_stack_file(
        file,
        root=root,
        deploying=deploying,
        opener=closed if rehearsing else opener,
        files=files,
    )
    require_local_state(loaded)
    read = Stack(project, stack, file, loaded.settings, loaded.set_aside, rehearsing)
    return _with_stand_in(read) if read.rehearsed else read


def require_local_state(loaded: LoadedStack) -> None:
    """Refuse a stack on the embedded cloud whose state needs what is not on this machine.

    Raises:
        SettingsError: that is so.
    """
    if loaded.settings.cloud != "embedded":
        return
    if loaded.opened:
        why = "a stack on the embedded cloud has its state in files, where Pulumi opens none"
        raise refuse_environments(loaded.source.name, why)
    if "://" in loaded.secrets_provider:
        raise SettingsError(loaded.source.name, (_OUTSIDE,))


def _with_stand_in(stack: Stack) -> Stack:
    """``stack``, which is rehearsed: weights that are not on this machine are neither fetched nor
    copied, and a pin is of those."""
    model = stack.settings.model
    source, project = model.weights.source, stack.project
    if source is None or isinstance(source, PackagedModel):
        return stack
    here = isinstance(source, LocalDirectory) and project.root / Path(source.path).expanduser()
    if here and here.exists():
        return stack
    directory = Rehearsal.below(project.home).write_stand_in(stack.name, model.name, stack.needs)
    if directory.is_relative_to(project.root):
        directory = directory.relative_to(project.root)
    taken = {"source": LocalDirectory(str(directory)), "manifest_sha256": None}
    weights = model.weights.model_copy(update=taken)
    changed = model.model_copy(update={"weights": weights})
    settings = stack.settings.model_copy(update={"model": changed})
    return replace(stack, settings=settings, stand_in=source)
