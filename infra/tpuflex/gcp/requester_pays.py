"""Buckets whose owner lets whoever reads them pay, which tpuflex never does: neither a host nor
whoever pushes names a project for that (https://cloud.google.com/storage/docs/requester-pays)."""

from __future__ import annotations

import re

from tpuflex.errors import ReaderPaysError
from tpuflex.gcloud_commands import no_requester_pays

#: Google's words for a request that names none; it has said them with and without "a" before them.
_REFUSAL = re.compile(r"requester pays bucket but no user project", re.IGNORECASE)


def wants_payment(status: int, text: str) -> bool:
    """Whether an answer of HTTP ``status`` with ``text`` refuses a reader who would not pay."""
    return status == 400 and _REFUSAL.search(text) is not None


def reader_pays(url: str) -> ReaderPaysError:
    """What is said of the bucket ``url``, ``gs://BUCKET``."""
    return ReaderPaysError(
        f"{url} lets whoever reads it pay, which neither hosts nor a push can",
        hint=f"Run: {no_requester_pays(url)}\nOr name another bucket, which holds a copy.",
    )
