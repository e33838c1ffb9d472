"""What `up` would do, or refuse, before it requests chips, in the comment on a change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpuflex.cli.markdown import alert, code, code_block

if TYPE_CHECKING:
    from tpuflex.cli.foreseen import Foreseen

#: Lines of a list, and letters of one.
_ROWS, _LONGEST = 8, 300
#: Letters of a refusal with what to do about it.
_LONGEST_REFUSAL = 1_000


def refusals_markdown(foreseen: Foreseen) -> Iterator[str]:
    """What `up` would refuse, each with what to do; bounded in size."""
    if foreseen.refuses:
        yield alert("WARNING", "**`up` would refuse, before it requests chips:**")
    for error in foreseen.refuses[:_ROWS]:
        yield code_block(str(error), longest=_LONGEST_REFUSAL)


def foreseen_markdown(foreseen: Foreseen) -> Iterator[str]:
    """What it would do, and what could not be looked at; bounded in size."""
    for title, texts in (
        ("Before it requests chips, `up`:", foreseen.does),
        ("Not checked:", foreseen.unchecked),
    ):
        if texts:
            rest = [f"- … and {len(texts) - _ROWS} more"] if len(texts) > _ROWS else []
            rows = [f"- {code(text, longest=_LONGEST)}" for text in texts[:_ROWS]]
            yield "\n".join([title, "", *rows, *rest])
