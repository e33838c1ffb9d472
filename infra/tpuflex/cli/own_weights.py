"""Whether the set that lies where a stack file names its weights is the stack's own: one that it
has served, or that was pushed there from here. By place and name alone it may be a colleague's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.operate.pushed_weights import PushedWeights

if TYPE_CHECKING:
    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.cli.cloud import Cloud
    from tpuflex.gcp.weights_report import FoundManifest


def is_own(cloud: Cloud, served: PlannedWeights | None, found: FoundManifest | None) -> bool:
    """Whether the set of the manifest ``found`` in the bucket of ``cloud`` is the stack's own.

    Args:
        cloud: the stack's cloud, in one of its regions.
        served: the weights that the slice in the state was made for.
        found: what is there; None for files without a manifest, which are the stack's where its
            weights were.
    """
    if found is None:
        return _was_there(cloud, served)
    known = known_manifests(cloud, served)
    if known is None or found.sha256 in known:
        return True
    # The same files, as an older version wrote them.
    return found.manifest is not None and found.manifest.in_schema_1().sha256 in known


def known_manifests(cloud: Cloud, served: PlannedWeights | None) -> frozenset[str] | None:
    """SHA-256 of the manifests that are the stack's own in the bucket of ``cloud``; None for any: a
    slice of an older version served what it found. What is the stack's in its home is it in every
    region, which the home's is copied to.

    Args:
        cloud: the stack's cloud, in one of its regions.
        served: the weights that the slice in the state was made for.
    """
    home = cloud.buckets[cloud.stack.settings.region]
    prefix = weights_prefix(cloud.stack.settings.model)
    pushed = PushedWeights(cloud.stack.own_files)
    known = {pushed.get(bucket, prefix) for bucket in (cloud.bucket, home)}
    if served is not None and served.prefix == prefix:
        if served.holds(cloud.bucket) and not served.manifest_sha256:
            return None
        if served.holds(cloud.bucket) or served.holds(home):
            known.add(served.manifest_sha256)
    return frozenset(each for each in known if each)


def _was_there(cloud: Cloud, served: PlannedWeights | None) -> bool:
    """Whether weights of the stack were ever in the bucket of ``cloud``."""
    prefix = weights_prefix(cloud.stack.settings.model)
    if served is not None and served.prefix == prefix and served.holds(cloud.bucket):
        return True
    return PushedWeights(cloud.stack.own_files).get(cloud.bucket, prefix) is not None
