"""The environment in which the engine and every client reach the cloud of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tpuflex.engine.gcp_plugin import pulumi_home
from tpuflex.errors import EmulatorError
from tpuflex.files.trusted import child_environment, own_directory
from tpuflex.google.credentials import QUOTA_PROJECT_VARIABLE
from tpuflex.stack.emulator import CREDENTIAL_KINDS, CREDENTIALS_VARIABLE, Daemon
from tpuflex.stack.stack import Stack

#: As huggingface_hub has them
#: (https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables).
HUB_ENDPOINT_VARIABLE = "HF_ENDPOINT"
HUB_TOKEN_VARIABLE = "HF_TOKEN"  # noqa: S105 - the name of a variable
#: Set by `tpuflex emulator env`: the shell points at the embedded cloud.
_EMBEDDED_MARK = "TPUFLEX_EMULATOR"


def google_environment(
    environ: Mapping[str, str], home: Path, *, backend: str = ""
) -> dict[str, str]:
    """The environment for a stack on Google: the caller's own, with a file backend in the project
    for users who have not logged in to a Pulumi backend. Its state holds no secret (secrets
    never pass through Pulumi), so its passphrase may be empty.

    Args:
        environ: the caller's environment.
        home: tpuflex's home, where the file backend is.
        backend: the one that the project names, which the engine finds by itself; or empty.
    """
    variables = {key: value for key, value in environ.items() if not _from_emulator(key, environ)}
    if not (backend or "PULUMI_BACKEND_URL" in variables or _logged_in(variables)):
        directory = home / "backend"
        own_directory(directory)
        variables["PULUMI_BACKEND_URL"] = f"file://{directory}"
        if "PULUMI_CONFIG_PASSPHRASE_FILE" not in variables:
            variables.setdefault("PULUMI_CONFIG_PASSPHRASE", "")
    return child_environment({**variables, "PULUMI_SKIP_UPDATE_CHECK": "true"})


def _from_emulator(key: str, environ: Mapping[str, str]) -> bool:
    """Whether a variable comes from ``tpuflex emulator env`` in the caller's shell."""
    if _EMBEDDED_MARK not in environ:
        return False
    prefixes = (
        *("CLOUDSDK_", "PULUMI_", "STORAGE_EMULATOR_HOST", "GOOGLE_", "GCE_METADATA_"),
        *(HUB_ENDPOINT_VARIABLE, _EMBEDDED_MARK),
    )
    return key.startswith(prefixes)


def _logged_in(environ: Mapping[str, str]) -> bool:
    if "PULUMI_ACCESS_TOKEN" in environ:
        return True
    return (pulumi_home(environ) / "credentials.json").is_file()


def credentials_asked(environ: Mapping[str, str]) -> str:
    """The kind of credentials that ``environ`` asks for on the embedded cloud; empty for none.

    Raises:
        EmulatorError: there is no such kind.
    """
    kind = environ.get(CREDENTIALS_VARIABLE, "")
    if kind and kind not in CREDENTIAL_KINDS:
        raise EmulatorError(
            f"{CREDENTIALS_VARIABLE}={kind}: there are no such credentials",
            hint=f"Set it to one of {', '.join(CREDENTIAL_KINDS)}, or unset it.",
        )
    return kind


def embedded_environment(
    stack: Stack, environ: Mapping[str, str], daemon: Daemon, *, stand_in: bool, kind: str
) -> dict[str, str]:
    """The environment for a stack on the embedded cloud: the caller's, without what would lead to
    Google, and with what leads there.

    Args:
        stack: the stack.
        environ: the caller's environment.
        daemon: the embedded cloud.
        stand_in: whether the engine attaches to the stand-in for the gcp plugin.
        kind: the kind of credentials.

    Raises:
        EmulatorError: the embedded cloud is not running.
    """
    home = stack.project.home
    own_directory(home / "backend")
    kept = {
        key: value
        for key, value in environ.items()
        if not key.startswith(("PULUMI_", "CLOUDSDK_", "GOOGLE_", "GCLOUD_", "GCE_METADATA_"))
    }
    # What doctor advises there; in another shell it is meant for Google.
    pointed = stack.rehearsed or _EMBEDDED_MARK in environ
    if pointed and (quota_project := environ.get(QUOTA_PROJECT_VARIABLE)):
        kept[QUOTA_PROJECT_VARIABLE] = quota_project
    variables = daemon.environment(stack.settings.project, stand_in=stand_in, credentials=kind)
    # A Hub that the user names serves a stack here, too; a rehearsal calls nothing outside.
    if not stack.rehearsed and (hub := environ.get(HUB_ENDPOINT_VARIABLE)):
        variables[HUB_ENDPOINT_VARIABLE] = hub
    own = {CREDENTIALS_VARIABLE: kind, "TPUFLEX_HOME": str(home)}
    return child_environment({**kept, **variables, **own})
