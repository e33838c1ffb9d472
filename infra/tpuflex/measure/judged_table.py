"""A published table of figures, each point of it held against the chips."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.catalog.rows import Source
from tpuflex.errors import Finding, ImplausibleError, NotFoundError, SettingsError
from tpuflex.files.trusted import open_regular
from tpuflex.planning.plausibility import VERDICTS, Plausibility, judge_point
from tpuflex.planning.published import BUILTIN_FILE, LARGEST_TABLE, builtin_points, read_table

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.planning.published import PublishedPoint


@dataclass(frozen=True, slots=True)
class JudgedTable:
    """A published table, judged.

    Attributes:
        name: of the file.
        rows: its points, in their order.
    """

    name: str
    rows: tuple[Plausibility, ...]

    @property
    def summary(self) -> str:
        """How many points there are of each verdict, the worst first."""
        counts = Counter(row.verdict for row in self.rows)
        words = (f"{counts[each]} {each.replace('_', ' ')}" for each in VERDICTS if counts[each])
        points = "1 point" if len(self.rows) == 1 else f"{len(self.rows)} points"
        return f"{points}: {', '.join(words)}"

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex bench import --json``."""
        counts = Counter(row.verdict for row in self.rows)
        return {
            "table": self.name,
            "counts": {verdict: counts[verdict] for verdict in VERDICTS},
            "points": [{"row": number, **row.to_json()} for number, row in enumerate(self.rows, 1)],
        }

    def require_possible(self) -> None:
        """See that the chips can have done all of it.

        Raises:
            ImplausibleError: a point is impossible.
        """
        found = [number for number, row in enumerate(self.rows, 1) if row.verdict == "impossible"]
        if found:
            which = ", ".join(map(str, found[:10])) + (", …" if len(found) > 10 else "")
            what = f"{len(found)} of {len(self.rows)} points are impossible: "
            raise ImplausibleError(
                f"{self.name}: {what}row{'s' if len(found) > 1 else ''} {which}",
                hint="Ask where the figures come from: prompts that were in the prefix cache are"
                " often counted as computed.",
            )


def import_table(path: Path, catalog: Catalog, today: dt.date) -> JudgedTable:
    """Judge a CSV table, the columns of which are those of
    :data:`tpuflex.planning.published.COLUMNS`.

    Args:
        path: the file, which is the source of rows that name none.
        catalog: models, chips and prices to hold it against.
        today: date of those rows.

    Raises:
        NotFoundError: there is no such file.
        SettingsError: something in it is wrong, by line and column.
    """
    try:
        with open_regular(path) as file:
            content = file.read(LARGEST_TABLE + 1)
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {path}.") from error
    except OSError as error:
        found = Finding(path.name, f"cannot be read ({error.strerror})")
        raise SettingsError(str(path), (found,)) from error
    points = read_table(content, str(path), Source(where=path.name, date=today))
    return _judged(path.name, points, catalog)


def judge_published(catalog: Catalog) -> JudgedTable:
    """Judge the published figures that come with tpuflex."""
    return _judged(BUILTIN_FILE, builtin_points(), catalog)


def _judged(name: str, points: Iterable[PublishedPoint], catalog: Catalog) -> JudgedTable:
    return JudgedTable(name, tuple(judge_point(point, catalog) for point in points))
