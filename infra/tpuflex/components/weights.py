"""The bucket that holds the model's weights, in the region of the chips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_gcp import storage

from tpuflex.boot.places import COMPILE_CACHE_PREFIX
from tpuflex.components.inputs import inputs_of
from tpuflex.components.ownership import labels
from tpuflex.naming import Names

#: Days for which compiled programs are kept. A host cannot delete those that nobody needs any more.
CACHE_DAYS = 90


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

    reader: pulumi.Input[str] | None
    """IAM member that may read the weights; None where others grant that."""

    keeps_programs: bool
    """Whether the reader keeps the programs there that it compiled."""

    labels: pulumi.Input[Mapping[str, str]] | None = None
    """Labels of the user's."""

    kms_key: pulumi.Input[str] | None = None
    """Key of the user's that encrypts new objects."""


class WeightsBucket(pulumi.ComponentResource):
    """A private regional bucket, and its one reader, who may add compiled programs to it.

    It is emptied and deleted on destroy: the weights can be pushed again from their source, and
    terabytes that a teardown leaves behind keep costing. For the same reason deleted objects do
    not linger: soft delete is off, and noncurrent versions are deleted after a day.

    Attributes:
        bucket: the bucket.
        bucket_name: its name; known before it exists.
        grants: the roles by which the reader reads, and adds compiled programs where they are kept.
    """

    bucket: storage.Bucket
    bucket_name: str
    grants: tuple[storage.BucketIAMMember, ...]

    def __init__(
        self, name: str, args: WeightsBucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:WeightsBucket", name, inputs_of(args), opts)
        self.bucket_name = args.names.bucket(args.project, args.region)
        cached = f"{COMPILE_CACHE_PREFIX}/"
        rules = [deletion(days_since_noncurrent_time=1)]
        if args.keeps_programs:
            rules.append(deletion(age=CACHE_DAYS, matches_prefixes=[cached]))
        self.bucket = storage.Bucket(
            name,
            name=self.bucket_name,
            project=args.project,
            location=args.region.upper(),
            storage_class="STANDARD",
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning=storage.BucketVersioningArgs(enabled=True),
            lifecycle_rules=rules,
            soft_delete_policy=storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
            force_destroy=True,
            encryption=(
                storage.BucketEncryptionArgs(default_kms_key_name=args.kms_key)
                if args.kms_key is not None
                else None
            ),
            labels=labels(args.names, args.state_id, args.labels),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.grants = () if args.reader is None else self._granted(name, args, args.reader)
        self.register_outputs({"bucket": self.bucket.name})

    def _granted(
        self, name: str, args: WeightsBucketArgs, reader: pulumi.Input[str]
    ) -> tuple[storage.BucketIAMMember, ...]:
        reading = storage.BucketIAMMember(
            f"{name}-reader",
            bucket=self.bucket.name,
            role="roles/storage.objectViewer",
            member=reader,
            opts=pulumi.ResourceOptions(parent=self),
        )
        if not args.keeps_programs:
            return (reading,)
        adding = storage.BucketIAMMember(
            f"{name}-compile-cache",
            bucket=self.bucket.name,
            # Adds objects, and can neither replace nor delete one.
            role="roles/storage.objectCreator",
            member=reader,
            # https://cloud.google.com/iam/docs/conditions-attribute-reference#resource-name
            condition=storage.BucketIAMMemberConditionArgs(
                title="tpuflex_compile_cache_only",
                description="Programs that the hosts have compiled, not the weights",
                expression="resource.name.startsWith("
                f"'projects/_/buckets/{self.bucket_name}/objects/{COMPILE_CACHE_PREFIX}/')",
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        return (reading, adding)


def deletion(**condition: Any) -> storage.BucketLifecycleRuleArgs:
    """A rule of a bucket that deletes what meets ``condition``."""
    return storage.BucketLifecycleRuleArgs(
        action=storage.BucketLifecycleRuleActionArgs(type="Delete"),
        condition=storage.BucketLifecycleRuleConditionArgs(**condition),
    )
