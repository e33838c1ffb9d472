"""The bucket that holds the model's weights, in the region of the chips."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import storage

from tpuflex.components.marks import labels
from tpuflex.naming import Names


@dataclass(frozen=True, kw_only=True)
class WeightsBucketArgs:
    """Inputs of :class:`WeightsBucket`."""

    names: Names
    """Physical names."""

    state_id: pulumi.Input[str]
    """Id of the state that makes it."""

    project: str
    """Google Cloud project id."""

    region: str
    """Region of the slice and of the bucket."""

    reader: pulumi.Input[str]
    """IAM member that may read the weights."""


class WeightsBucket(pulumi.ComponentResource):
    """A private regional bucket, and its one reader.

    It is emptied and deleted on destroy: the weights can be pushed again from their source, and
    terabytes that a teardown leaves behind keep costing. For the same reason deleted objects do
    not linger: soft delete is off, and noncurrent versions are deleted after a day.

    Attributes:
        bucket: the bucket.
        bucket_name: its name; known before it exists.
        grant: the reader's role.
    """

    bucket: storage.Bucket
    bucket_name: str
    grant: storage.BucketIAMMember

    def __init__(
        self, name: str, args: WeightsBucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:WeightsBucket", name, None, opts)
        self.bucket_name = args.names.bucket(args.project, args.region)
        self.bucket = storage.Bucket(
            name,
            name=self.bucket_name,
            project=args.project,
            location=args.region.upper(),
            storage_class="STANDARD",
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning=storage.BucketVersioningArgs(enabled=True),
            lifecycle_rules=[
                storage.BucketLifecycleRuleArgs(
                    action=storage.BucketLifecycleRuleActionArgs(type="Delete"),
                    condition=storage.BucketLifecycleRuleConditionArgs(
                        days_since_noncurrent_time=1
                    ),
                ),
            ],
            soft_delete_policy=storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
            force_destroy=True,
            labels=labels(args.names, args.state_id),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.grant = storage.BucketIAMMember(
            f"{name}-reader",
            bucket=self.bucket.name,
            role="roles/storage.objectViewer",
            member=args.reader,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"bucket": self.bucket.name})
