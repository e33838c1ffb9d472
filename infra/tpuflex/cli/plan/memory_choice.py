"""What `tpuflex memory` plans: the stack, the stack with something else in it, or no stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.cli.plan.catalog_lookup import known_accelerator, known_model
from tpuflex.errors import WeightsError
from tpuflex.planning.request import NotPlannable
from tpuflex.planning.stack import plan_request, server_request
from tpuflex.stack.environment import HUB_TOKEN_VARIABLE
from tpuflex.weights.source import hasty_hub_client

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.cli.invocation import Invocation
    from tpuflex.planning.checkpoint import Checkpoint
    from tpuflex.planning.memory import MemoryPlan
    from tpuflex.settings.model import StackSettings
    from tpuflex.settings.weights_source import GsUrl, HubSource
    from tpuflex.stack.stack import Stack

#: Files between two lines of progress.
_REPORTED = 50


@dataclass(frozen=True, slots=True)
class MemoryChoice:
    """What the command line says instead of the stack file.

    Attributes:
        model: name of a model of the catalog.
        checkpoint: a directory, a config.json, a place in Cloud Storage, or a model of the Hub to
            read the model from.
        accelerator: accelerator type.
        flags: flags of vLLM that decide memory, by their names in the stack file.
    """

    model: str | None
    checkpoint: Path | GsUrl | HubSource | None
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
        flags: flags of vLLM, by their names in the stack file.
        environment: environment of the server.
        extra_args: further flags, as words.
    """

    catalog: Catalog
    model: str = ""
    accelerator: str | None = None
    flags: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    extra_args: tuple[str, ...] = ()

    @classmethod
    def of_stack(cls, settings: StackSettings) -> Server:
        """The server of a stack."""
        return cls(
            catalog=settings.catalog,
            model=settings.model.name,
            accelerator=None if settings.cloud == "embedded" else settings.slice.accelerator_type,
            flags=settings.serving.flags.model_dump(exclude_none=True),
            environment=settings.serving.env,
            extra_args=settings.serving.extra_args,
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
            self.extra_args,
        )


def planned(
    invocation: Invocation, choice: MemoryChoice
) -> tuple[MemoryPlan | NotPlannable, Checkpoint | None]:
    """The memory plan of what was chosen, or why there is none; and the files that it is by, if not
    by a model's name.

    Raises:
        NotFoundError: there is no such stack, model or accelerator type.
        SettingsError: the stack file is wrong.
        WeightsError: the checkpoint is damaged, or of an architecture that nobody has described.
    """
    stack = checkpoint = None
    if choice.needs_stack:
        stack = invocation.open_stack(deploying=False, by_catalog=True)
    if choice.checkpoint is not None:
        checkpoint = checkpoint_of(invocation, choice.checkpoint, stack)
    elif stack is not None and choice.model is None:
        checkpoint = stack.settings.catalog.checkpoint
    server = Server(invocation.catalog) if stack is None else Server.of_stack(stack.settings)
    return plan_server(server.chosen(choice), checkpoint), checkpoint


def checkpoint_place(text: str) -> Path | GsUrl | HubSource:
    """The directory, the place in Cloud Storage, or the model of the Hub that ``text`` names.

    Raises:
        WeightsError: it is a URL of something else.
    """
    if "://" not in text:
        return Path(text)
    from tpuflex.settings.weights_source import GsUrl, HubSource

    if (place := GsUrl.parse(text) or HubSource.parse(text)) is None:
        raise WeightsError(
            f"{text[:200]!r} names no checkpoint that can be read",
            hint="Write a directory, gs://BUCKET/PREFIX, or hf://OWNER/NAME.",
        )
    return place


def checkpoint_of(
    invocation: Invocation, source: Path | GsUrl | HubSource, stack: Stack | None = None
) -> Checkpoint:
    """What the checkpoint at ``source`` says of itself; a bucket is one of the cloud that ``stack``
    runs on, or of the one that the environment names, and so is the Hub.

    Raises:
        TpuflexError: as :func:`tpuflex.weights.checkpoint.read_checkpoint` has it.
    """
    from tpuflex.settings.weights_source import HubSource
    from tpuflex.weights.checkpoint import read_checkpoint, read_files

    def progress(done: int, total: int) -> None:
        if done % _REPORTED == 0 and done < total:
            invocation.output.progress(f"{done} of {total} files' headers were read")

    environ, today = invocation.environ, invocation.now().date()
    if stack is not None and stack.embedded and not isinstance(source, Path):
        environ = invocation.connect(stack, start=False).environ
    if isinstance(source, HubSource):
        client = hasty_hub_client(environ, invocation.environ.get(HUB_TOKEN_VARIABLE, ""))
        name = source.repository
        return client.reading(
            source,
            lambda files, commit: read_files(
                files,
                str(HubSource(name, commit)),
                name=name,
                today=today,
                progress=progress,
            ),
        )
    return read_checkpoint(source, environ=environ, today=today, progress=progress)


def plan_server(server: Server, checkpoint: Checkpoint | None = None) -> MemoryPlan | NotPlannable:
    """The memory plan of ``server``, or why there is none.

    Args:
        server: the server.
        checkpoint: what it serves, instead of the catalog's model.

    Raises:
        NotFoundError: the catalog has no such model or accelerator type.
    """
    model = checkpoint.model if checkpoint else known_model(server.catalog, server.model)
    chips = None
    if server.accelerator is not None:
        chips = known_accelerator(server.catalog, server.accelerator)
    request = server_request(
        model, chips, server.flags, server.environment, extra_args=server.extra_args
    )
    return plan_request(request, server.catalog)
