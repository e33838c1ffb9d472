"""Rules about the serving container's environment: no secrets, nothing that opens the server."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from tpuflex.catalog.environment import refusals
from tpuflex.catalog.flags import Variable, vllm_interface
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
#: What the backend can read, by the type of the variable, and an example.
_FORMS = {
    "bool": (r"0|1|(?i:true|false)|", "0 or 1"),
    "int": (r"-?\d{1,18}", "a whole number"),
    "float": (r"-?\d{1,18}(\.\d{1,18})?|", "a number"),
    "int_list": (r"(-?\d{1,18}(, ?-?\d{1,18})*)?", "whole numbers with commas between"),
    "text": (r"(?s).*", "text"),
}
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


def tpu_environment_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Values that the TPU backend cannot read, at which the server ends."""
    known = vllm_interface().tpu_variables
    for name, value in environment.items():
        if name in known and (expected := _expected(known[name], value)):
            yield Finding(
                f"{_KEY}.{name}",
                "has a value at which vLLM's TPU backend ends when it starts",
                f"Write {expected}.",
            )


def environment_warnings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Variables that vLLM does not know, which it then ignores."""
    interface = vllm_interface()
    known = {*interface.vllm_variables, *interface.tpu_variables}
    for name in environment:
        if name.startswith("VLLM_") and name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.85)
            yield Finding(
                f"{_KEY}.{name}",
                f"vLLM {interface.vllm_version} does not know this variable",
                f"Did you mean {close[0]}?" if close else "Remove it.",
            )


def _expected(variable: Variable, value: str) -> str | None:
    """What to write instead of ``value``; None if the backend can read it."""
    if variable.choices:
        words = value.split(",") if variable.type == "choices" else [value]
        fine = all(word in variable.choices for word in words)
        return None if fine else ", ".join(filter(None, variable.choices))
    pattern, example = _FORMS[variable.type]
    return None if re.fullmatch(pattern, value) else example


def _secret_remedy(name: str) -> str:
    if name == "VLLM_API_KEY":
        return "Remove it: `tpuflex up` makes the key and keeps it in Secret Manager."
    if name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        return "Remove it: the server reads its weights from the bucket and needs no token."
    return "Remove it; no secret of yours reaches the container."
