"""Where in buckets the hosts of a stack find its weights, and keep their programs."""

from __future__ import annotations

from tpuflex.naming import Names, library_names, slug
from tpuflex.settings.model import ModelSettings, StackSettings

#: Begins the names of all objects that a host may write.
COMPILE_CACHE_PREFIX = "compile-cache"


def weights_prefix(model: ModelSettings) -> str:
    """Prefix of the weights of ``model`` within their bucket, without a trailing slash."""
    existing = model.weights.existing
    below = f"{existing.prefix}/" if existing is not None and existing.prefix else ""
    return f"{below}models/{slug(model.name)}/{model.weights.revision}"


def programs_prefix(names: Names) -> str:
    """Prefix of the programs that the hosts of an endpoint compile, within their bucket, without a
    trailing slash: in a library every endpoint has a place of its own, by its owner marker, because
    names that are slugs may meet.

    Args:
        names: the endpoint's physical names.
    """
    return f"{COMPILE_CACHE_PREFIX}/{names.prefix}-{names.owner}"


def weights_bucket(settings: StackSettings, names: Names) -> str:
    """Name of the bucket that holds the weights of a stack: the stack's, the library's in its home,
    or one that was there before both.

    Args:
        settings: the stack.
        names: its physical names.
    """
    return weights_buckets(settings, names)[settings.region]


def weights_buckets(settings: StackSettings, names: Names) -> dict[str, str]:
    """Names of the buckets that the hosts of a stack read their weights from, by the region of
    their zone.

    Args:
        settings: the stack.
        names: its physical names.
    """
    project, regions = settings.project, settings.slice.regions
    if (existing := settings.model.weights.existing) is not None:
        return dict.fromkeys(regions, existing.name)
    holder = library_names(project) if settings.model.weights.bucket == "library" else names
    return {region: holder.bucket(project, region) for region in regions}
