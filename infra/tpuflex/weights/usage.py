"""When a set of weights was last used: noted in the metadata of its manifest, by the day.

Cloud Storage does not say when an object was last read. Metadata can be changed and the content,
its generation and its hash stay (https://cloud.google.com/storage/docs/metadata#editable), so that
no host sees it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpuflex.boot.manifest_document import SOURCE_METADATA
from tpuflex.weights.local_files import translated
from tpuflex.weights.objects import TIMEOUT, SetObjects

if TYPE_CHECKING:
    from google.cloud.storage import Blob  # type: ignore[import-untyped]

#: Metadata of the manifest's object: the last day on which an endpoint is known to have been made,
#: or to have been there, for these weights.
USED_METADATA = "tpuflex-used"


def last_used(metadata: Mapping[str, str] | None) -> dt.date | None:
    """The day that ``metadata`` names; None if it names none."""
    try:
        return dt.date.fromisoformat((metadata or {}).get(USED_METADATA, ""))
    except ValueError:
        return None


def noted(day: dt.date) -> dict[str, str]:
    """Metadata that names ``day``."""
    return {USED_METADATA: day.isoformat()}


def note_source(manifest: Blob, source: str) -> None:
    """Note at the object of a complete set's ``manifest`` that its files are those of ``source``,
    too. It is there all the while: hosts may be waiting for it.

    Raises:
        google.api_core.exceptions.GoogleAPICallError: the caller may not, or somebody writes there.
    """
    manifest.metadata = {**(manifest.metadata or {}), SOURCE_METADATA: source}
    manifest.patch(if_metageneration_match=manifest.metageneration, timeout=TIMEOUT)


def note_use(there: SetObjects, day: dt.date) -> None:
    """Note that the complete set that is ``there`` is used on ``day``, unless a later day is noted
    already; what no push has written stays as it is.

    Raises:
        AccessError: the caller may not.
        ConflictError: somebody writes there in the same moment.
    """
    blob = there.manifest_object
    if blob is None or there.manifest is None or not there.of_a_push(blob):
        return
    before = last_used(blob.metadata)
    if before is not None and before >= day:
        return
    with translated(there.bucket):
        blob.metadata = {**(blob.metadata or {}), **noted(day)}
        blob.patch(if_metageneration_match=blob.metageneration, timeout=TIMEOUT)
