"""An API of which each call is tried once, for a reading that is worth no wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuflex.gcp.transport import Api, JsonObject, Query


class TriedOnce:
    """As ``api``, whatever budget for retries a caller gives."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: JsonObject | None = None,
        budget: float = 0.0,
    ) -> JsonObject:
        """As :meth:`tpuflex.gcp.transport.Transport.call`, without a retry."""
        del budget
        return self._api.call(method, path, query=query, body=body, budget=0)
