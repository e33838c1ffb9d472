"""What serves until its successor does, although the state has it only as to be deleted.

The engine deletes it at the end of the next run that succeeds, and asks nothing: it is this
provider that looks whether the successor serves by then (docs/adr/0036).
"""

from __future__ import annotations

from collections.abc import Iterable

from tpuflex.codes import Code
from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError
from tpuflex.host.metadata_keys import DRAIN_KEY
from tpuflex.provider.call import Call
from tpuflex.provider.serving_hosts import answers, boots, may_answer, reported, that_answer
from tpuflex.request.name import RequestName


def still_there(call: Call, names: Iterable[RequestName]) -> tuple[RequestName, ...]:
    """Those of ``names`` that serve, or may come to; what cannot be asked is taken to."""
    return that_answer(call, names, counts=may_answer, known=True)


def refuse_gap(call: Call, name: RequestName, heir: RequestName) -> None:
    """Check that ``name`` may be deleted, because the state goes on with ``heir``: one that ran
    when it was made may have failed since, or boot still. A drain of ``name`` is then called off.

    Raises:
        ConflictError: ``name`` answers, and ``heir``, whose hosts report, does not.
        ApiError: the API does not say.
    """
    if not that_answer(call, [name]):
        return
    seen = call.look_twice(heir)
    try:
        if not seen.gone and (not boots(seen) or answers(reported(call, seen))):
            return
    except AccessError:
        return  # a permission that is missing hides every successor's word
    call_off(call, [name])
    raise ConflictError(
        f"{name} serves, and {heir}, with which the state goes on, does not ({seen.describe()}):"
        " it is not deleted, and both are billed",
        hint=f"Run `up` again once {heir.id} serves (`tpuflex status`, `tpuflex logs`). If it never"
        " will, change `rerun` (tpuflex:slice.rerun in a stack file) and run `up`: another one is"
        " made. To delete both: `tpuflex down`, `pulumi destroy`.",
        code=Code.NOT_SERVING,
    )


def call_off(call: Call, names: Iterable[RequestName]) -> None:
    """Have the hosts of ``names`` serve again that a deletion, which was stopped, has asked to
    drain. That they cannot be told is said, and no reason to fail."""
    for name in names:
        try:
            # A patch of metadata is one of all of it.
            for node in call.look(name).nodes.found:
                if DRAIN_KEY in node.metadata:
                    kept = {k: v for k, v in node.metadata.items() if k != DRAIN_KEY}
                    node_name = name.node(node.id)
                    call.client.patch_node(node_name, {"metadata": {**kept}}, mask=["metadata"])
                    call.report(f"{name} had been asked to drain: it is told to serve on")
        except (AccessError, ApiError, NotFoundError) as error:
            call.report(f"{name} cannot be told to serve on ({error.message})", warning=True)
