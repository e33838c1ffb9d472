"""The memory plan of a stack file, on Google or on the embedded cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.planning.cpu import plan_cpu_memory
from tpuflex.planning.flags import cpu_request_from_flags, request_from_flags
from tpuflex.planning.memory import MemoryPlan, plan_memory
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest, NotPlannable

if TYPE_CHECKING:  # its classes take longer to make than a plan
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
    env, further = settings.serving.env, settings.serving.extra_args
    if settings.cloud == "embedded":
        return cpu_request_from_flags(model, flags, env, extra_args=further)
    return request_from_flags(model, accelerator, flags, env, extra_args=further)


def plan_stack(settings: StackSettings) -> MemoryPlan | NotPlannable:
    """The memory plan of ``settings``, or why there is none."""
    request = memory_request(settings)
    match request:
        case NotPlannable():
            return request
        case CpuMemoryRequest():
            return plan_cpu_memory(request)
        case MemoryRequest():
            return plan_memory(request, settings.catalog.accelerators.values())
