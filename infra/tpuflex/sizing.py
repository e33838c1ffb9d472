"""Which chips hold a model: memory plans and recommendations for a given model.

A model is named as the catalog has it, or by a checkpoint, of which the configuration and the
headers of the weights are read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.catalog.rows import CatalogRows
from tpuflex.errors import NotFoundError, UsageError, WeightsError
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.recommend import Recommendation, Requirements, recommend
from tpuflex.planning.request import Load, NotPlannable
from tpuflex.planning.scenarios import Scenario, nearest_scenarios, scenario
from tpuflex.planning.stack import plan_request, server_request
from tpuflex.settings.weights_source import GsUrl, HubSource

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.catalog.rows import Accelerator, Model
    from tpuflex.planning.checkpoint import Checkpoint
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.stack import Stack

#: Where a checkpoint is: a directory or a config.json, a bucket, or the Hub.
Place = Path | GsUrl | HubSource
#: Files between two lines of progress.
_REPORTED = 50
#: The load that chips are ranked for where nothing names another.
_CONTEXT, _CONCURRENCY = 16_384, 8


def known_model(catalog: Catalog, name: str) -> Model:
    """The row of the model called ``name``, or of the one that it is a former name or a copy of.

    Raises:
        NotFoundError: there is none; names the nearest.
    """
    row = catalog.model(name)
    if row is None:
        near = catalog.nearest_models(name)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise NotFoundError(
            f"The model {name!r} is not in the catalog.",
            hint=f"{hint}Add its row to catalog.yaml: `tpuflex memory --model-dir DIR --row` makes"
            " it from the model's files.",
        )
    return row


def known_accelerator(catalog: Catalog, name: str) -> Accelerator:
    """The row of the accelerator type called ``name``.

    Raises:
        NotFoundError: there is none; names the nearest.
    """
    row = catalog.accelerator(name)
    if row is None:
        nearest = ", ".join(catalog.nearest_accelerators(name))
        raise NotFoundError(f"{name} is not in the catalog.", hint=f"Nearest: {nearest}.")
    return row


def known_rows(settings: StackSettings) -> Catalog:
    """The catalog of a stack, with the row of its model as the model's files have it."""
    found = settings.checkpoint
    rows = (found.row,) if found is not None and found.row is not None else ()
    return settings.catalog.extended(CatalogRows(models=rows)) if rows else settings.catalog


def checkpoint_place(text: str) -> Place:
    """The directory, the place in Cloud Storage, or the model of the Hub that ``text`` names.

    Raises:
        WeightsError: it is a URL of something else.
    """
    if "://" not in text:
        return Path(text)
    if (place := GsUrl.parse(text) or HubSource.parse(text)) is None:
        raise WeightsError(
            f"{text[:200]!r} names no checkpoint that can be read",
            hint="Write a directory, gs://BUCKET/PREFIX, or hf://OWNER/NAME.",
        )
    return place


@dataclass(frozen=True, slots=True)
class CheckpointReader:
    """Reads checkpoints for a caller.

    Attributes:
        environ: the caller's environment.
        today: date of the rows that are made.
        say: receives progress.
        stack: the stack on whose cloud buckets, and the Hub, are; None: those that the environment
            names.
    """

    environ: Mapping[str, str] = field(repr=False)
    today: dt.date
    say: Callable[[str], None]
    stack: Stack | None = None

    def read(self, place: Place) -> Checkpoint:
        """What the checkpoint at ``place`` says of itself.

        Raises:
            TpuflexError: as :func:`tpuflex.weights.source.read_checkpoint` has it.
        """
        # They load Google's clients, which is most of a second, and most plans read no files.
        from tpuflex.stack.connection import connect
        from tpuflex.stack.environment import HUB_TOKEN_VARIABLE
        from tpuflex.weights.checkpoint import read_files
        from tpuflex.weights.source import hub_client_without_retries, read_checkpoint

        environ = self.environ
        if self.stack is not None and self.stack.embedded and not isinstance(place, Path):
            environ = connect(self.stack, environ, self.say, start=False).environ
        if not isinstance(place, HubSource):
            return read_checkpoint(
                place, environ=environ, today=self.today, progress=self._progress
            )
        name = place.repository
        client = hub_client_without_retries(environ, self.environ.get(HUB_TOKEN_VARIABLE, ""))
        return client.reading(
            place,
            lambda files, commit: read_files(
                files,
                str(HubSource(name, commit)),
                name=name,
                today=self.today,
                progress=self._progress,
            ),
        )

    def _progress(self, done: int, total: int) -> None:
        if done % _REPORTED == 0 and done < total:
            self.say(f"{done} of {total} files' headers were read")


@dataclass(frozen=True, slots=True)
class MemoryChoice:
    """What to plan instead of what a stack file says.

    Attributes:
        model: name of a model of the catalog.
        checkpoint: a directory, a config.json, a place in Cloud Storage, or a model of the Hub to
            read the model from.
        accelerator: accelerator type.
        flags: flags of vLLM that decide memory, by their names in the stack file.
    """

    model: str | None
    checkpoint: Place | None
    accelerator: str | None
    flags: Mapping[str, object]

    @property
    def needs_stack(self) -> bool:
        """Whether the stack file says the rest."""
        return (self.model or self.checkpoint) is None or self.accelerator is None


@dataclass(frozen=True, slots=True)
class Server:
    """A server whose memory is planned.

    Attributes:
        catalog: what is known of models and chips.
        model: name of the model.
        accelerator: accelerator type; None for the CPU of the embedded cloud.
        flags: flags of vLLM, by their names with underscores.
        environment: environment of the server.
    """

    catalog: Catalog
    model: str = ""
    accelerator: str | None = None
    flags: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_stack(cls, settings: StackSettings) -> Server:
        """The server of a stack."""
        return cls(
            catalog=settings.catalog,
            model=settings.model.name,
            accelerator=None if settings.cloud == "embedded" else settings.slice.accelerator_type,
            flags=settings.serving.given_flags,
            environment=settings.serving.env,
        )

    def chosen(self, choice: MemoryChoice) -> Server:
        """This server with what ``choice`` says; a parallel size goes with its chips."""
        other_chips = choice.accelerator not in (None, self.accelerator)
        kept = {
            name: value
            for name, value in self.flags.items()
            if not (other_chips and name == "tensor_parallel_size")
        }
        return Server(
            self.catalog,
            choice.model or self.model,
            choice.accelerator or self.accelerator,
            {**kept, **choice.flags},
            self.environment,
        )


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What a chip's memory holds.

    Attributes:
        plan: the plan.
        files: the checkpoint that it is by; None if it is by what is known of a model's name.
    """

    plan: MemoryPlan
    files: Checkpoint | None

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex memory --json``."""
        return self.plan.to_json()


def memory_report(choice: MemoryChoice, catalog: Catalog, reader: CheckpointReader) -> MemoryReport:
    """Plan the memory of what was chosen.

    Args:
        choice: what to plan.
        catalog: models and chips, where no stack is read.
        reader: reads the checkpoint that was chosen; its stack is planned where the choice leaves
            something to it.

    Raises:
        NotFoundError: the model or the accelerator type is not known, or something that the plan
            needs.
        WeightsError: the checkpoint is damaged, or of an architecture that nobody has described.
    """
    stack, checkpoint = reader.stack, None
    if choice.checkpoint is not None:
        checkpoint = reader.read(choice.checkpoint)
    elif stack is not None and choice.model is None:
        checkpoint = stack.settings.checkpoint
    server = Server(catalog) if stack is None else Server.of_stack(stack.settings)
    plan = _plan(server.chosen(choice), checkpoint)
    if isinstance(plan, NotPlannable):
        raise NotFoundError(f"There is no memory plan: {plan.reason}.")
    return MemoryReport(plan, checkpoint)


def _plan(server: Server, checkpoint: Checkpoint | None) -> MemoryPlan | NotPlannable:
    """The memory plan of ``server``; of ``checkpoint`` where there is one, not the named model."""
    model = checkpoint.model if checkpoint else known_model(server.catalog, server.model)
    chips = None
    if server.accelerator is not None:
        chips = known_accelerator(server.catalog, server.accelerator)
    request = server_request(model, chips, server.flags, server.environment)
    return plan_request(request, server.catalog)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What chips are wanted for; a scenario fills in what is None or empty.

    Attributes:
        models: names of models.
        checkpoints: places of checkpoints.
        context: tokens of the longest sequence.
        concurrency: sequences at once.
        ttft: seconds within which the first token is wanted.
        budget: US dollars per hour for chips.
        scenario: name of a row of a published decision matrix.
    """

    models: tuple[str, ...] = ()
    checkpoints: tuple[Place, ...] = ()
    context: int | None = None
    concurrency: int | None = None
    ttft: float | None = None
    budget: Decimal | None = None
    scenario: str | None = None

    @property
    def names_models(self) -> bool:
        """Whether it says what to serve."""
        return bool(self.models or self.checkpoints)

    @property
    def needs_stack(self) -> bool:
        """Whether a stack file says what to serve."""
        return not self.names_models and self.scenario is None

    def of_stack(self, settings: StackSettings) -> Workload:
        """This workload with the model of a stack, and with its load where that is open."""
        flags = settings.serving.flags
        return replace(
            self,
            models=(settings.model.name,),
            context=self.context or flags.max_model_len,
            concurrency=self.concurrency or flags.max_num_seqs,
        )


def recommendation_for(
    workload: Workload, catalog: Catalog, reader: CheckpointReader
) -> Recommendation:
    """Rank the chips for ``workload``; where its scenario is not for this tool, say what is.

    Raises:
        UsageError: the workload says too little, or contradicts itself.
        NotFoundError: the model or the scenario is not known.
        WeightsError: a checkpoint is damaged, or of an architecture that nobody has described.
    """
    row = _scenario(workload.scenario)
    if row is not None and row.elsewhere is not None and not workload.names_models:
        if workload.context or workload.concurrency or workload.ttft or workload.budget:
            raise UsageError(
                f"{row.name} is not a job for tpuflex: {row.elsewhere.why}. Add --model to rank"
                " chips all the same."
            )
        return Recommendation(scenario=row)
    names = workload.models if workload.names_models or row is None else row.models
    models = [known_model(catalog, name) for name in names]
    models += [reader.read(place).model for place in workload.checkpoints]
    if not models:
        raise UsageError(
            "Missing --model: say what to serve, or take a --scenario (`--scenario list` lists"
            " them). In a project with a stack, the stack says it."
        )
    requirements = _requirements(workload, row, models)
    _refuse_too_long(models, requirements)
    return recommend(dict.fromkeys(models), requirements, catalog, row)


def _scenario(name: str | None) -> Scenario | None:
    if name is None:
        return None
    row = scenario(name)
    if row is None:
        near = nearest_scenarios(name)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise NotFoundError(
            f"There is no scenario {name!r}.",
            hint=f"{hint}`tpuflex recommend --scenario list` lists them.",
        )
    return row


def _requirements(workload: Workload, row: Scenario | None, models: list[Model]) -> Requirements:
    context = workload.context or (int(row.context.value) if row and row.context else None)
    concurrency = workload.concurrency or (
        int(row.concurrency.value) if row and row.concurrency else None
    )
    ttft = workload.ttft or (row.ttft.value if row and row.ttft else None)
    longest = max(each.max_context or _CONTEXT for each in models)
    load = Load(context=context or min(_CONTEXT, longest), concurrency=concurrency or _CONCURRENCY)
    return Requirements(load=load, ttft=ttft, budget=workload.budget)


def _refuse_too_long(models: list[Model], requirements: Requirements) -> None:
    """Refuse a context that is longer than any of ``models`` takes.

    Raises:
        UsageError: it is.
    """
    longest = {row.name: row.max_context for row in models}
    if all(most is not None and most < requirements.load.context for most in longest.values()):
        each = ", ".join(f"{name} takes at most {most:,}" for name, most in longest.items())
        raise UsageError(
            f"{requirements.load.context:,} tokens are too many: {each}.", option="--context"
        )
