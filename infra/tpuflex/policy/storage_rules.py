"""Buckets: private, uniform, and where the chips are."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tpuflex.gcloud_commands import make_private
from tpuflex.policy.finding import Breach
from tpuflex.policy.planned import Planned, everybody, many, switched_on, unknown

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
    elif not switched_on(value):
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
