"""A stack on Google for a model: what it serves and where, by options, another tool's file or
answers, with flags that are safe to begin with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpuflex.catalog.catalog import Catalog
from tpuflex.errors import Finding, SettingsError
from tpuflex.planning.memory import MemoryPlan, difference, nearest_that_fit, plan_memory
from tpuflex.planning.recommend import cheapest_region
from tpuflex.planning.request import MemoryRequest
from tpuflex.planning.stack import memory_request
from tpuflex.scaffold.image_mirror import mirrored_image
from tpuflex.scaffold.offers import (
    accelerators_offered,
    models_offered,
    runs_offered,
    zones_offered,
)
from tpuflex.scaffold.options import Questions, StackOptions
from tpuflex.scaffold.sections import put
from tpuflex.settings.load import parse
from tpuflex.settings.model import StackSettings

_FIRST_MODEL = "google/gemma-4-E4B-it"
_FIRST_RUN = "4h"
_LENGTH = "serving.flags.max_model_len"
#: Accelerator types that are proposed, smallest first.
_PROPOSED = ("v6e-1", "v6e-4", "v6e-8")
#: Prompt and answer together; most models take more, at the cost of cache.
_CONTEXT = 16384

#: A zone, where an accelerator type has none.
_ANY_ZONE = "us-east5-a"
#: What stands for a project and an image while nothing but the rest of a stack is checked.
ANY_PROJECT = "any-project"
ANY_IMAGE = f"us-docker.pkg.dev/{ANY_PROJECT}/any/image@sha256:{'0' * 64}"

COMMENTS: Mapping[str, Sequence[str]] = {
    "serving.image": (
        "The hosts reach nothing but Google: the image comes through a mirror of Docker Hub.",
    ),
    "serving.flags.gpu_memory_utilization": (
        "The cache takes its share before programs and activations: 0.98 was seen to run out.",
    ),
    "serving.flags.disable_chunked_mm_input": (
        "vLLM warns that execution may fail without it for multimodal models on TPU.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleStack:
    """What a new stack on Google serves, and where.

    Attributes:
        project: Google Cloud project id.
        model: Hugging Face id.
        accelerator_type: such as ``v6e-4``.
        zones: zones of one region.
        max_run_duration: such as ``4h``.
        weights: directory of the weights relative to the project, if they are on this machine.
    """

    project: str
    model: str
    accelerator_type: str
    zones: tuple[str, ...]
    max_run_duration: str
    weights: str | None = None


def google_sections(target: GoogleStack, image: str) -> dict[str, Any]:
    """The sections of a stack that serves ``image`` with vLLM's own defaults."""
    return {
        "cloud": "google",
        "project": target.project,
        "slice": {
            "zones": list(target.zones),
            "accelerator_type": target.accelerator_type,
            "max_run_duration": target.max_run_duration,
        },
        "model": {
            "name": target.model,
            "weights": {"source": target.weights or weights_directory(target.model)},
        },
        "serving": {"image": image},
    }


def weights_directory(model: str) -> str:
    """Where the weights of ``model`` are expected, relative to the project."""
    return f"models/{model.rpartition('/')[2]}"


def first_flags(model: str, catalog: Catalog) -> dict[str, object]:
    """Flags to begin with for ``model``."""
    row = catalog.model(model)
    flags: dict[str, object] = {
        "dtype": "bfloat16",
        "gpu_memory_utilization": 0.9,
        "max_model_len": min(_CONTEXT, (row and row.max_context) or _CONTEXT),
        "max_num_batched_tokens": 4096,
        "max_num_seqs": 64,
    }
    if row is not None and set(row.modalities) != {"text"}:
        flags["disable_chunked_mm_input"] = True
    return flags


def google_stack(
    options: StackOptions, said: Mapping[str, object], catalog: Catalog, questions: Questions
) -> GoogleStack:
    """What the stack serves, and where: options first, then what a file ``said``, then answers.

    Raises:
        SettingsError: an option is wrong, and more would be asked.
        UsageError: something is missing, and nobody is asked.
    """
    # What a file or --set says may be what makes the model fit.
    fits = () if said or options.changes else ("tpuflex:serving.flags",)
    if questions.asking and (wrong := _given_wrong(options, catalog, fits)):
        raise SettingsError("The new stack", wrong, hint="Nothing was written.")
    project = ask_project(options, catalog, questions)
    model = questions.ask(
        "--model",
        options.model or text_at(said, "model.name"),
        "Model (Hugging Face id)",
        default=lambda: _FIRST_MODEL,
        offers=lambda: models_offered(catalog, _CONTEXT),
        check=lambda answer: _wrong(catalog, "tpuflex:model.name", model=answer),
    )
    accelerator = questions.ask(
        "--accelerator",
        options.accelerator or text_at(said, "slice.accelerator_type"),
        "Accelerator type",
        default=lambda: _smallest(project, model, said, catalog),
        offers=lambda: accelerators_offered(model, catalog, _CONTEXT),
        check=lambda answer: _wrong(
            catalog,
            "tpuflex:slice.accelerator_type",
            *fits,
            model=model,
            accelerator_type=answer,
        ),
    )
    zones = options.zones or _zones_said(said)
    if not zones:
        zones = (
            questions.ask(
                "--zone",
                None,
                "Zone",
                default=lambda: _first_zone(accelerator, catalog),
                offers=lambda: zones_offered(accelerator, catalog),
                check=lambda answer: _wrong(
                    catalog,
                    "tpuflex:slice.zones",
                    accelerator_type=accelerator,
                    zones=(answer,),
                ),
            ),
        )
    run = questions.ask(
        "--run",
        options.run,
        "Longest run (Google deletes it then)",
        default=lambda: _FIRST_RUN,
        offers=lambda: runs_offered(accelerator, zones[0], catalog),
        check=lambda answer: _wrong(
            catalog, "tpuflex:slice.max_run_duration", max_run_duration=answer
        ),
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


def ask_project(options: StackOptions, catalog: Catalog, questions: Questions) -> str:
    """The Google Cloud project, by its option or an answer."""
    return questions.ask(
        "--project",
        options.project,
        "Google Cloud project id",
        check=lambda answer: _wrong(catalog, "tpuflex:project", project=answer),
    )


def _given_wrong(
    options: StackOptions, catalog: Catalog, fits: tuple[str, ...]
) -> tuple[Finding, ...]:
    """What is wrong with options: said before the first question, it costs no answers."""
    chosen = options.accelerator is not None
    return _wrong(
        catalog,
        *("tpuflex:project", "tpuflex:model.name", "tpuflex:slice"),
        *(fits if chosen and options.model is not None else ()),
        project=options.project or ANY_PROJECT,
        model=options.model or _FIRST_MODEL,
        accelerator_type=options.accelerator or _PROPOSED[0],
        zones=options.zones if chosen else (),
        max_run_duration=options.run or _FIRST_RUN,
    )


def _wrong(
    catalog: Catalog,
    *about: str,
    project: str = ANY_PROJECT,
    model: str = _FIRST_MODEL,
    accelerator_type: str = _PROPOSED[0],
    zones: tuple[str, ...] = (),
    max_run_duration: str = _FIRST_RUN,
) -> tuple[Finding, ...]:
    """What is wrong ``about`` these keys with a stack of these answers, and of others that fit."""
    target = GoogleStack(
        project=project,
        model=model,
        accelerator_type=accelerator_type,
        zones=zones or (_first_zone(accelerator_type, catalog) or _ANY_ZONE,),
        max_run_duration=max_run_duration,
    )
    try:
        _proposal(target, _first_settings(model, catalog), catalog)
    except SettingsError as error:
        return tuple(each for each in error.findings if each.key.startswith(about))
    return ()


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
    """The smallest accelerator type that nothing speaks against.

    Raises:
        SettingsError: a file ``said`` what fits on none, or serves a model of unknown size, for
            which nothing speaks against any.
    """
    if said and model and catalog.model(model) is None:
        problem = f"none is named, and nobody knows how large {model} is"
        remedy = "Name one: --accelerator TYPE; `tpuflex memory --model-dir DIR` says what fits."
        raise SettingsError("The new stack", (Finding("accelerator", problem, remedy),))
    against: tuple[Finding, ...] = ()
    shorter: str | None = None
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
        try:
            _proposal(target, said or _first_settings(target.model, catalog), catalog)
        except SettingsError as error:
            against = error.findings
            shorter = shorter or (name if longest_context(target, said, catalog) else None)
            continue
        return name
    if said and against and not shorter:
        hint = f"Nothing of it fits {', '.join(_PROPOSED)}. Change a value with --set KEY=VALUE."
        raise SettingsError(f"The new stack, on {_PROPOSED[-1]},", against, hint=hint)
    return shorter


def _first_settings(model: str, catalog: Catalog) -> dict[str, object]:
    return {f"serving.flags.{name}": value for name, value in first_flags(model, catalog).items()}


def _proposal(target: GoogleStack, said: Mapping[str, object], catalog: Catalog) -> StackSettings:
    """The settings that ``target`` and what a file ``said`` make.

    Raises:
        SettingsError: something speaks against them.
    """
    sections = google_sections(target, ANY_IMAGE)
    for key, value in said.items():
        put(sections, key, value)
    return parse({"catalog": catalog.own, **sections}, "the proposal")


def longest_context(
    target: GoogleStack, said: Mapping[str, object], catalog: Catalog
) -> int | None:
    """The longest context that fits, for a file that ``said`` none, where the model's own does not
    fit; None otherwise."""
    row = catalog.model(target.model)
    if not said or _LENGTH in said or row is None or row.max_context is None:
        return None
    try:
        settings = _proposal(target, {**said, _LENGTH: 1}, catalog)
    except SettingsError:
        return None
    wanted = memory_request(settings)
    if not isinstance(wanted, MemoryRequest):
        return None
    whole = replace(wanted, max_model_len=row.max_context)
    lengths = [
        other.max_model_len
        for other in nearest_that_fit(whole)
        if other == replace(whole, max_model_len=other.max_model_len)
    ]
    return next((length for length in lengths if length < row.max_context), None)


@dataclass(frozen=True, slots=True)
class Choice:
    """An accelerator type for a stack.

    Attributes:
        name: the type.
        usd_per_hour: where it costs least; None where nobody has read the price.
        chosen: whether the stack is on it.
        holds: what fits on it, with what is to change for that; empty if nothing does.
    """

    name: str
    usd_per_hour: float | None
    chosen: bool
    holds: tuple[str, ...]

    def __str__(self) -> str:
        price = "price not known" if self.usd_per_hour is None else f"${self.usd_per_hour:.2f}/h"
        chosen = ", chosen" if self.chosen else ""
        return f"{self.name} ({price}{chosen}): {'; or '.join(self.holds) or 'does not fit'}"


def choices(settings: StackSettings) -> Iterator[Choice]:
    """The types that are proposed and the one of ``settings``, for the same server; none for a
    model of unknown size."""
    wanted = memory_request(settings)
    if not isinstance(wanted, MemoryRequest):
        return
    catalog, chosen = settings.catalog, wanted.accelerator
    rows = [row for name in _PROPOSED if (row := catalog.accelerator(name)) is not None]
    for row in dict.fromkeys((*rows, chosen)):
        all_devices = wanted.tensor_parallel_size == chosen.devices
        devices = row.devices if all_devices else wanted.tensor_parallel_size
        request = replace(wanted, accelerator=row, tensor_parallel_size=devices)
        price = cheapest_region(row, catalog)[1].value
        yield Choice(
            row.name,
            None if price is None else float(price),
            row == chosen,
            tuple(_held(request, fitting) for fitting in nearest_that_fit(request)),
        )


def _held(request: MemoryRequest, fitting: MemoryRequest) -> str:
    """What ``fitting``, which is near to ``request``, holds."""
    plan = plan_memory(fitting)
    held = f"{plan.cached_tokens:,} tokens of cache" if isinstance(plan, MemoryPlan) else "fits"
    change = difference(request, fitting)
    return f"{held} with {change}" if change else held


def _first_zone(accelerator: str, catalog: Catalog) -> str | None:
    row = catalog.accelerator(accelerator)
    return next(iter(catalog.accepting_zones(row.generation)), None) if row is not None else None
