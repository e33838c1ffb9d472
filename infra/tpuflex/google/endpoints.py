"""Where each Google API is reached: Google itself, or the embedded cloud on loopback.

The variables are gcloud's own (`CLOUDSDK_API_ENDPOINT_OVERRIDES_<API>`), so one environment
points gcloud, Pulumi and this library at the same place.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from tpuflex.errors import Finding, SettingsError

_PREFIX = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
_GOOGLE = {
    "tpu": "https://tpu.googleapis.com",
    "storage": "https://storage.googleapis.com",
    "secretmanager": "https://secretmanager.googleapis.com",
    "compute": "https://compute.googleapis.com",
    "iam": "https://iam.googleapis.com",
    "resourcemanager": "https://cloudresourcemanager.googleapis.com",
    "serviceusage": "https://serviceusage.googleapis.com",
    "cloudbilling": "https://cloudbilling.googleapis.com",
    "dns": "https://dns.googleapis.com",
    "logging": "https://logging.googleapis.com",
    "monitoring": "https://monitoring.googleapis.com",
    "artifactregistry": "https://artifactregistry.googleapis.com",
    "cloudkms": "https://cloudkms.googleapis.com",
}
#: gcloud's variable for each field of :class:`Endpoints`.
OVERRIDES = {name: _PREFIX + name.upper() for name in _GOOGLE} | {
    "resourcemanager": _PREFIX + "CLOUDRESOURCEMANAGER"
}
#: Set in a shell that rehearses: stacks made for Google run on the embedded cloud there, and
#: nothing may reach Google (docs/adr/0021-a-rehearsal-is-a-shell.md).
REHEARSAL_VARIABLE = "TPUFLEX_REHEARSE"
#: gcloud's overrides of these APIs carry the API's path; our base URLs do not.
API_PATHS = {"storage": "/storage/v1", "compute": "/compute/v1", "dns": "/dns/v1"}
#: What every parser divides alike. `http://a\\@b/` leads to b by RFC 3986 and urllib, and to a by
#: the WHATWG's URL standard (https://url.spec.whatwg.org/#authority-state) and urllib3.
_PLAIN = re.compile(
    r"(?:[A-Za-z]+:)?//(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?=[/?#]|\Z)"
)
#: What parsers drop, take for a slash, or refuse.
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Base URL of each API, without a trailing slash and without the API's own path.

    Attributes:
        tpu: Cloud TPU (v2 and v2alpha1).
        storage: Cloud Storage; `/storage/v1` comes after it.
        secretmanager: Secret Manager.
        compute: Compute Engine; `/compute/v1` comes after it.
        iam: IAM service accounts.
        resourcemanager: project policies.
        serviceusage: API enablement, and quotas.
        cloudbilling: billing accounts of projects.
        dns: Cloud DNS; `/dns/v1` comes after it.
        logging: Cloud Logging.
        monitoring: Cloud Monitoring (v1 and v3).
        artifactregistry: Artifact Registry.
        cloudkms: Cloud Key Management Service.
    """

    tpu: str = _GOOGLE["tpu"]
    storage: str = _GOOGLE["storage"]
    secretmanager: str = _GOOGLE["secretmanager"]
    compute: str = _GOOGLE["compute"]
    iam: str = _GOOGLE["iam"]
    resourcemanager: str = _GOOGLE["resourcemanager"]
    serviceusage: str = _GOOGLE["serviceusage"]
    cloudbilling: str = _GOOGLE["cloudbilling"]
    dns: str = _GOOGLE["dns"]
    logging: str = _GOOGLE["logging"]
    monitoring: str = _GOOGLE["monitoring"]
    artifactregistry: str = _GOOGLE["artifactregistry"]
    cloudkms: str = _GOOGLE["cloudkms"]

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Endpoints:
        """The endpoints that ``environ`` names; Google's own for what it does not name.

        Raises:
            SettingsError: an override is not a URL, or would send credentials in clear text
                to a machine other than this one; or this is a rehearsal, and one is not on this
                machine.
        """
        found: dict[str, str] = {}
        findings: list[Finding] = []
        for name, variable in OVERRIDES.items():
            value = environ.get(variable, "").strip()
            if not value:
                continue
            problem = _problem(value)
            if problem:
                findings.append(
                    Finding(variable, problem, f"Write {_GOOGLE[name]}/ or unset {variable}.")
                )
            found[name] = value.rstrip("/").removesuffix(API_PATHS.get(name, "\0"))
        if findings:
            raise SettingsError("the environment", tuple(findings))
        endpoints = cls(**found)
        if rehearses(environ) and not endpoints.embedded:
            raise SettingsError("the environment", tuple(_outside(endpoints)))
        return endpoints

    @property
    def embedded(self) -> bool:
        """Whether every API is on this machine's loopback: the embedded cloud."""
        return all(is_loopback(getattr(self, field.name)) for field in fields(self))


def rehearses(environ: Mapping[str, str]) -> bool:
    """Whether ``environ`` is that of a rehearsal, in which no API of Google may be called."""
    return bool(environ.get(REHEARSAL_VARIABLE))


def _outside(endpoints: Endpoints) -> Iterator[Finding]:
    """What is wrong with each endpoint that leads away from this machine in a rehearsal."""
    for name, variable in OVERRIDES.items():
        if not is_loopback(url := getattr(endpoints, name)):
            yield Finding(
                variable,
                f"this is a rehearsal ({REHEARSAL_VARIABLE} is set), and it leads to {url}",
                'Run: eval "$(tpuflex emulator env --rehearse)"',
            )


def is_loopback(url: str) -> bool:
    """Whether ``url`` names this machine's loopback, by address or as ``localhost``, and does so to
    every parser."""
    host = _host(url)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(url: str) -> str:
    """The host that every parser reads in ``url``; empty if they may read different ones."""
    found = _PLAIN.match(url)
    if found is None or _AMBIGUOUS.search(url) or int(found["port"] or 0) > _LAST_PORT:
        return ""
    return found["host"].strip("[]").lower()


def _problem(url: str) -> str:
    if not _host(url):
        return (
            f"{url!r} is not an http(s) URL that all programs read alike: a host and maybe a port,"
            " without a user name, backslash or space"
        )
    scheme = urlsplit(url).scheme
    if scheme not in ("http", "https"):
        return f"{url!r} is not an http(s) URL"
    if scheme == "http" and not is_loopback(url):
        return f"{url!r} would carry credentials unencrypted"
    return ""
