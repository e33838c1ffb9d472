"""What `up` would do, or refuse, before it requests chips, beside what the engine plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.cli.markdown import alert, code, code_block

if TYPE_CHECKING:
    from tpuflex.errors import TpuflexError

#: Lines of a list in a comment, and letters of one.
_ROWS, _LONGEST = 8, 300
#: Letters of a refusal with what to do about it.
_LONGEST_REFUSAL = 1_000


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

    def refusals_markdown(self) -> Iterator[str]:
        """What `up` would refuse, in the comment on a change, each with what to do; bounded in
        size."""
        if self.refuses:
            yield alert("WARNING", "**`up` would refuse, before it requests chips:**")
        for error in self.refuses[:_ROWS]:
            yield code_block(str(error), longest=_LONGEST_REFUSAL)

    def markdown(self) -> Iterator[str]:
        """What it would do, and what could not be looked at, in the comment on a change; bounded in
        size."""
        for title, texts in (
            ("Before it requests chips, `up`:", self.does),
            ("Not checked:", self.unchecked),
        ):
            if texts:
                rest = [f"- … and {len(texts) - _ROWS} more"] if len(texts) > _ROWS else []
                rows = [f"- {code(text, longest=_LONGEST)}" for text in texts[:_ROWS]]
                yield "\n".join([title, "", *rows, *rest])

    def to_json(self) -> dict[str, object]:
        """It in the document of ``tpuflex preview --json``."""
        return {
            "does": list(self.does),
            "refuses": [error.to_json() for error in self.refuses],
            "unchecked": list(self.unchecked),
        }


#: Where there is nothing to foresee.
NOTHING = Foreseen()
