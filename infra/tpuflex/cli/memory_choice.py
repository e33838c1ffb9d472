"""What `tpuflex memory` plans: the stack, the stack with something else in it, or no stack."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.errors import NotFoundError
from tpuflex.planning.cpu import plan_cpu_memory
from tpuflex.planning.flags import cpu_request_from_flags, request_from_flags
from tpuflex.planning.memory import MemoryPlan, plan_memory
from tpuflex.planning.request import NotPlannable

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model
    from tpuflex.cli.invocation import Invocation
    from tpuflex.settings.model import StackSettings

_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class MemoryChoice:
    """What the command line says instead of the stack file.

    Attributes:
        model: name of a model of the catalog.
        accelerator: accelerator type.
        flags: flags of vLLM that decide memory, by their names in the stack file.
    """

    model: str | None
    accelerator: str | None
    flags: Mapping[str, object]

    @property
    def needs_stack(self) -> bool:
        """Whether the stack file says the rest."""
        return self.model is None or self.accelerator is None


@dataclass(frozen=True, slots=True)
class Server:
    """A server whose memory is planned.

    Attributes:
        catalog: what is known of models and chips.
        model: name of the model.
        accelerator: accelerator type; None for the CPU of the embedded cloud.
        flags: flags of vLLM, by their names in the stack file.
        environment: environment of the server.
    """

    catalog: Catalog
    model: str
    accelerator: str | None
    flags: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_stack(cls, settings: StackSettings) -> Server:
        """The server of a stack."""
        return cls(
            catalog=settings.catalog,
            model=settings.model.name,
            accelerator=None if settings.cloud == "embedded" else settings.slice.accelerator_type,
            flags=settings.serving.flags.model_dump(exclude_none=True),
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


def planned(invocation: Invocation, choice: MemoryChoice) -> MemoryPlan | NotPlannable:
    """The memory plan of what was chosen, or why there is none.

    Raises:
        NotFoundError: there is no such stack, model or accelerator type.
        SettingsError: the stack file is wrong.
    """
    if choice.model is not None and choice.accelerator is not None:
        return plan_server(Server(builtin(), choice.model, choice.accelerator, choice.flags))
    settings = invocation.open_stack(deploying=False).settings
    return plan_server(Server.of_stack(settings).chosen(choice))


def plan_server(server: Server) -> MemoryPlan | NotPlannable:
    """The memory plan of ``server``, or why there is none.

    Raises:
        NotFoundError: the catalog has no such model or accelerator type.
    """
    model = known_model(server.catalog, server.model)
    if server.accelerator is None:
        on_cpu = cpu_request_from_flags(model, server.flags, server.environment)
        return on_cpu if isinstance(on_cpu, NotPlannable) else plan_cpu_memory(on_cpu)
    chips = known_accelerator(server.catalog, server.accelerator)
    request = request_from_flags(model, chips, server.flags, server.environment)
    if isinstance(request, NotPlannable):
        return request
    return plan_memory(request, server.catalog.accelerators.values())


def known_model(catalog: Catalog, name: str) -> Model:
    """The row of the model called ``name``.

    Raises:
        NotFoundError: there is none; names the nearest.
    """
    row = catalog.model(name)
    if row is None:
        near = difflib.get_close_matches(name, catalog.models, n=_SHOWN_NAMES, cutoff=0.5)
        hint = f"Nearest: {', '.join(near)}. " if near else ""
        raise NotFoundError(
            f"{name} is not in the catalog.",
            hint=f"{hint}`tpuflex memory --model-dir DIR` reads a model from its checkpoint.",
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
