"""What `tpuflex emulator env` has a shell set and forget, so that its programs reach the embedded
cloud, and in a rehearsal nothing of Google."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tpuflex.files.trusted import own_directory, write_private
from tpuflex.google.endpoints import REHEARSAL_VARIABLE
from tpuflex.stack.environment import HUB_ENDPOINT_VARIABLE
from tpuflex.stack.rehearsal import NO_BACKEND

#: Read by gcloud, Google's libraries and the gcp plugin: what a shell has of these leads to Google.
_GOOGLES = ("CLOUDSDK_", "GOOGLE_", "GCLOUD_", "GCE_METADATA_")
#: Of these, what says only how gcloud is run (`gcloud topic startup`).
_HOW_GCLOUD_RUNS = "CLOUDSDK_PYTHON"
#: A plain `pulumi` with these could open, or change, the secrets of the real stack file.
_REAL_PULUMIS = ("PULUMI_ACCESS_TOKEN", "PULUMI_CONFIG_PASSPHRASE")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
#: Names of proxies' exceptions: requests reads the small one first, Go and gcloud the other, too.
_NO_PROXY = ("no_proxy", "NO_PROXY")
_TRUSTED = "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"
#: gcloud's overrides of APIs that the embedded cloud does not serve, and says so.
_NOT_SERVED = ("CLOUDQUOTAS", "IAP", "SERVICEMANAGEMENT")
#: An authority without a key, as the only one that gcloud trusts: it can send nothing over TLS,
#: whatever the API or the tunnel. The embedded cloud is called without TLS.
_NOBODY = """\
-----BEGIN CERTIFICATE-----
MIIBtTCCAVugAwIBAgIUH7pHbGsGqqL5ItGlYbT5cQCH3ZUwCgYIKoZIzj0EAwIw
LzEtMCsGA1UEAwwkdHB1ZmxleCByZWhlYXJzYWw6IG5vYm9keSBpcyB0cnVzdGVk
MCAXDTI2MTEyMjE1MjYwMVoYDzIxMjYxMDI5MTUyNjAxWjAvMS0wKwYDVQQDDCR0
cHVmbGV4IHJlaGVhcnNhbDogbm9ib2R5IGlzIHRydXN0ZWQwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAAQkKG8/uygrprGsFiSNvvJksTmCOwnIV1iHa96zPxaAR0FO
BxsmfFVDy4LdveG6FOVn4BkwbniEUDGcfcblcCLgo1MwUTAdBgNVHQ4EFgQUkZV0
eWIVjDn9sOQLnomGtMQ81FowHwYDVR0jBBgwFoAUkZV0eWIVjDn9sOQLnomGtMQ8
1FowDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiBIElxj6q+7cxR2
XQrVKHYnCRNr6+KwdD8Enhtd0nimggIhAJs7FX9QApTh6MzF37bh4Ibk3PP8Qh1p
YiZV5g/uMnIa
-----END CERTIFICATE-----
"""


def to_forget(environ: Mapping[str, str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """The names in ``environ`` that a shell with ``variables`` must not have."""
    prefixes = (*_GOOGLES, *_REAL_PULUMIS) if REHEARSAL_VARIABLE in variables else _GOOGLES
    return tuple(
        name
        for name in sorted(environ)
        if name.startswith(prefixes)
        and not name.startswith(_HOW_GCLOUD_RUNS)
        and name not in variables
    )


def past_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """What keeps requests to this machine from a proxy, beside the exceptions of ``environ``."""
    listed = next(filter(None, map(environ.get, _NO_PROXY)), "")
    there = [entry.strip() for entry in listed.split(",") if entry.strip()]
    if "*" in there:
        return {}
    merged = ",".join(dict.fromkeys([*there, *_LOOPBACK]))
    return dict.fromkeys(_NO_PROXY, merged)


def rehearsing(variables: Mapping[str, str], url: str, directory: Path) -> dict[str, str]:
    """The ``variables`` of a shell that rehearses: none of its usual programs reaches Google.

    Args:
        variables: those of the embedded cloud.
        url: address of the embedded cloud.
        directory: the rehearsal's.
    """
    own_directory(directory)
    trusted = directory / "trusts-nobody.pem"
    write_private(trusted, _NOBODY)
    # A plain `pulumi` would write a salt for it to the real stack file; and a rehearsal takes no
    # weights from a Hub, so `hf download` may go on fetching the real ones.
    left_out = (*_REAL_PULUMIS, HUB_ENDPOINT_VARIABLE)
    kept = {name: value for name, value in variables.items() if name not in left_out}
    if "GOOGLE_OAUTH_ACCESS_TOKEN" in kept:  # else there are credentials to find
        # Google's Go libraries would find the user's own in their home.
        kept["GOOGLE_APPLICATION_CREDENTIALS"] = "/dev/null"
    return {
        REHEARSAL_VARIABLE: "1",
        **kept,
        **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}": f"{url}/" for api in _NOT_SERVED},
        _TRUSTED: str(trusted),
        "PULUMI_BACKEND_URL": NO_BACKEND,
    }


def shell_lines(variables: Mapping[str, str], forgotten: Sequence[str]) -> list[str]:
    """The lines that a shell evaluates."""
    lines = [f"unset {' '.join(forgotten)}"] if forgotten else []
    return lines + [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


def lines_of_failure(arguments: Sequence[str]) -> list[str]:
    """What a shell is to evaluate after the command line ``arguments`` has failed; nothing unless
    they were to print variables. Even then nothing of it goes to the real cloud: in a rehearsal
    tpuflex says what is missing, and gcloud refuses to run."""
    pairs = pairwise(arguments)
    if ("emulator", "env") not in pairs or "--json" in arguments:
        return []
    if "--rehearse" not in arguments:
        return ["false"]
    fence = {
        REHEARSAL_VARIABLE: "1",
        "GOOGLE_APPLICATION_CREDENTIALS": "/dev/null",
        _TRUSTED: "/dev/null",
        "PULUMI_BACKEND_URL": NO_BACKEND,
    }
    return [*shell_lines(fence, ()), "false"]
