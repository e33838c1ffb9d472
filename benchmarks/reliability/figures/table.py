"""All figures, in the order in which they are run."""

from __future__ import annotations

from reliability.figures import (
    edges,
    faults,
    histories,
    kills,
    kills_again,
    kills_copy,
    kills_stack,
    kills_weights,
    naive,
    parallel,
    renewals,
    repeats,
    roles,
    rows,
    shards,
    signals,
    stack_files,
    strict,
    teardown,
    waiting,
    waiting_process,
)
from reliability.figures.figure import Figure

FIGURES: dict[str, Figure] = {
    figure.key: figure
    for figure in (
        faults.FIGURE,
        histories.FIGURE,
        edges.FIGURE,
        rows.FIGURE,
        waiting.FIGURE,
        waiting_process.FIGURE,
        parallel.FIGURE,
        parallel.ENGINE_FIGURE,
        repeats.FIGURE,
        repeats.STACK_FIGURE,
        teardown.FIGURE,
        teardown.STACK_FIGURE,
        kills.FIGURE,
        signals.FIGURE,
        faults.PROCESS_FIGURE,
        stack_files.FIGURE,
        roles.FIGURE,
        roles.ENGINE_FIGURE,
        shards.FIGURE,
        # Figures too large for one run are sampled, and get all the time that is left.
        naive.AUTO_NAMED,
        kills_again.FIGURE,
        naive.GIVEN_NAME,
        kills_stack.FIGURE,
        kills_weights.FIGURE,
        kills_copy.FIGURE,
        renewals.FIGURE,
        renewals.FAULTS_FIGURE,
        *strict.FIGURES,
    )
}
