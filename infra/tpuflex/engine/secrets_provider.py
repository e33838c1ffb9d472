"""Which secrets provider a stack file names: the engine's own commands read it, except the one
that makes the stack, which is told (``pulumi stack init --secrets-provider``) and otherwise writes
a passphrase's salt in its place."""

from __future__ import annotations

from pathlib import Path

from tpuflex.project import PULUMI_FILE, stack_directory
from tpuflex.settings.read import read_document
from tpuflex.settings.stack_document import secrets_provider_of


def secrets_provider(root: Path, stack: str) -> str | None:
    """What the stack file of ``stack`` names, such as ``gcpkms://…``; None where it names nothing.

    Args:
        root: the directory of ``Pulumi.yaml``.
        stack: stack name.

    Raises:
        SettingsError: a file cannot be read.
    """
    project = read_document(root / PULUMI_FILE).value
    folder = stack_directory(root, project if isinstance(project, dict) else {})
    try:
        document = read_document(folder / f"Pulumi.{stack}.yaml").value
    except (FileNotFoundError, NotADirectoryError):
        return None  # the engine writes one
    return secrets_provider_of(document) or None
