"""What `up` would do, or refuse, before it requests chips, looked for by somebody who only reads.

Nothing is changed, and no value of a secret is read. What the caller may not read is told, and is
no failure: `up` may be run by somebody else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.errors import AccessError, AlreadyExistsError, ApiError, ConflictError, TpuflexError
from tpuflex.inventory.unlisted import reasons
from tpuflex.terminal.markdown import alert, code, code_block

if TYPE_CHECKING:
    from tpuflex.deploy.preparation import EndpointPreparation
    from tpuflex.engine.events import EnginePlan

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


def foresee(
    preparation: EndpointPreparation, plan: EnginePlan, *, key_unread: AccessError | None = None
) -> Foreseen:
    """What `up` would do, or refuse, before it requests chips.

    Args:
        preparation: the stack's; it knows the weights that the slice was made for.
        plan: what would change; `up` looks at nothing else where nothing does.
        key_unread: why the plan was made without a look at the user's key, if it was.
    """
    from tpuflex.deploy.hand_over import short_for_both  # reads the report that shows this

    cloud = preparation.cloud
    looks = _Looks(cloud.stack.name)
    if key_unread is not None:
        looks.unchecked.append(f"the key: {key_unread.message}")
    if plan.changes:
        looks.at("the quota for two slices", lambda: filter(None, [short_for_both(cloud, plan)]))
        for each in preparation.looks(reading=True):
            if not looks.at(each.what, each.look) and each.first:
                break
    return looks.foreseen()


class _Looks:
    """What was seen so far."""

    def __init__(self, stack: str) -> None:
        self._stack = stack
        self.does: list[str] = []
        self.refuses: list[TpuflexError] = []
        self.unchecked: list[str] = []

    def foreseen(self) -> Foreseen:
        """All of it, with advice that names the stack: it is shown where no error is reported."""
        for error in self.refuses:
            named = error.hint.for_stack(self._stack, os.environ)
            error.hint = Advice.of(named)
        return Foreseen(tuple(self.does), tuple(self.refuses), tuple(reasons(self.unchecked)))

    def at(self, what: str, look: Callable[[], Iterable[str] | None]) -> bool:
        """Whether ``look``, which is about ``what`` and tells what `up` does, raises nothing."""
        try:
            self.does += map(_plain, look() or ())
        except (AlreadyExistsError, ConflictError) as error:
            self.refuses.append(error)
        except (AccessError, ApiError) as error:
            self.unchecked.append(f"{what}: {error.message}")
        except TpuflexError as error:
            self.refuses.append(error)
        else:
            return True
        return False


def _plain(line: str) -> str:
    """A line of progress as a sentence."""
    return line.strip().removeprefix("warning  ")
