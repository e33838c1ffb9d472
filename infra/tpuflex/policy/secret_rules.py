"""Values of secrets where only their names belong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.policy.finding import Breach
from tpuflex.policy.planned import MACHINES, Planned, leaves, secret

_VERSIONS = frozenset(
    {
        "gcp:secretmanager/secretVersion:SecretVersion",
        "gcp:secretmanager/regionalSecretVersion:RegionalSecretVersion",
    }
)
#: What a host's metadata is called, by type; every process of the host may read it
#: (https://cloud.google.com/compute/docs/metadata/overview).
_METADATA = {
    QUEUED_RESOURCE: ("metadata",),
    "gcp:tpu/v2Vm:V2Vm": ("metadata",),
    **dict.fromkeys(MACHINES, ("metadata", "metadataStartupScript")),
}
#: Forms by which a credential is known wherever it stands, with the name of each.
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")),
    ("the key file of a service account", re.compile(r'"private_key(?:_id)?"\s*:\s*"[^"]+"')),
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{40,})")),
    ("a Google access token", re.compile(r"\bya29\.[A-Za-z0-9_.-]{20,}")),
    ("a Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("an OpenAI-style key", re.compile(r"\bsk-[A-Za-z0-9_-]{20,}")),
    ("a Pulumi access token", re.compile(r"\bpul-[0-9a-f]{40}\b")),
)
_REMEDY = (
    "Add it to Secret Manager with `tpuflex secrets put`, or a version by hand, and write the name"
    " of the version."
)


def secret_values(planned: Planned) -> Iterator[Breach]:
    """Secrets in inputs. No message holds a value."""
    if planned.type in _VERSIONS and planned.inputs.get("secretData") is not None:
        yield Breach("secretData puts the value into the stack's state", _REMEDY)
    for key in _METADATA.get(planned.type, ()):
        for path in _secrets(planned.inputs.get(key), key):
            yield Breach(f"{path} is a secret, and metadata is no place for one", _REMEDY)
    if planned.type.startswith("pulumi:providers:"):
        return  # its credentials are of the machine that runs the engine
    for path, value in leaves(planned.inputs):
        for what, form in _FORMS:
            if isinstance(value, str) and form.search(value):
                yield Breach(f"{path} holds {what}", _REMEDY)


def _secrets(value: object, path: str) -> Iterator[str]:
    """Where the Pulumi secrets in ``value`` are."""
    if secret(value):
        yield path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _secrets(inner, f"{path}.{key}")
