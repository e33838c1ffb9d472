"""The library of weights of a Google Cloud project, and how an endpoint gets to read from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp import secretmanager, storage

from tpuflex.boot.places import COMPILE_CACHE_PREFIX
from tpuflex.components.cloud import require_matching_cloud, runs_embedded
from tpuflex.components.inputs import inputs_of
from tpuflex.components.ownership import labels
from tpuflex.components.secrets import replication_in
from tpuflex.components.weights import CACHE_DAYS, deletion
from tpuflex.inventory.library import (
    READER_TITLE,
    listed_and_below,
    prefix_condition,
    programs_title,
)
from tpuflex.naming import LIBRARY_NAME, library_names, programs_key
from tpuflex.tpu import Provider, StateId

#: Days for which what was replaced or deleted can be had back.
KEPT_DAYS = 7


@dataclass(frozen=True, kw_only=True)
class LibraryArgs:
    """Inputs of :class:`WeightsLibrary`."""

    project: str
    """Google Cloud project id."""

    regions: tuple[str, ...]
    """Regions with a bucket each."""

    state_id: pulumi.Input[str]
    """Id of the state that makes it."""


class WeightsLibrary(pulumi.ComponentResource):
    """One private bucket per region, for the weights of all endpoints of a project and for the
    programs that their hosts compile, and a secret that signs these.

    Weights are pushed once and stay when an endpoint goes. What is replaced or deleted can be had
    back for a week; the buckets themselves go for good with the library, so soft delete is off:
    what it keeps is billed, and nobody would see it. The command line adds the secret's value.
    """

    def __init__(
        self, name: str, args: LibraryArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:WeightsLibrary", name, inputs_of(args), opts)
        names = library_names(args.project)
        self.buckets = tuple(
            storage.Bucket(
                f"{name}-{region}",
                name=names.bucket(args.project, region),
                project=args.project,
                location=region.upper(),
                storage_class="STANDARD",
                uniform_bucket_level_access=True,
                public_access_prevention="enforced",
                versioning=storage.BucketVersioningArgs(enabled=True),
                lifecycle_rules=[
                    deletion(days_since_noncurrent_time=KEPT_DAYS),
                    deletion(age=CACHE_DAYS, matches_prefixes=[f"{COMPILE_CACHE_PREFIX}/"]),
                ],
                soft_delete_policy=storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
                force_destroy=True,
                labels=labels(names, args.state_id),
                opts=pulumi.ResourceOptions(parent=self),
            )
            for region in args.regions
        )
        self.programs_key = secretmanager.Secret(
            f"{name}-programs",
            secret_id=programs_key(args.project).rpartition("/")[2],
            project=args.project,
            replication=replication_in(args.regions[0]),
            labels=labels(names, args.state_id),
            deletion_protection=False,
            # It stays where it was made when another region comes first.
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["replication"]),
        )
        self.register_outputs({"buckets": [bucket.name for bucket in self.buckets]})


def deploy_library(
    project: str,
    regions: tuple[str, ...],
    *,
    cloud: Literal["google", "embedded"],
    environ: Mapping[str, str],
) -> None:
    """Register what a library is made of, with providers of its own.

    Args:
        project: Google Cloud project id.
        regions: regions with a bucket each.
        cloud: where it is made.
        environ: the environment that the plugins run with, checked against ``cloud``.

    Raises:
        pulumi.RunError: the environment points to another cloud.
    """
    require_matching_cloud(cloud, environ)
    tpu = Provider("tpu", project=project, embedded=runs_embedded(cloud, environ))
    state = StateId(f"{LIBRARY_NAME}-state", opts=pulumi.ResourceOptions(provider=tpu))
    provider = gcp.Provider("gcp", project=project)
    WeightsLibrary(
        LIBRARY_NAME,
        LibraryArgs(project=project, regions=regions, state_id=state.value),
        pulumi.ResourceOptions(providers=[provider]),
    )


@dataclass(frozen=True, kw_only=True)
class LibraryReaderArgs:
    """Inputs of :class:`LibraryReader`."""

    bucket: str
    """Name of the library's bucket in the region of the chips; it is there already."""

    prefix: str
    """Where in it that is, without a slash at the end."""

    reader: pulumi.Input[str]
    """IAM member that may read them."""

    title: str = READER_TITLE
    """Title of the condition: endpoints with one account have a binding each by it."""


class LibraryReader(pulumi.ComponentResource):
    """The right to read one set of weights of the library, and nothing else of it.

    The bucket is no part of the endpoint's stack, so the endpoint's teardown leaves it, and takes
    this right away.

    Attributes:
        grant: the role by which the reader reads.
    """

    grant: storage.BucketIAMMember

    def __init__(
        self, name: str, args: LibraryReaderArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:LibraryReader", name, inputs_of(args), opts)
        self.grant = storage.BucketIAMMember(
            f"{name}-reader",
            bucket=args.bucket,
            role="roles/storage.objectViewer",
            member=args.reader,
            condition=storage.BucketIAMMemberConditionArgs(
                title=args.title,
                description="The weights of one endpoint, not the others of the library",
                expression=prefix_condition(args.bucket, args.prefix),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"bucket": args.bucket})


@dataclass(frozen=True, kw_only=True)
class LibraryProgramsArgs:
    """Inputs of :class:`LibraryPrograms`."""

    project: str
    """Google Cloud project id."""

    bucket: str
    """Name of the library's bucket in a region; it is there already."""

    prefix: str
    """Where in it the programs are, without a slash at the end."""

    owner: str
    """The endpoint's owner marker."""

    keeper: pulumi.Input[str]
    """IAM member that keeps its programs there."""

    signs: bool = True
    """Whether it may read what signs programs: of several regions in the home's component."""


class LibraryPrograms(pulumi.ComponentResource):
    """The right to keep compiled programs of one's own in the library, and to sign them.

    Anyone who writes programs runs code on the chips: the endpoint's account alone adds to its
    place, and can neither replace nor delete there. It sees the names of the library's objects,
    because who may list a bucket may list all of it.

    Attributes:
        grants: the roles by which it reads, adds and signs them.
    """

    grants: tuple[pulumi.CustomResource, ...]

    def __init__(
        self, name: str, args: LibraryProgramsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:LibraryPrograms", name, inputs_of(args), opts)
        child = pulumi.ResourceOptions(parent=self)
        # Endpoints with one account have bindings of their own by the title.
        title = programs_title(args.owner)
        # The writer adds objects, and can neither replace nor delete one.
        on_bucket = (
            ("reader", "objectViewer", listed_and_below(args.bucket, args.prefix)),
            ("writer", "objectCreator", prefix_condition(args.bucket, args.prefix)),
        )
        self.grants = tuple(
            storage.BucketIAMMember(
                f"{name}-{what}",
                bucket=args.bucket,
                role=f"roles/storage.{role}",
                member=args.keeper,
                condition=storage.BucketIAMMemberConditionArgs(
                    title=title,
                    description="Programs that the hosts of one endpoint have compiled",
                    expression=expression,
                ),
                opts=child,
            )
            for what, role, expression in on_bucket
        )
        if args.signs:
            key = secretmanager.SecretIamMember(
                f"{name}-key",
                project=args.project,
                secret_id=programs_key(args.project).rpartition("/")[2],
                role="roles/secretmanager.secretAccessor",
                member=args.keeper,
                condition=secretmanager.SecretIamMemberConditionArgs(
                    title=title,
                    description="What signs the compiled programs of one endpoint",
                    expression="resource.type == 'secretmanager.googleapis.com/SecretVersion'",
                ),
                opts=child,
            )
            self.grants = (*self.grants, key)
        self.register_outputs({"bucket": args.bucket})
