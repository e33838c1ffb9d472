"""All figures, in the order in which they are run."""

from __future__ import annotations

from reliability.figures import faults, histories, kills, kills_again, kills_stack, repeats, signals
from reliability.figures.figure import Figure

FIGURES: dict[str, Figure] = {
    figure.key: figure
    for figure in (
        faults.FIGURE,
        histories.FIGURE,
        repeats.SECOND_UP,
        repeats.TEARDOWN,
        kills.FIGURE,
        kills_again.FIGURE,
        kills_stack.FIGURE,
        signals.FIGURE,
        faults.PROCESS_FIGURE,
    )
}
