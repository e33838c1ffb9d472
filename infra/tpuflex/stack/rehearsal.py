"""The rehearsal of a stack made for Google: it runs on the embedded cloud, and all that it leaves
behind is in a directory of its own below tpuflex's home.

The engine gets a project file and a stack file of its own, too. The real stack file may name a key
of Cloud KMS, which the engine would ask for, or the salt of another passphrase; and the engine
writes a salt to a file that has none, which the real passphrase would then not fit.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.errors import AccessError, Finding, SettingsError
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.planning.model_files import stand_in_files

if TYPE_CHECKING:
    from tpuflex.planning.model_files import ServerNeeds
    from tpuflex.settings.model import StackSettings

#: What a command says first, so that nobody takes what follows for the real thing.
NOTICE = "REHEARSAL: stacks for Google run on the embedded cloud of this machine, Google sees none."
#: A plain `pulumi` opens its backend before it asks for keys or credentials, and this cannot be
#: one; it would otherwise ask Cloud KMS for the key that a stack file names.
NO_BACKEND = "file:///dev/null/a-plain-pulumi-is-not-rehearsed"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Where rehearsals keep what they know.

    Attributes:
        directory: the engine's project with its stack files, the states, and what was pushed.
    """

    directory: Path

    @classmethod
    def below(cls, home: Path) -> Rehearsal:
        """The one of tpuflex's ``home``.

        Raises:
            AccessError: a symbolic link leads out of it, perhaps to what is real.
        """
        found = cls(home / "rehearsal")
        for part in found.own_parts():
            _require_inside(part, home)
        return found

    def own_parts(self) -> tuple[Path, ...]:
        """What is written: none of it may be that of a real deployment."""
        pulumi = self.backend / ".pulumi"
        written = (pulumi, pulumi / "stacks", *pulumi.glob("*/*"))
        weights = self.directory / "weights"
        return (self.directory, self.backend, *written, weights, *weights.glob("*"))

    @property
    def backend(self) -> Path:
        """The directory of the states; never that of a real one."""
        return self.directory / "backend"

    def variables(self) -> dict[str, str]:
        """What the engine's environment has other than that of the embedded cloud."""
        return {"PULUMI_BACKEND_URL": f"file://{self.backend}"}

    def write_stand_in(self, stack: str, model: str, needs: ServerNeeds) -> Path:
        """Write a checkpoint without weights in place of those of the ``model`` of ``stack``, and
        return its directory."""
        directory = self.directory / "weights" / stack
        for path, content in stand_in_files(model, needs).items():
            file = directory / path
            own_directory(file.parent)
            if not file.is_file() or file.read_bytes() != content:
                write_private(file, content)
        return directory

    def write_project(self, project: str, file: Path) -> None:
        """Write the files that the engine reads in place of those of ``project``, whose stack file
        ``file`` is."""
        import yaml  # here: not every command that names a rehearsal has a stack

        from tpuflex.settings.stack_text import EMBEDDED_SALT
        from tpuflex.settings.stack_yaml import read_yaml

        own_directory(self.backend)
        # The provider is found on PATH, and the program is in the command's own process.
        manifest = {"name": project, "runtime": "python"}
        write_private(self.directory / "Pulumi.yaml", yaml.safe_dump(manifest))
        document = read_yaml(file.read_text("utf-8")).value
        rehearsed = {"encryptionsalt": EMBEDDED_SALT, "config": _readable(document)}
        write_private(self.directory / file.name, yaml.safe_dump(rehearsed))


def _require_inside(part: Path, home: Path) -> None:
    """Refuse a ``part`` of the rehearsal below ``home`` that is a symbolic link.

    Raises:
        AccessError: it is one.
    """
    if part.is_symlink() or not part.resolve().is_relative_to(home.resolve() / "rehearsal"):
        raise AccessError(
            f"Refused to rehearse in {part}: it is a symbolic link to {part.resolve()}, and what is"
            " real could be changed there.",
            hint=f"Remove the link: rm {shlex.quote(str(part))}",
        )


def require_project(settings: StackSettings) -> None:
    """Refuse the project of a stack file that is still to be edited: the shell would go on naming
    it to gcloud after the edit.

    Raises:
        SettingsError: it is the placeholder.
    """
    from tpuflex.settings.model import PLACEHOLDER_PROJECT

    if settings.cloud == "google" and settings.project == PLACEHOLDER_PROJECT:
        remedy = (
            "Write your Google Cloud project id into the stack file, in tpuflex:serving.image too"
            " (in a rehearsal any id will do); then open the shell of the rehearsal."
        )
        raise SettingsError(
            "the stack file",
            (Finding("tpuflex:project", f"{PLACEHOLDER_PROJECT} is a placeholder", remedy),),
        )


def _readable(document: object) -> dict[str, object]:
    """The configuration in a stack file, without what only the real passphrase opens."""
    config = document.get("config") if isinstance(document, Mapping) else None
    if not isinstance(config, Mapping):
        return {}
    return {
        str(key): value
        for key, value in config.items()
        if not (isinstance(value, Mapping) and "secure" in value)
    }
