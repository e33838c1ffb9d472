"""Objects in a bucket that others use, too: which of them a push has written.

What a push writes there carries a mark. Nothing without it is replaced, or listed as weights: a
name alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import MANIFEST_NAME
from tpuflex.errors import ConflictError

if TYPE_CHECKING:
    from google.cloud.storage import Blob  # type: ignore[import-untyped]

    from tpuflex.gcp.weights_report import FoundManifest

#: Metadata of an object that a push has written, so that a later one may replace it.
MARK: dict[str, str] = {"tpuflex-pushed": "1"}
#: Names that an error lists.
_NAMED = 3


def marked(blob: Blob) -> bool:
    """Whether a push has written ``blob``."""
    return MARK.items() <= (blob.metadata or {}).items()


def require_replaceable(
    place: str,
    paths: Iterable[str],
    present: Mapping[str, Blob],
    found: FoundManifest | None,
) -> None:
    """Check that nothing of others would be replaced.

    Args:
        place: where the set is, as ``gs://BUCKET/PREFIX``.
        paths: the files that would be sent.
        present: what is there, by path.
        found: the manifest that is there.

    Raises:
        ConflictError: something would; nothing was sent.
    """
    foreign = [path for path in paths if path in present and not marked(present[path])]
    manifest = present.get(MANIFEST_NAME)
    if manifest is not None and not marked(manifest) and not (found and found.manifest):
        foreign.append(MANIFEST_NAME)
    if not foreign:
        return
    more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
    raise ConflictError(
        f"{place} holds files that no push has written, and that a push would replace:"
        f" {', '.join(foreign[:_NAMED])}{more}. Nothing was sent.",
        hint="Write another prefix to tpuflex:model.weights.bucket, or another revision; or have"
        " whoever put them there remove them.",
    )


def of_a_push(objects: Mapping[str, Blob], found: FoundManifest | None) -> dict[str, Blob]:
    """Those of the ``objects`` of one prefix that are a set of weights: what a push has written, or
    the manifest there names; by path. Empty where they are something else."""
    manifest = None if found is None else found.manifest
    named = {MANIFEST_NAME, *(file.path for file in manifest.files)} if manifest else set()
    return {path: blob for path, blob in objects.items() if path in named or marked(blob)}
