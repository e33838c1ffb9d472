"""The credentials of Pulumi's gcp plugin: the same as ours, and the same quota project.

The plugin finds the credentials by itself, but not the quota project that their file names
(https://github.com/hashicorp/terraform-provider-google/issues/24500). Its own variables are in
https://registry.terraform.io/providers/hashicorp/google/latest/docs/guides/provider_reference#user_project_override-1
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuflex.google.credentials import describe

_OVERRIDE = "USER_PROJECT_OVERRIDE"
_PROJECT = "GOOGLE_BILLING_PROJECT"
#: Credentials that the plugin takes before those that Google's libraries find.
_PLUGINS_OWN = (
    "GOOGLE_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GCLOUD_KEYFILE_JSON",
    "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
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
