"""A bucket for weights that was there before the endpoint, and how its hosts get to read there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import storage

from tpuflex.components.inputs import inputs_of
from tpuflex.components.ownership import read_only_options
from tpuflex.gcloud_commands import make_private
from tpuflex.google.existing_bucket import made_by_tpuflex
from tpuflex.inventory.library import READER_TITLE, prefix_condition
from tpuflex.naming import Names, library_names
from tpuflex.settings.bucket import ExistingBucket
from tpuflex.settings.model import StackSettings


@dataclass(frozen=True, kw_only=True)
class ExistingWeightsArgs:
    """Inputs of :class:`ExistingWeights`."""

    bucket: ExistingBucket
    """The bucket."""

    prefix: str
    """Where in it the endpoint's weights are, without a slash at the end."""

    manage_grants: bool
    """Whether the reader gets the right to read them."""

    reader: pulumi.Input[str]
    """IAM member that reads them."""

    title: str = READER_TITLE
    """Title of the condition: endpoints with one account have a binding each by it."""


class ExistingWeights(pulumi.ComponentResource):
    """The right to read one set of weights in a bucket of the user's own, and nothing else of it.

    The engine reads the bucket, at every plan, and never changes or deletes it.

    Attributes:
        grants: the role by which the reader reads, if it is made here.
        bucket_name: name of the bucket, once it is seen to be usable.
        seen: the bucket, once it is seen to be usable.
    """

    grants: tuple[storage.BucketIAMMember, ...]
    bucket_name: pulumi.Output[str]
    seen: pulumi.Output[pulumi.Resource]

    def __init__(
        self, name: str, args: ExistingWeightsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:ExistingWeights", name, inputs_of(args), opts)
        child = pulumi.ResourceOptions(parent=self)
        reading = read_only_options(self, opts)
        bucket = storage.Bucket.get(f"{name}-bucket", args.bucket.name, opts=reading)
        found = pulumi.Output.all(bucket.effective_labels, bucket.uniform_bucket_level_access)
        self.bucket_name = found.apply(lambda seen: require_usable(args, *seen))
        self.seen = self.bucket_name.apply(lambda _: bucket)
        grant = storage.BucketIAMMemberConditionArgs(
            title=args.title,
            description="The weights of one endpoint, and nothing else of the bucket",
            expression=prefix_condition(args.bucket.name, args.prefix),
        )
        self.grants = tuple(
            storage.BucketIAMMember(
                f"{name}-reader",
                bucket=self.bucket_name,
                role="roles/storage.objectViewer",
                member=args.reader,
                condition=grant,
                opts=child,
            )
            for _ in range(args.manage_grants)
        )
        self.register_outputs({"bucket": self.bucket_name})


def require_not_own(bucket: ExistingBucket, settings: StackSettings, names: Names) -> None:
    """Nothing if ``bucket`` has no name that an endpoint with these ``names``, or the library,
    gives in the project and region of ``settings``.

    Raises:
        RunError: it has: `down` and `sweep` would take it for the endpoint's.
    """
    place = settings.project, settings.region
    word = {names.bucket(*place): "own", library_names(place[0]).bucket(*place): "library"}
    if bucket.name in word:
        raise pulumi.RunError(
            f"tpuflex:model.weights.bucket: {bucket.url} has the name that tpuflex gives.\n"
            f"Write {word[bucket.name]} for that; or a bucket that others have made."
        )


def require_usable(
    args: ExistingWeightsArgs, labels: Mapping[str, str] | None, uniform: object
) -> str:
    """The name of the bucket of ``args`` if it can be used."""
    if refusal := made_by_tpuflex(args.bucket, labels or {}):
        raise pulumi.RunError(refusal)
    if args.manage_grants and uniform is not True:
        raise pulumi.RunError(
            f"tpuflex:model.weights.bucket: {args.bucket.url} has no uniform bucket-level access,"
            " so nobody can be let into a part of it alone.\n"
            f"Run: {make_private(args.bucket.url)}\n"
            "Or write tpuflex:model.weights.manage_grants: false, and let the hosts' account read."
        )
    return args.bucket.name
