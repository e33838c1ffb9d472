"""What `up` would do, or refuse, before it requests chips, beside what the engine plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuflex.errors import TpuflexError


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a preview has seen of it.

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

    def facts(self) -> Iterator[tuple[str, str]]:
        """It for people, a block each: what it is, and the text."""
        for text in self.does:
            yield "does", text
        for error in self.refuses:
            yield "refuses", str(error)
        for text in self.unchecked:
            yield "not checked", text

    def to_json(self) -> dict[str, object]:
        """It in the document of ``tpuflex preview --json``."""
        return {
            "does": list(self.does),
            "refuses": [error.to_json() for error in self.refuses],
            "unchecked": list(self.unchecked),
        }


#: Where there is nothing to foresee.
NOTHING = Foreseen()
