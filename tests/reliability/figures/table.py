"""All figures, in the order in which they are run."""

from __future__ import annotations

from reliability.figures import faults, histories, kills, naive, repeats, signals
from reliability.figures.figure import Figure

FIGURES: dict[str, Figure] = {
    figure.key: figure
    for figure in (
        faults.FIGURE,
        histories.FIGURE,
        repeats.SECOND_UP,
        repeats.TEARDOWN,
        kills.FIGURE,
        signals.FIGURE,
        faults.PROCESS_FIGURE,
        naive.AUTO_NAMED,
        naive.GIVEN_NAME,
    )
}
