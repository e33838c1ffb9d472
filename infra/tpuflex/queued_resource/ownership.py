"""Whose a request and its nodes are: by their labels, and by what the state has a record of. Pure.

Names are a function of project and stack, so a request that is found is looked up under our own
name, in our own project. Owner marker and Pulumi project say no more than that, because every
clone of the project has the same; the state id says which state made it (docs/adr/0015).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pulumi_plugin.values import Properties
from tpuflex.advice import Advice
from tpuflex.errors import TpuflexError
from tpuflex.naming import LABEL_OWNER, LABEL_PROJECT, LABEL_STACK, LABEL_STATE, QUEUED_RESOURCE
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.outcomes import OTHER_STATE, TABLE, Condition


@dataclass(frozen=True, slots=True)
class Records:
    """The requests that a state has a record of.

    Attributes:
        created: by name, the `createTime` that the state remembers: unlike labels, it cannot be
            changed. Empty where it remembers none.
    """

    created: Mapping[RequestName, str] = field(default_factory=dict)

    @classmethod
    def of(cls, id_: str, recorded: Properties) -> Records:
        """What the state records.

        Args:
            id_: full name of the queued resource.
            recorded: its outputs in the state; nothing is known of what has no `createTime` in it.
        """
        created = recorded.get("createTime")
        if not isinstance(created, str) or not created:
            return cls()
        requests = recorded.get("requests")
        known: dict[RequestName, str] = {}
        for text in requests if isinstance(requests, list) else []:
            try:
                known[RequestName.parse(str(text))] = ""  # in another zone
            except TpuflexError:
                continue
        return cls({**known, RequestName.parse(id_): created})

    def know(self, name: RequestName, created: str) -> bool:
        """Whether the request ``name``, made at ``created``, is the very one that is recorded."""
        return bool(created) and self.created.get(name) == created


#: The labels that say whose a request is.
OWNER_LABELS = (LABEL_OWNER, LABEL_PROJECT, LABEL_STACK, LABEL_STATE)
#: Of what no state knows.
NO_RECORDS = Records()


def agree(asked: Mapping[str, str], found: Mapping[str, str], *, known: bool = False) -> bool:
    """Whether what carries the labels ``found`` is that of a program with the labels ``asked``.

    Args:
        asked: the labels of the program, or of the state.
        found: the labels in the cloud.
        known: whether the state has a record of this very request. Then it may have none of
            them: it was made without tpuflex, and imported.
    """
    if known and not any(key in found for key in OWNER_LABELS):
        return True
    return all(asked.get(key) == found.get(key) for key in OWNER_LABELS)


def described(labels: Mapping[str, str]) -> str:
    """Who owns what carries ``labels``, in words for people."""
    if LABEL_OWNER not in labels:
        return "someone who does not use tpuflex (it has no owner label)"
    state = f"state ID {labels[LABEL_STATE]}" if LABEL_STATE in labels else "no state ID"
    return (
        f"stack {labels.get(LABEL_STACK, '?')} of project {labels.get(LABEL_PROJECT, '?')}"
        f" (owner {labels[LABEL_OWNER]}, {state})"
    )


def remedy(asked: Mapping[str, str], name: RequestName, found: Mapping[str, str]) -> Advice | str:
    """What a user can do who finds the labels ``found`` under ``name``, one of their names."""
    if asked.get(LABEL_OWNER) != found.get(LABEL_OWNER):
        return TABLE[Condition.FOREIGN].up.text
    return Advice(
        "{other} A slice of your own program comes back into its state with"
        " `pulumi import {type} NAME {name}`.",
        other=OTHER_STATE,
        type=QUEUED_RESOURCE,
        name=name,
    )
