"""Facts about accelerators, models, prices and zones: rows with a source and a date each."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """Where a row of the catalog comes from.

    Attributes:
        where: a URL, or what was observed.
        date: when it was read or observed; Google changes these facts without notice.
    """

    where: str
    date: dt.date
