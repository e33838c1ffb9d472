"""What a preview says of a creation whose name is taken already.

The update looks by itself and adopts what is its own. Where that is the slice of another resource
or stack (after `pulumi state rename` or `state move`, say) both would have it from then on, and
whichever goes first deletes it for both: so the preview has to say so.
"""

from __future__ import annotations

from collections.abc import Callable

from pulumi_plugin.values import Properties, has_unknown
from tpuflex.errors import InterruptedByUser, TpuflexError
from tpuflex.provider.call import Call
from tpuflex.provider.generations import requests_of
from tpuflex.provider.read import labels_of
from tpuflex.request.ownership import remedy
from tpuflex.request.snapshot import Snapshot
from tpuflex.request.states import is_settled

ADOPTS = (
    "`up` takes it and asks for no other, if it has the marks and the settings of this one. If"
    " another resource or stack holds it, both would have one slice, and the first to go deletes"
    " it for both: give this one another name"
)
CLEARS = "`up` deletes it, as what an earlier run has left, and asks for another"
REFUSES = "`up` is refused"


def warn_of_taken_names(connect: Callable[[], Call], inputs: Properties) -> None:
    """Warn of each request that is there under a name of ``inputs``, which are to be created.

    It is one look: where that is refused, or nothing answers, the preview goes on without.

    Args:
        connect: makes the engine call.
        inputs: checked inputs; with unknown zones nothing is looked at.

    Raises:
        InterruptedByUser: the engine cancelled.
    """
    try:
        call = connect()
        looks = [call.look(name, budget=0) for name in sorted(requests_of(inputs), key=str)]
    except InterruptedByUser:
        raise
    except TpuflexError:
        return
    for seen in looks:
        if not seen.gone:
            made = f", made at {seen.created}" if seen.created else ""
            told = f"{seen.name} is there already{made}, {seen.describe()}"
            call.report(f"{told}: {_outcome(seen, inputs)}", warning=True)


def _outcome(seen: Snapshot, inputs: Properties) -> str:
    # A first preview does not know the state's id, which is one of the marks.
    known, labels = not has_unknown(inputs.get("labels")), labels_of(inputs)
    if known and not seen.belongs_to(labels):
        return f"{REFUSES}: it belongs to {seen.owner}. {remedy(labels, seen.marks)}"
    if seen.queued_resource is None or is_settled(seen.state):
        return CLEARS
    return ADOPTS
