"""Cloud Storage types. Properties as in pulumi-gcp 10.2.0, places as in storage v1.

Replacements and defaults: terraform-provider-google,
google/services/storage/resource_storage_bucket.go.
"""

from __future__ import annotations

from urllib.parse import quote

from embedded_cloud.core.json_types import children, text
from embedded_cloud.gcp_plugin.call import CloudCall, unless_gone
from embedded_cloud.gcp_plugin.collection import Collection
from embedded_cloud.gcp_plugin.fields import (
    DELETION_POLICY,
    NAME,
    PROJECT,
    Group,
    Groups,
    Property,
    Use,
)
from embedded_cloud.gcp_plugin.policies import IamMember, PolicyCall, iam_member
from embedded_cloud.gcp_plugin.resource_type import Identity, Made, ManagedMap, ResourceType
from embedded_cloud.gcp_plugin.types import Flag, Number, Segment, Text, TextMap, Texts
from tpuflex.errors import ConflictError

_ENABLED = Group((Property("enabled", Flag(), Use.REQUIRED),))

_LIFECYCLE = Groups(
    (
        Property(
            "action",
            Group((Property("type", use=Use.REQUIRED), Property("storageClass"))),
            Use.REQUIRED,
        ),
        Property(
            "condition",
            Group(
                (
                    Property("age", Number()),
                    Property("createdBefore"),
                    Property("customTimeBefore"),
                    Property("daysSinceCustomTime", Number()),
                    Property("daysSinceNoncurrentTime", Number()),
                    Property("matchesPrefixes", Texts(ordered=True), wire="matchesPrefix"),
                    Property(
                        "matchesStorageClasses", Texts(ordered=True), wire="matchesStorageClass"
                    ),
                    Property("matchesSuffixes", Texts(ordered=True), wire="matchesSuffix"),
                    Property("noncurrentTimeBefore"),
                    Property("numNewerVersions", Number()),
                )
            ),
            Use.REQUIRED,
        ),
    ),
    ordered=True,
)


def _empty_first(made: Made, call: CloudCall) -> None:
    """Delete every generation of every object if the program allows it, else refuse.

    Raises:
        ConflictError: the bucket has objects and ``forceDestroy`` is not set.
    """
    bucket = made.id
    path = f"/storage/v1/b/{bucket}/o"
    query = {"versions": "true", "maxResults": "500"}
    while True:
        page = unless_gone(
            f"Error listing objects of bucket {bucket}",
            lambda: call.request("GET", path, query=query),
        )
        objects = children(page or {}, "items")
        if not objects:
            return
        if made.state.get("forceDestroy") is not True:
            raise ConflictError(
                f"Error trying to delete bucket {bucket} containing objects without "
                "`force_destroy` set to true",
                status=409,
                hint="set forceDestroy on the bucket and run `pulumi up`, then destroy again",
            )
        for one in objects:
            _delete_object(bucket, text(one, "name"), text(one, "generation"), call)


def _delete_object(bucket: str, name: str, generation: str, call: CloudCall) -> None:
    path = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
    unless_gone(
        f"Error deleting object {name} of bucket {bucket}",
        lambda: call.request("DELETE", path, query={"generation": generation}),
    )


BUCKET = ResourceType(
    token="gcp:storage/bucket:Bucket",  # noqa: S106 - a type token
    title="Bucket",
    properties=(
        NAME,
        PROJECT,
        DELETION_POLICY,
        Property("forceDestroy", Flag(), default=False, wire=""),
        Property("location", Text(fold=True), Use.REQUIRED, immutable=True),
        Property("storageClass", default="STANDARD"),
        Property("labels", TextMap()),
        Property(
            "autoclass",
            Group(
                (
                    Property("enabled", Flag(), Use.REQUIRED),
                    Property("terminalStorageClass", use=Use.CHOSEN),
                )
            ),
        ),
        Property(
            "cors",
            Groups(
                (
                    Property("maxAgeSeconds", Number()),
                    Property("methods", Texts(ordered=True), wire="method"),
                    Property("origins", Texts(ordered=True), wire="origin"),
                    Property("responseHeaders", Texts(ordered=True), wire="responseHeader"),
                ),
                ordered=True,
            ),
        ),
        Property(
            "customPlacementConfig",
            Group((Property("dataLocations", Texts(), Use.REQUIRED),)),
            immutable=True,
        ),
        Property("defaultEventBasedHold", Flag()),
        Property("encryption", Group((Property("defaultKmsKeyName"),))),
        Property("hierarchicalNamespace", _ENABLED, use=Use.CHOSEN, immutable=True),
        Property("lifecycleRules", _LIFECYCLE, wire="lifecycle.rule"),
        Property(
            "logging",
            Group(
                (
                    Property("logBucket", use=Use.REQUIRED),
                    Property("logObjectPrefix", use=Use.CHOSEN),
                )
            ),
        ),
        Property(
            "publicAccessPrevention", use=Use.CHOSEN, wire="iamConfiguration.publicAccessPrevention"
        ),
        Property("requesterPays", Flag(), wire="billing.requesterPays"),
        Property(
            "retentionPolicy",
            Group(
                (
                    Property("retentionPeriod", Number(as_text=True), Use.REQUIRED),
                    Property("isLocked", Flag(), use=Use.OUTPUT),
                )
            ),
        ),
        Property("rpo", use=Use.CHOSEN),
        Property(
            "softDeletePolicy",
            Group(
                (
                    Property("retentionDurationSeconds", Number(as_text=True), use=Use.CHOSEN),
                    Property("effectiveTime", use=Use.OUTPUT),
                )
            ),
            use=Use.CHOSEN,
        ),
        Property(
            "uniformBucketLevelAccess",
            Flag(),
            use=Use.CHOSEN,
            wire="iamConfiguration.uniformBucketLevelAccess.enabled",
        ),
        Property("versioning", _ENABLED, use=Use.CHOSEN),
        Property(
            "website", Group((Property("mainPageSuffix"), Property("notFoundPage"))), use=Use.CHOSEN
        ),
        Property("projectNumber", Number(), use=Use.OUTPUT),
        Property("selfLink", use=Use.OUTPUT),
        Property("timeCreated", use=Use.OUTPUT),
        Property("updated", use=Use.OUTPUT),
        Property("url", use=Use.OUTPUT, wire=""),
        Property("effectiveLabels", TextMap(), use=Use.OUTPUT, wire=""),
        Property("pulumiLabels", TextMap(), use=Use.OUTPUT, wire=""),
    ),
    identity=Identity("{name}", ("{project}/{name}",)),
    behaviour=Collection(
        path="/storage/v1/b",
        item="/storage/v1/b/{name}",
        query={"project": "{project}"},
        guard=_empty_first,
        # resourceStorageBucketDelete has no case for 404.
        must_exist=True,
    ),
    autonamed="name",
    maps=(ManagedMap("labels", "effectiveLabels", "pulumiLabels", removes_by_null=True),),
    derived={"url": "gs://{name}"},
    unserved=("enableObjectRetention", "ipFilter"),
)

BUCKET_IAM_MEMBER = iam_member(
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    Property("bucket", Segment(), Use.REQUIRED, immutable=True),
    IamMember(
        target="bucket",
        prefix="b/",
        reading=PolicyCall(
            "GET", "/storage/v1/{resource}/iam", (("optionsRequestedPolicyVersion", "3"),)
        ),
        writing=PolicyCall("PUT", "/storage/v1/{resource}/iam"),
    ),
)

TYPES = (BUCKET, BUCKET_IAM_MEMBER)
