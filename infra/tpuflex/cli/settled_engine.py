"""The engine, on APIs that were enabled a moment ago.

Each API has answered before the engine starts (:mod:`tpuflex.gcp.enabling`), and may refuse once
more, from another of Google's machines. Our own clients then ask again; the gcp plugin does not, so
that the engine fails, and is run again: it goes on where it stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tpuflex.errors import ServiceDisabledError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuflex.gcp.settling import Settling
    from tpuflex.gcp.timing import Timing

T = TypeVar("T")
#: Seconds before the engine is run again.
PAUSE = 15.0


def outlasting(
    run: Callable[[], T], settling: Settling, timing: Timing, say: Callable[[str], None]
) -> T:
    """What ``run`` returns. While APIs settle, it is run again if one of them refuses.

    Args:
        run: runs the engine.
        settling: until when a refusal is worth another run.
        timing: clock and pauses.
        say: takes a line of progress.

    Raises:
        TpuflexError: what ``run`` raises; an API that refuses, once all have settled.
    """
    while True:
        try:
            return run()
        except ServiceDisabledError:
            if timing.monotonic() + PAUSE > settling.until:
                raise
            say(
                "An API that was enabled a moment ago refused once more:"
                f" going on in {PAUSE:.0f} s …"
            )
            if timing.pause(PAUSE):
                raise
