"""What serves until its successor does, although the state has it only as to be deleted
(docs/adr/0036)."""

from __future__ import annotations

from collections.abc import Iterable

from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.host.metadata_keys import DRAIN_KEY
from tpuflex.provider.call import Call
from tpuflex.provider.serving_hosts import may_answer, that_answer
from tpuflex.request.name import RequestName


def still_there(call: Call, names: Iterable[RequestName]) -> tuple[RequestName, ...]:
    """Those of ``names`` that serve, or may come to; what cannot be asked is taken to."""
    return that_answer(call, names, counts=may_answer, known=True)


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
