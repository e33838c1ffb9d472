"""Buckets: private, uniform, and where the chips are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from tpuflex.gcloud_commands import make_private
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.policy.planned import (
    MACHINES,
    Planned,
    everybody,
    is_true,
    leaves,
    many,
    secret,
    unknown,
)
from tpuflex.policy.violations import Breach

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


BUCKET = "gcp:storage/bucket:Bucket"
#: Whose ACLs name an entity, as ``entity`` or as ``ROLE:ENTITY`` of ``roleEntities``.
_ACLS = frozenset(
    {
        "gcp:storage/bucketACL:BucketACL",
        "gcp:storage/bucketAccessControl:BucketAccessControl",
        "gcp:storage/defaultObjectACL:DefaultObjectACL",
        "gcp:storage/defaultObjectAccessControl:DefaultObjectAccessControl",
        "gcp:storage/objectACL:ObjectACL",
        "gcp:storage/objectAccessControl:ObjectAccessControl",
        "gcp:storage/bucketObject:BucketObject",
    }
)
#: https://cloud.google.com/storage/docs/access-control/lists#predefined-acl
_PUBLIC_ACLS = ("publicread", "publicreadwrite", "authenticatedread")


def public_buckets(planned: Planned) -> Iterator[Breach]:
    """Buckets that can be made public, and ACLs that do it."""
    if planned.type == BUCKET:
        value = planned.inputs.get("publicAccessPrevention")
        remedy = _remedy(planned, 'Write publicAccessPrevention: "enforced".')
        if unknown(value):
            yield Breach(
                "publicAccessPrevention is known only after the update", remedy, advisory=True
            )
        elif str(value).lower() != "enforced":
            given = "absent" if value is None else str(value)
            yield Breach(f"publicAccessPrevention is {given}", remedy)
    if planned.type in _ACLS:
        entities = (
            *many(planned.inputs.get("entity")),
            *(str(each).partition(":")[2] for each in many(planned.inputs.get("roleEntities"))),
        )
        for entity in entities:
            if everybody(entity):
                yield Breach(f"it gives access to {entity}", "Name those who need it.")
        if (acl := planned.text("predefinedAcl")).lower() in _PUBLIC_ACLS:
            yield Breach(f"its predefined ACL {acl} is public", "Leave it out.")


def _remedy(planned: Planned, ours: str) -> str:
    """``ours`` for a bucket of the program, and a command for one that it only reads."""
    name = planned.text("name")
    return f"Run: {make_private(f'gs://{name}')}" if planned.read and name else ours


def object_acls(planned: Planned) -> Iterator[Breach]:
    """Buckets whose objects have ACLs of their own."""
    if planned.type != BUCKET:
        return
    value = planned.inputs.get("uniformBucketLevelAccess")
    remedy = _remedy(planned, "Write uniformBucketLevelAccess: true.")
    if unknown(value):
        yield Breach(
            "uniformBucketLevelAccess is known only after the update", remedy, advisory=True
        )
    elif not is_true(value):
        yield Breach(f"uniformBucketLevelAccess is {'absent' if value is None else 'off'}", remedy)


def far_buckets(planned: Planned, regions: Collection[str]) -> Iterator[Breach]:
    """Buckets outside of the ``regions`` of the slices; without slices, none is far."""
    if planned.type != BUCKET or not regions:
        return
    value = planned.inputs.get("location")
    where = " or ".join(sorted(regions))
    remedy = f"Write location: {where}, or waive the rule for a bucket that no host reads."
    if planned.read:
        remedy = f"Write a bucket in {where}, or waive the rule and pay for the way."
    if unknown(value):
        yield Breach("its location is known only after the update", remedy, advisory=True)
    elif str(value or "US").strip().lower() not in regions:
        yield Breach(f"it is in {value or 'US'}, and the slice is in {where}", remedy)
