"""How a field says that a well-typed value cannot be used."""

from __future__ import annotations

from pydantic_core import PydanticCustomError

#: pydantic's name of the error; its context carries ``problem`` and ``remedy``.
REFUSED = "refused"


def refusal(problem: str, remedy: str) -> PydanticCustomError:
    """The error to raise in a validator: what is wrong, and what to write instead."""
    return PydanticCustomError(
        REFUSED, "{problem}. {remedy}", {"problem": problem, "remedy": remedy}
    )
