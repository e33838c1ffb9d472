"""What `tpuflex status` says of a slice by what the stack file and the state say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import AccessError
from tpuflex.request.outcomes import ACCEPTED, BOOTING, Condition

if TYPE_CHECKING:
    from tpuflex.cli.stack import OpenStack
    from tpuflex.operate.slice import SliceStatus

#: Said of a slice that was requested before the stack file was changed.
_OTHER_ZONE = (
    "{} is none of tpuflex:slice.zones any more: `tpuflex up` replaces the slice,\n"
    "`tpuflex down` deletes it there"
)
#: Said of one whose run is over: there is nothing to replace, and `rerun` need not be changed.
_OTHER_ZONE_ENDED = (
    "{} is none of tpuflex:slice.zones any more, and the run is over:\n"
    "`tpuflex up` starts a new run in {}"
)
_ENDED_ELSEWHERE = "for a new run: `tpuflex up`; `tpuflex down` cleans up"
#: Said where the stack file asks for the next run, whatever else it says.
_ENDED_RENEWS = (
    "`tpuflex up` starts the next run (tpuflex:slice.renew_before); `tpuflex down` cleans up"
)
#: Said where the cloud refuses to tell.
_LAST_KNOWN = "The stack's state last knew of {}: it may still run, and be billed."
#: Said of a host that has not served yet, where the stack file says ``on_boot_failure: delete``.
_DELETED_BY_ITS_UP = (
    "; only the `up` during which it was granted deletes it if its boot\n"
    "fails (tpuflex:slice.on_boot_failure): a later one does not, `tpuflex down` does"
)


def with_last_known(error: AccessError, requests: tuple[str, ...]) -> AccessError:
    """``error`` with what the state has: what is billed must not be hidden by a refusal."""
    if not requests:
        return error
    message = f"{error.message}\n{_LAST_KNOWN.format(', '.join(requests))}"
    return type(error)(message, hint=error.hint, code=error.code)


def zone_text(status: SliceStatus, zones: tuple[str, ...]) -> str:
    """What `up` does about a slice outside of ``zones``; empty for one inside."""
    if status.zone in zones:
        return ""
    if status.condition is Condition.ENDED:
        return _OTHER_ZONE_ENDED.format(status.zone, " or ".join(zones))
    return _OTHER_ZONE.format(status.zone)


def advice_text(status: SliceStatus, stack: OpenStack) -> str:
    """What to do about the slice, with what the stack file says about it."""
    slice_ = stack.settings.slice
    if status.condition is Condition.ENDED and slice_.renew_before is not None:
        return _ENDED_RENEWS
    if status.condition is Condition.ENDED and status.zone not in slice_.zones:
        return _ENDED_ELSEWHERE
    if status.condition is Condition.ENDED and slice_.on_run_end == "accept":
        return ACCEPTED.text
    if status.outcome is BOOTING and slice_.on_boot_failure == "delete":
        return status.advice + _DELETED_BY_ITS_UP
    return status.advice
