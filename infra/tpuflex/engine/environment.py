"""The environment that the engine is run with: this installation's provider, the gcp plugin's quota
project, and the storage of the embedded cloud.

A checkout names its provider in ``Pulumi.yaml``. A project that was made elsewhere names none, as
what lies where differs for each of its users, and its ``tpuflex`` may be called by its path, from
an environment that is not the shell's: then PATH has no provider, or another version's.

The gcp plugin finds the same credentials as we do by itself, but not the quota project that their
file names (https://github.com/hashicorp/terraform-provider-google/issues/24500). Its own variables
are in
https://registry.terraform.io/providers/hashicorp/google/latest/docs/guides/provider_reference#user_project_override-1
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tpuflex.google.credentials import describe

PROVIDER = "pulumi-resource-tpuflex"

_OVERRIDE = "USER_PROJECT_OVERRIDE"
_PROJECT = "GOOGLE_BILLING_PROJECT"
#: Credentials that the plugin takes before those that Google's libraries find.
_PLUGINS_OWN = (
    "GOOGLE_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GCLOUD_KEYFILE_JSON",
    "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
)

_STORAGE_HOST = "STORAGE_EMULATOR_HOST"
_SCHEME = "http://"


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


def with_quota_project(environ: Mapping[str, str], project: str) -> dict[str, str]:
    """``environ`` for an engine whose gcp plugin takes quota from the same project as we do.

    That is the credential's quota project; for a user's credential without one, the stack's: Secret
    Manager would refuse. Who has set one of the plugin's variables keeps them as they are.

    Args:
        environ: the environment, which names the credentials.
        project: the stack's project.

    Raises:
        AccessError: the environment names a credentials file that cannot be used.
    """
    credential = describe(environ)
    wanted = credential.quota_project or (project if credential.lacks_quota_project else "")
    if not wanted or _OVERRIDE in environ or _PROJECT in environ:
        return dict(environ)
    return {**environ, _OVERRIDE: "true", _PROJECT: wanted}


def plugins_own(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that give the gcp plugin other credentials than ours."""
    return tuple(variable for variable in _PLUGINS_OWN if environ.get(variable))


def without_scheme(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for the engine: google-cloud-storage for Python wants ``STORAGE_EMULATOR_HOST``
    with ``http://``, and Go CDK, by which the engine keeps states in ``gs://`` buckets, writes that
    before it itself (``openBucket`` in its ``blob/gcsblob/gcsblob.go``) and would ask the host
    ``http``."""
    host = environ.get(_STORAGE_HOST, "")
    return {**environ, _STORAGE_HOST: host.removeprefix(_SCHEME)} if host else {**environ}
