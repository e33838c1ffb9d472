"""The figures that are also measured on the strict cloud (:mod:`embedded_cloud.strictness`).

All areas are strict, for a slice in a project that was made a moment ago
(:mod:`reliability.new_project`), and for the dev stack in one where no API is enabled yet. Of the
areas that hosts, images and gcloud would meet, nothing is seen: the rigs' hosts run nothing.
"""

from __future__ import annotations

import dataclasses

from reliability.figures import edges, faults, histories, kills, kills_stack, teardown
from reliability.figures.figure import Figure

KEY = "-strict"


def on_strict_cloud(figure: Figure) -> Figure:
    """The same cases on the strict cloud, sampled with the same seed."""
    return dataclasses.replace(
        figure,
        key=f"{figure.key}{KEY}",
        title=f"figure {figure.key} in a new project of the strict cloud",
        strict=True,
    )


FIGURES = tuple(
    map(
        on_strict_cloud,
        (
            faults.FIGURE,
            histories.FIGURE,
            edges.FIGURE,
            teardown.FIGURE,
            kills.FIGURE,
            kills_stack.FIGURE,
        ),
    )
)
