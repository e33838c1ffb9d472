"""The full name of a queued resource. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tpuflex.errors import TpuflexError

_NAME = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<zone>[^/]+)/queuedResources/(?P<id>[^/]+)"
)


@dataclass(frozen=True, slots=True)
class RequestName:
    """The full name of a queued resource, taken apart.

    Attributes:
        project: Google Cloud project id.
        zone: zone, such as us-east5-a.
        id: id within the zone.
        nodes: ids of its nodes as far as they are known beforehand; empty for one node that has
            the same id. Two names are equal whatever is known of the nodes.
    """

    project: str
    zone: str
    id: str
    nodes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def parse(cls, text: str) -> RequestName:
        """Read ``projects/P/locations/Z/queuedResources/ID``.

        Raises:
            TpuflexError: ``text`` is not such a name.
        """
        match = _NAME.fullmatch(text)
        if match is None:
            raise TpuflexError(
                f"{text!r} is not the name of a queued resource",
                hint="Write projects/PROJECT/locations/ZONE/queuedResources/ID.",
            )
        return cls(match["project"], match["zone"], match["id"])

    @property
    def parent(self) -> str:
        """``projects/P/locations/Z``."""
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def node_ids(self) -> tuple[str, ...]:
        """Ids of its nodes, of which there may be none yet."""
        return self.nodes or (self.id,)

    def node(self, id_: str) -> str:
        """Full name of the node ``id_``."""
        return f"{self.parent}/nodes/{id_}"

    def __str__(self) -> str:
        return f"{self.parent}/queuedResources/{self.id}"
