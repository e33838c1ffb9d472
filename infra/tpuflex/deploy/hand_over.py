"""What a replacement takes that serves before the old slice is deleted: quota for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.deploy.preview_report import slice_step
from tpuflex.doctor.capacity import short_beside
from tpuflex.errors import NotFoundError
from tpuflex.operate.slice import slice_status
from tpuflex.queued_resource.states import Lifecycle

if TYPE_CHECKING:
    from tpuflex.engine.events import EnginePlan
    from tpuflex.stack.connection import Connection


def short_for_both(cloud: Connection, plan: EnginePlan) -> str:
    """A sentence on what the quota lacks for the slice that ``plan`` asks for while the old one
    goes on; empty if there is enough, or if it asks for none beside another.

    Raises:
        AccessError, ApiError: it cannot be told.
    """
    step = slice_step(plan)
    if step is None or step.operation != "replace" or step.deleted_first:
        return ""
    try:
        status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    except NotFoundError:
        return ""
    if status.lifecycle is not Lifecycle.ACTIVE:
        return ""
    short = short_beside(cloud, str(step.before.get("acceleratorType")), status.zone)
    if not short:
        return ""
    return (
        "asks for a second slice, which serves before the first is deleted, and the quota is not"
        f" enough for both ({short}). Ask for more, or write delete_first to tpuflex:slice.replace:"
        " then the first is deleted first, and nothing serves meanwhile"
    )
