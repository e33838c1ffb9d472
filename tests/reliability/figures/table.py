"""All figures, in the order in which they are run."""

from __future__ import annotations

from reliability.figures import edges, faults, histories, kills, repeats, rows, signals
from reliability.figures.figure import Figure

FIGURES: dict[str, Figure] = {
    figure.key: figure
    for figure in (
        faults.FIGURE,
        histories.FIGURE,
        edges.FIGURE,
        rows.FIGURE,
        repeats.SECOND_UP,
        repeats.TEARDOWN,
        kills.FIGURE,
        signals.FIGURE,
        faults.PROCESS_FIGURE,
    )
}
