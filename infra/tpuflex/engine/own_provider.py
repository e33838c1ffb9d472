"""Where pip put the provider that belongs to this installation: the engine has to find it on PATH.

A checkout names its provider in ``Pulumi.yaml``. A project that was made elsewhere names none, as
what lies where differs for each of its users, and its ``tpuflex`` may be called by its path, from
an environment that is not the shell's: then PATH has no provider, or another version's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

PROVIDER = "pulumi-resource-tpuflex"


def provider_directory() -> Path | None:
    """The directory of the provider's executable, as the installation recorded it; None where
    there is no record, as in a source tree that nothing was installed from."""
    try:
        recorded = files("tpuflex") or []
    except PackageNotFoundError:
        return None
    for entry in recorded:
        if entry.name == PROVIDER and "bin" in entry.parts:
            # The record says ../../../bin; resolved by name only, since a link may be on the way.
            return Path(os.path.normpath(entry.locate())).parent
    return None


def with_own_provider(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` with the provider of this installation first on PATH."""
    directory = provider_directory()
    path = environ.get("PATH", "")
    if directory is None or path.split(os.pathsep)[0] == str(directory):
        return dict(environ)
    return {**environ, "PATH": f"{directory}{os.pathsep}{path}" if path else str(directory)}


def is_own_provider_notice(text: str) -> bool:
    """Whether ``text`` is what the engine warns of when it finds this provider on PATH, as it is
    meant to; that it runs another one is news."""
    directory = provider_directory()
    return (
        directory is not None and text == f"using {PROVIDER} from $PATH at {directory / PROVIDER}"
    )
