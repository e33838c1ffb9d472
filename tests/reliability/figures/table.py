"""All figures, in the order in which they are run."""

from __future__ import annotations

from reliability.figures import (
    faults,
    histories,
    kills,
    parallel,
    repeats,
    signals,
    waiting,
    waiting_process,
)
from reliability.figures.figure import Figure

FIGURES: dict[str, Figure] = {
    figure.key: figure
    for figure in (
        faults.FIGURE,
        histories.FIGURE,
        waiting.FIGURE,
        waiting_process.FIGURE,
        parallel.FIGURE,
        parallel.ENGINE_FIGURE,
        repeats.SECOND_UP,
        repeats.TEARDOWN,
        kills.FIGURE,
        signals.FIGURE,
        faults.PROCESS_FIGURE,
    )
}
