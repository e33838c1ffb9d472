"""Which credentials a command acts with, read as Google's libraries read them; nothing is asked.

A token in the environment comes first, as for Pulumi's gcp provider; then Application Default
Credentials (https://google.aip.dev/auth/4110): the file that ``GOOGLE_APPLICATION_CREDENTIALS``
names, gcloud's own file, the metadata server. google-auth looks in ``os.environ`` for them; a
command here has an environment of its own, which may differ from the process's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import JsonValue

from pulumi_plugin.printable import printable
from tpuflex.errors import AccessError
from tpuflex.gcloud_commands import log_in

TOKEN_VARIABLE = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105 - a variable's name
FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
QUOTA_PROJECT_VARIABLE = "GOOGLE_CLOUD_QUOTA_PROJECT"
METADATA_VARIABLE = "GCE_METADATA_HOST"
_CONFIG_VARIABLE = "CLOUDSDK_CONFIG"
_GCLOUD_FILE = "application_default_credentials.json"
#: Bytes; a key file has about 2,400.
_LARGEST_FILE = 64 * 1024
#: What all secrets of the embedded cloud carry, so that none is taken for one of Google's.
_EMBEDDED_MARK = "tpuflex-embedded"
_IMPERSONATED = re.compile(r"/serviceAccounts/([^/:]+):generateAccessToken$")


class Kind(StrEnum):
    """Where access tokens come from; the last five are Application Default Credentials."""

    ACCESS_TOKEN = "access-token"  # noqa: S105 - a name
    USER = "user"
    SERVICE_ACCOUNT = "service-account"
    IMPERSONATED = "impersonated-service-account"
    EXTERNAL_ACCOUNT = "external-account"
    METADATA = "metadata-server"


@dataclass(frozen=True, slots=True)
class Credential:
    """What may be said of a credential; nothing in it is secret.

    Attributes:
        kind: where its tokens come from.
        source: the variable or the file that it was found in.
        account: e-mail address that it acts as; empty where the source does not say.
        quota_project: project that quota is taken from and APIs must be enabled in, whatever the
            resource's project (``X-Goog-User-Project``); empty if none is set.
    """

    kind: Kind
    source: str
    account: str = ""
    quota_project: str = ""

    @property
    def lacks_quota_project(self) -> bool:
        """Whether client-based APIs refuse it: it is a user's, and names no quota project.

        https://cloud.google.com/docs/authentication/troubleshoot-adc
        """
        return self.kind is Kind.USER and not self.quota_project


@dataclass(frozen=True, slots=True)
class CredentialsFile:
    """A file of Application Default Credentials. Its content is secret.

    Attributes:
        path: where it is.
        kind: what it is.
        info: its JSON object.
    """

    path: Path
    kind: Kind
    info: Mapping[str, JsonValue]

    @property
    def embedded(self) -> bool:
        """Whether it is for the embedded cloud, and worth nothing at Google."""
        return _is_embedded(self.info)

    def __repr__(self) -> str:
        return f"CredentialsFile({str(self.path)!r}, {self.kind})"


#: ``type`` of the file -> what it is, and the texts that google-auth 2.62 demands in it
#: (``google.auth._default``).
_TYPES = {
    "authorized_user": (Kind.USER, ("client_id", "client_secret", "refresh_token")),
    "service_account": (Kind.SERVICE_ACCOUNT, ("client_email", "private_key", "token_uri")),
    "impersonated_service_account": (Kind.IMPERSONATED, ("service_account_impersonation_url",)),
    "external_account": (Kind.EXTERNAL_ACCOUNT, ("audience", "subject_token_type", "token_url")),
    "external_account_authorized_user": (Kind.EXTERNAL_ACCOUNT, ("audience",)),
}


def describe(environ: Mapping[str, str]) -> Credential:
    """The credential that commands with this environment use; no server is asked.

    Raises:
        AccessError: the environment names a file that cannot be used.
    """
    if environ.get(TOKEN_VARIABLE):
        return Credential(Kind.ACCESS_TOKEN, TOKEN_VARIABLE, quota_project=quota_project(environ))
    file = credentials_file(environ)
    if file is None:
        # Not proved to be there: only asking it would tell, which takes seconds where it is not.
        return Credential(
            Kind.METADATA,
            environ.get(METADATA_VARIABLE) or "metadata.google.internal",
            quota_project=quota_project(environ),
        )
    return Credential(file.kind, str(file.path), _account(file.info), quota_project(environ, file))


def quota_project(environ: Mapping[str, str], file: CredentialsFile | None = None) -> str:
    """The quota project, or empty: the environment's before the file's, as in google-auth."""
    named = environ.get(QUOTA_PROJECT_VARIABLE, "")
    return named or ("" if file is None else _text(file.info, "quota_project_id"))


def credentials_file(environ: Mapping[str, str]) -> CredentialsFile | None:
    """The file of Application Default Credentials; None if there is none.

    Raises:
        AccessError: it cannot be read, or is not one that can be used.
    """
    named = environ.get(FILE_VARIABLE, "")
    if named:
        return _read(Path(named), f"{FILE_VARIABLE} names {named}, which")
    home = environ.get("HOME")
    configuration = environ.get(_CONFIG_VARIABLE) or (home and f"{home}/.config/gcloud")
    if not configuration:
        return None
    path = Path(configuration) / _GCLOUD_FILE
    return _read(path, f"{path}") if path.is_file() else None


def _read(path: Path, called: str) -> CredentialsFile:
    """The file at ``path``; ``called`` begins what is said of one that cannot be used."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise _unusable(f"{called} cannot be read: {error.strerror}") from error
    if len(content) > _LARGEST_FILE:
        raise _unusable(f"{called} has more than {_LARGEST_FILE} bytes: it holds no credentials")
    try:
        info = json.loads(content)
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict):
        raise _unusable(f"{called} is not a JSON object")
    return CredentialsFile(path, _checked(info, called), info)


def _checked(info: Mapping[str, JsonValue], called: str) -> Kind:
    kind, needs = _TYPES.get(_text(info, "type"), (None, ()))
    if kind is None:
        known = ", ".join(_TYPES)
        raise _unusable(f"{called} is of type {info.get('type')!r}; expected one of {known}")
    texts = [*needs, *({"quota_project_id", "account"} & info.keys())]
    wrong = [key for key in texts if not isinstance(info.get(key), str)]
    if wrong:
        raise _unusable(f"{called}: {', '.join(wrong)}: text is expected")
    if kind is Kind.IMPERSONATED:
        source = info.get("source_credentials")
        if not isinstance(source, dict):
            raise _unusable(f"{called}: source_credentials: an object is expected")
        _checked(source, f"{called}: source_credentials")
    return kind


def _account(info: Mapping[str, JsonValue]) -> str:
    url = _IMPERSONATED.search(_text(info, "service_account_impersonation_url"))
    return _text(info, "client_email") or _text(info, "account") or (url[1] if url else "")


def _is_embedded(info: Mapping[str, JsonValue]) -> bool:
    source = info.get("source_credentials")
    if isinstance(source, dict):
        return _is_embedded(source)
    marked = ("refresh_token", "private_key_id", "audience")
    return any(_EMBEDDED_MARK in _text(info, key) for key in marked)


def _text(info: Mapping[str, JsonValue], key: str) -> str:
    value = info.get(key)
    return value if isinstance(value, str) else ""


def _unusable(problem: str) -> AccessError:
    return AccessError(printable(problem), hint=f"Run: {log_in()}, or name another file.")
