"""What `up` would do, or refuse, before it requests chips, looked up with read access only.

Nothing is changed, and no value of a secret is read. What the caller may not read is reported,
and is no failure: another user may run `up`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.plan import slice_step
from tpuflex.doctor.quota import quota_shortage_beside
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    TpuflexError,
)
from tpuflex.inventory.listing import Unlisted
from tpuflex.inventory.unlisted import reasons
from tpuflex.operate.slice import slice_status
from tpuflex.queued_resource.states import Lifecycle

if TYPE_CHECKING:
    from tpuflex.deploy.preparation import EndpointPreparation
    from tpuflex.engine.events import EnginePlan
    from tpuflex.stack.connection import Connection


@dataclass(frozen=True, slots=True)
class BeforeChips:
    """What a preview has found.

    Attributes:
        does: what `up` would do, a sentence each.
        refuses: what it would refuse.
        unchecked: what could not be looked at, each with the reason.
    """

    does: tuple[str, ...] = ()
    refuses: tuple[TpuflexError, ...] = ()
    unchecked: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.does or self.refuses or self.unchecked)

    def to_json(self) -> dict[str, object]:
        """It in the document of ``tpuflex preview --json``."""
        return {
            "does": list(self.does),
            "refuses": [error.to_json() for error in self.refuses],
            "unchecked": list(self.unchecked),
        }


#: Where nothing was looked for.
NOTHING_BEFORE = BeforeChips()


def look_before_chips(
    preparation: EndpointPreparation, plan: EnginePlan, *, key_unread: AccessError | None = None
) -> BeforeChips:
    """What `up` would do, or refuse, before it requests chips.

    Args:
        preparation: the stack's; it knows the weights that the slice was made for.
        plan: what would change; `up` looks at nothing else where nothing does.
        key_unread: why the plan was made without a look at the user's key, if it was.
    """
    cloud = preparation.cloud
    looks = _Looks(cloud)
    if key_unread is not None:
        looks.unchecked.append(Unlisted.of("the key", key_unread))
    if plan.changes:
        looks.at(
            "the quota for two slices", lambda: filter(None, [hand_over_shortage(cloud, plan)])
        )
        for each in preparation.looks(reading=True):
            if not looks.at(each.what, each.look) and each.first:
                break
    return looks.found()


def hand_over_shortage(cloud: Connection, plan: EnginePlan) -> str:
    """A sentence on what the quota lacks for the slice that ``plan`` asks for while the old one
    goes on; empty if there is enough, or if it asks for none beside another.

    Raises:
        AccessError, ApiError: it cannot be determined.
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
    short = quota_shortage_beside(cloud, str(step.before.get("acceleratorType")), status.zone)
    if not short:
        return ""
    return (
        "asks for a second slice, which serves before the first is deleted, and the quota is not"
        f" enough for both ({short}). Ask for more, or write delete_first to tpuflex:slice.replace:"
        " then the first is deleted first, and nothing serves meanwhile"
    )


class _Looks:
    """What was found so far."""

    def __init__(self, cloud: Connection) -> None:
        self._cloud = cloud
        self.does: list[str] = []
        self.refuses: list[TpuflexError] = []
        self.unchecked: list[Unlisted] = []

    def found(self) -> BeforeChips:
        """All of it, with advice that names the stack: it is shown where no error is reported."""
        for error in self.refuses:
            named = error.hint.for_stack(self._cloud.stack.name, self._cloud.environ)
            error.hint = Advice.of(named)
        return BeforeChips(tuple(self.does), tuple(self.refuses), tuple(reasons(self.unchecked)))

    def at(self, what: str, look: Callable[[], Iterable[str] | None]) -> bool:
        """Whether ``look``, which is about ``what`` and tells what `up` does, raises nothing."""
        try:
            self.does += map(_plain, look() or ())
        except (AlreadyExistsError, ConflictError) as error:
            self.refuses.append(error)
        except (AccessError, ApiError) as error:
            self.unchecked.append(Unlisted.of(what, error))
        except TpuflexError as error:
            self.refuses.append(error)
        else:
            return True
        return False


def _plain(line: str) -> str:
    """A line of progress as a sentence."""
    return line.strip().removeprefix("warning  ")
