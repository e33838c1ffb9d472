"""A preparation of the endpoint that only says which weights to serve."""

from __future__ import annotations

from collections.abc import Mapping

from tpuflex.errors import TpuflexError


class Prepared:
    """A preparation with nothing to do.

    Attributes:
        sha256: the hash that it gives.
        error: what it fails with, if anything.
        calls: bucket and secrets of every update that it was asked to prepare.
    """

    def __init__(self, sha256: str = "b7" * 32, error: TpuflexError | None = None) -> None:
        self.sha256 = sha256
        self.error = error
        self.calls: list[tuple[str, dict[str, str]]] = []

    async def planned(self, _bucket: str, /) -> str | None:
        return self.sha256

    async def ready(self, bucket: str, secret_ids: Mapping[str, str], /) -> str:
        self.calls.append((bucket, dict(secret_ids)))
        if self.error is not None:
            raise self.error
        return self.sha256
