"""What a new stack on Google serves, and where: options, then another tool's file, then answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpuflex.catalog.catalog import Catalog
from tpuflex.cli.steps.questions import Questions
from tpuflex.errors import SettingsError
from tpuflex.scaffold.google_stack import (
    ANY_IMAGE,
    ANY_PROJECT,
    GoogleStack,
    first_flags,
    google_sections,
)
from tpuflex.scaffold.image_mirror import mirrored_image
from tpuflex.scaffold.sections import put
from tpuflex.settings.load import parse

_FIRST_MODEL = "google/gemma-4-E4B-it"
_FIRST_RUN = "4h"
#: Accelerator types that are proposed, smallest first.
_PROPOSED = ("v6e-1", "v6e-4", "v6e-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """What the command line says of a new stack; None and empty: nothing."""

    cloud: str | None = None
    template: str | None = None
    source: Path | None = None
    project: str | None = None
    model: str | None = None
    accelerator: str | None = None
    zones: tuple[str, ...] = ()
    run: str | None = None
    weights: str | None = None
    changes: tuple[str, ...] = ()


def google_stack(
    options: StackOptions, said: Mapping[str, object], catalog: Catalog, questions: Questions
) -> GoogleStack:
    """What the stack serves, and where: options first, then what a file ``said``, then answers."""
    project = questions.ask("--project", options.project, "Google Cloud project id")
    model = questions.ask(
        "--model",
        options.model or text_at(said, "model.name"),
        "Model (Hugging Face id)",
        default=lambda: _FIRST_MODEL,
    )
    accelerator = questions.ask(
        "--accelerator",
        options.accelerator or text_at(said, "slice.accelerator_type"),
        "Accelerator type",
        default=lambda: _smallest(project, model, said, catalog),
    )
    zones = options.zones or _zones_said(said)
    if not zones:
        zones = (
            questions.ask(
                "--zone", None, "Zone", default=lambda: _first_zone(accelerator, catalog)
            ),
        )
    run = questions.ask(
        "--run", options.run, "Longest run (Google deletes it then)", default=lambda: _FIRST_RUN
    )
    questions.require()
    return GoogleStack(
        project=project,
        model=model,
        accelerator_type=accelerator,
        zones=zones,
        max_run_duration=run,
        weights=options.weights,
    )


def image_of(
    options: StackOptions, said: Mapping[str, object], target: GoogleStack, catalog: Catalog
) -> str:
    """The image: what ``--set`` or a file names, else the newest one that is known."""
    if any(change.startswith("serving.image=") for change in options.changes):
        return ""  # it is set in a moment
    named = text_at(said, "serving.image")
    return named or mirrored_image(catalog, project=target.project, zone=target.zones[0])


def text_at(said: Mapping[str, object], key: str) -> str | None:
    """The text at ``key`` of what a file said; None if it says none."""
    value = said.get(key)
    return value if isinstance(value, str) else None


def _zones_said(said: Mapping[str, object]) -> tuple[str, ...]:
    zones = said.get("slice.zones")
    return tuple(map(str, zones)) if isinstance(zones, list) else ()


def _smallest(project: str, model: str, said: Mapping[str, object], catalog: Catalog) -> str | None:
    """The smallest accelerator type that nothing speaks against."""
    for name in _PROPOSED:
        zone = _first_zone(name, catalog)
        if zone is None:
            continue
        target = GoogleStack(
            project=project or ANY_PROJECT,
            model=model or "any/model",
            accelerator_type=name,
            zones=(zone,),
            max_run_duration=_FIRST_RUN,
        )
        sections = google_sections(target, ANY_IMAGE)
        sections["serving"]["flags"] = {} if said else first_flags(target.model, catalog)
        for key, value in said.items():
            put(sections, key, value)
        try:
            parse({"catalog": catalog.own, **sections}, "the proposal")
        except SettingsError:
            continue
        return name
    return None


def _first_zone(accelerator: str, catalog: Catalog) -> str | None:
    row = catalog.accelerator(accelerator)
    return next(iter(catalog.accepting_zones(row.generation)), None) if row is not None else None
