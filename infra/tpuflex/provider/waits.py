"""How many waits there are in this process. Apart from what waits, because the provider makes
contact with the engine before it loads that."""

from __future__ import annotations

import threading
from types import TracebackType


class Waits:
    """Counts the waits in this process: each uses ``with waits:`` around itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """The present number."""
        return self._count

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._count -= 1
