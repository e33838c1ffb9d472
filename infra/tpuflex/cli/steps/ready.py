"""What `tpuflex up` asks of `tpuflex doctor` before it makes anything."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tpuflex.cli.prepare_weights import check_source
from tpuflex.cli.steps.doctor_cloud import cloud_examinations
from tpuflex.errors import NotFoundError, ServiceDisabledError, TpuflexError
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.operate.doctor.check import first_failure
from tpuflex.operate.doctor.side_by_side import examine_all

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.engine.events import EnginePlan

SKIP_OPTION = "--skip-check"


def asks_for_chips(plan: EnginePlan) -> bool:
    """Whether ``plan`` requests a slice, a first one or another."""
    return any(
        step.type == QUEUED_RESOURCE and step.operation in ("create", "replace")
        for step in plan.steps
    )


def require_source(cloud: Cloud) -> None:
    """Refuse a source of weights that is not there, before a project is changed for them.

    Who has a bucket may have the weights in it: whether they are there is looked at later.

    Raises:
        SettingsError: the source is malformed, or holds no checkpoint, and there is no bucket.
        WeightsError: it holds a damaged one, and there is no bucket.
        NotFoundError, AccessError, ApiError: the Hub does not give it, and there is no bucket.
    """
    try:
        check_source(cloud.stack, cloud)
    except TpuflexError:
        if not _may_have_bucket(cloud):
            raise


def _may_have_bucket(cloud: Cloud) -> bool:
    try:
        cloud.apis().storage.call("GET", f"/storage/v1/b/{cloud.bucket}", budget=0)
    except (NotFoundError, ServiceDisabledError):
        return False
    except TpuflexError:
        return True  # not told; the next step asks again
    return True


def require_ready(cloud: Cloud, skipped: Collection[str] = ()) -> None:
    """Refuse what cannot succeed, as far as it can be told; what cannot be read is no obstacle.

    Args:
        cloud: the stack's cloud.
        skipped: names of examinations that the user goes on without.

    Raises:
        TpuflexError: the first failure, of its kind; the hint names the others.
    """
    asked = [
        each for each in cloud_examinations(cloud) if each.decisive and each.name not in skipped
    ]
    found = list(zip(asked, examine_all(asked), strict=True))
    failure = first_failure(check for _, checks in found for check in checks)
    if failure is None:
        return
    failed = [each.name for each, checks in found if first_failure(checks) is not None]
    error = failure.error()
    options = " ".join(f"{SKIP_OPTION} {name}" for name in failed)
    others = "`tpuflex doctor` shows all that was looked at"
    error.hint = (
        f"{error.hint}\nNothing was made. {others}; `tpuflex up {options}` goes on in spite of it."
    )
    raise error
