"""The stack that a command works on: its file, its settings, its names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tpuflex.errors import Finding, SettingsError
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.project import Project
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import StackSettings


@dataclass(frozen=True, slots=True)
class OpenStack:
    """A stack file that was read and is valid.

    Attributes:
        project: the project it belongs to.
        name: stack name.
        file: the stack file.
        settings: its content.
        set_aside: as of :class:`tpuflex.settings.load.LoadedStack`.
    """

    project: Project
    name: str
    file: Path
    settings: StackSettings
    set_aside: tuple[Finding, ...] = ()

    @property
    def names(self) -> Names:
        """Names of the endpoint's resources."""
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
        """Whether the stack runs on the embedded cloud."""
        return self.settings.cloud == "embedded"


def open_stack(project: Project, stack: str, *, deploying: bool = True) -> OpenStack:
    """Read the stack file of ``stack``; ``deploying`` as for :func:`load_stack_file`.

    Raises:
        NotFoundError: there is no such stack file.
        SettingsError: the stack file is wrong; lists every finding.
    """
    file = project.stack_file(stack)
    loaded = load_stack_file(file, deploying=deploying)
    return OpenStack(project, stack, file, loaded.settings, loaded.set_aside)
