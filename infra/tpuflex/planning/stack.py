"""The memory plan of a server or a stack, on Google or on the embedded cloud."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tpuflex.planning.cpu import plan_cpu_memory
from tpuflex.planning.flags import cpu_request_from_flags, request_from_flags
from tpuflex.planning.memory import MemoryPlan, plan_memory
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest, NotPlannable

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.catalog.rows import Accelerator, Model

    # Its classes take longer to make than a plan.
    from tpuflex.settings.model import StackSettings


def memory_request(settings: StackSettings) -> MemoryRequest | CpuMemoryRequest | NotPlannable:
    """What ``settings`` ask of memory, or why it cannot be planned."""
    model = settings.catalog.model(settings.model.name)
    if model is None:
        return NotPlannable(
            f"{settings.model.name} is not in the catalog: add its row, or plan it with "
            "`tpuflex memory --model-dir`"
        )
    accelerator = settings.catalog.accelerator(settings.slice.accelerator_type)
    if accelerator is None:
        return NotPlannable(f"{settings.slice.accelerator_type} is not in the catalog")
    flags = {
        "tensor_parallel_size": accelerator.chips,
        **settings.serving.flags.model_dump(exclude_none=True),
    }
    return server_request(
        model,
        None if settings.cloud == "embedded" else accelerator,
        flags,
        settings.serving.env,
        extra_args=settings.serving.extra_args,
    )


def server_request(
    model: Model,
    accelerator: Accelerator | None,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    *,
    extra_args: Sequence[str] = (),
    weight_bytes: int | None = None,
) -> MemoryRequest | CpuMemoryRequest | NotPlannable:
    """What a server asks of memory, on ``accelerator`` or, without one, on the CPU of the embedded
    cloud; the other arguments are those of :func:`tpuflex.planning.flags.request_from_flags`."""
    if accelerator is None:
        return cpu_request_from_flags(model, flags, environment, extra_args=extra_args)
    return request_from_flags(
        model, accelerator, flags, environment, extra_args=extra_args, weight_bytes=weight_bytes
    )


def plan_stack(settings: StackSettings) -> MemoryPlan | NotPlannable:
    """The memory plan of ``settings``, or why there is none."""
    return plan_request(memory_request(settings), settings.catalog)


def plan_request(
    request: MemoryRequest | CpuMemoryRequest | NotPlannable, catalog: Catalog
) -> MemoryPlan | NotPlannable:
    """The memory plan of ``request``, with accelerator types of ``catalog`` where it does not fit;
    or why there is none."""
    match request:
        case NotPlannable():
            return request
        case CpuMemoryRequest():
            return plan_cpu_memory(request)
        case MemoryRequest():
            return plan_memory(request, catalog.accelerators.values())
