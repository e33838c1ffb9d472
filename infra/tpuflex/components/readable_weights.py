"""What lets the hosts of an endpoint read their weights, and keep what they compile."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from tpuflex.boot.places import programs_prefix, weights_buckets, weights_prefix
from tpuflex.components.egress import in_region
from tpuflex.components.existing_bucket import (
    ExistingWeights,
    ExistingWeightsArgs,
    require_not_own,
)
from tpuflex.components.given import Given, labels_of
from tpuflex.components.identity import HostIdentity
from tpuflex.components.library import (
    LibraryPrograms,
    LibraryProgramsArgs,
    LibraryReader,
    LibraryReaderArgs,
)
from tpuflex.components.weights import WeightsBucket, WeightsBucketArgs
from tpuflex.inventory.library import READER_TITLE, reader_title
from tpuflex.naming import Names
from tpuflex.settings.model import StackSettings


@dataclass(frozen=True)
class ReadableWeights:
    """What there is before the slice, so that its hosts can read their weights.

    Attributes:
        known: known once they can; None where nobody here lets them.
        barriers: what the slice waits for.
    """

    known: pulumi.Output[str] | None
    barriers: tuple[pulumi.Input[pulumi.Resource], ...]


def readable_weights(
    name: str,
    given: Given,
    names: Names,
    state_id: pulumi.Input[str],
    identity: HostIdentity,
    kms_key: pulumi.Output[str] | None,
    opts: pulumi.ResourceOptions,
) -> ReadableWeights:
    """What lets the hosts read their weights and keep programs; with the endpoint's own bucket, if
    it has one: beside one that outlives it only for programs.

    Args:
        name: logical name of the endpoint.
        given: its settings.
        names: its physical names.
        state_id: id of the state that makes it.
        identity: whom the hosts are.
        kms_key: the key that encrypts what is made; None for Google's own.
        opts: options of what is made.

    Raises:
        pulumi.RunError: the bucket that was there before is the endpoint's own.
    """
    settings = given.settings
    reader = identity.member if settings.identity.manage_grants else None
    found: list[ReadableWeights] = []
    if settings.model.weights.existing is not None:
        found.append(_existing(name, settings, names, identity, opts))
    elif settings.model.weights.bucket == "library" and reader is not None:
        found.append(_library(name, settings, names, reader, opts))
    if settings.programs_in_library and reader is not None:
        found.append(_kept_programs(name, settings, names, reader, opts))
    if settings.makes_bucket:
        own = WeightsBucket(
            f"{name}-weights",
            WeightsBucketArgs(
                names=names,
                state_id=state_id,
                project=settings.project,
                region=settings.region,
                reader=reader,
                keeps_programs=settings.serving.kept_programs == "bucket",
                labels=labels_of(given),
                kms_key=kms_key,
            ),
            opts,
        )
        made = own.grants or (own.bucket,)
        found.append(ReadableWeights(made[0].id, made))
    barriers = tuple(barrier for each in found for barrier in each.barriers)
    return ReadableWeights(found[0].known if found else None, barriers)


def _title(settings: StackSettings, names: Names) -> str:
    """Title of the condition on which the hosts read: endpoints with one account have a binding
    each by it."""
    return READER_TITLE if settings.identity.existing is None else reader_title(names.owner)


def _existing(
    name: str,
    settings: StackSettings,
    names: Names,
    identity: HostIdentity,
    opts: pulumi.ResourceOptions,
) -> ReadableWeights:
    """What lets the hosts read their weights in a bucket that was there before."""
    weights = settings.model.weights
    assert weights.existing is not None  # noqa: S101 - it is named
    require_not_own(weights.existing, settings, names)
    there = ExistingWeights(
        f"{name}-brought-weights",
        ExistingWeightsArgs(
            bucket=weights.existing,
            prefix=weights_prefix(settings.model),
            manage_grants=weights.manage_grants and settings.identity.manage_grants,
            reader=identity.member,
            title=_title(settings, names),
        ),
        opts,
    )
    known = there.grants[0].id if there.grants else there.bucket_name
    return ReadableWeights(known, (there.seen, *there.grants))


def _library(
    name: str,
    settings: StackSettings,
    names: Names,
    reader: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> ReadableWeights:
    """What lets the hosts read their weights in the library of each region."""
    readers = [
        LibraryReader(
            f"{name}-library{in_region(region, settings.region)}",
            LibraryReaderArgs(
                bucket=bucket,
                prefix=weights_prefix(settings.model),
                reader=reader,
                title=_title(settings, names),
            ),
            opts,
        )
        for region, bucket in weights_buckets(settings, names).items()
    ]
    grants = tuple(each.grant for each in readers)
    return ReadableWeights(grants[0].id, grants)


def _kept_programs(
    name: str,
    settings: StackSettings,
    names: Names,
    keeper: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> ReadableWeights:
    """What lets the hosts keep their programs in the library, in that of their own region."""
    kept = [
        LibraryPrograms(
            f"{name}-library-programs{in_region(region, settings.region)}",
            LibraryProgramsArgs(
                project=settings.project,
                bucket=bucket,
                prefix=programs_prefix(names),
                owner=names.owner,
                keeper=keeper,
                signs=region == settings.region,
            ),
            opts,
        )
        for region, bucket in weights_buckets(settings, names).items()
    ]
    grants = tuple(grant for each in kept for grant in each.grants)
    return ReadableWeights(grants[0].id, grants)
