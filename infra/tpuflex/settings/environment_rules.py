"""Rules about the serving container's environment: no secrets, nothing that opens the server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tpuflex.catalog.environment import refusals
from tpuflex.errors import Finding

_KEY = "tpuflex:serving.env"

_SECRET_NAME = re.compile(r"(TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$")
_SECRET_VALUE = re.compile(r"^(hf_|sk-|ghp_|github_pat_|AIza|ya29\.|glpat-|xox[abp]-|-----BEGIN )")
#: Set by the startup script or the image; a second value would conflict with it.
_RESERVED_NAMES = frozenset(
    {
        "DISABLE_VLLM_SERVER",
        "HOME",
        "PATH",
        "STORAGE_EMULATOR_HOST",
        "VLLM_ARGS",
        "VLLM_HOST_IP",
        "VLLM_PORT",
    }
)
_RESERVED_PREFIXES = ("CLOUDSDK_", "TPUFLEX_")


def environment_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """What is wrong with the container's environment."""
    refused = dict(refusals(environment))
    for name, value in environment.items():
        key = f"{_KEY}.{name}"
        if _SECRET_NAME.search(name) or _SECRET_VALUE.match(value):
            # The value stays out of the message: it may well be the secret.
            yield Finding(
                key,
                "looks like a secret, and the container's environment is readable in the "
                "node's metadata",
                _secret_remedy(name),
            )
        elif name in refused:
            yield Finding(key, refused[name], "Remove it.")
        elif name in _RESERVED_NAMES or name.startswith(_RESERVED_PREFIXES):
            yield Finding(key, "is set by tpuflex itself", "Remove it.")
        elif "\0" in value or "\n" in value:
            yield Finding(key, "has a line break", "Write the value on one line.")


def _secret_remedy(name: str) -> str:
    if name == "VLLM_API_KEY":
        return "Remove it: `tpuflex up` makes the key and keeps it in Secret Manager."
    if name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        return "Remove it: the server reads its weights from the bucket and needs no token."
    return "Remove it; no secret of yours reaches the container."
