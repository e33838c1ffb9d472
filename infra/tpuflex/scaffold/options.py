"""What is asked for of a new stack: options, and questions for what they leave open."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tpuflex.errors import Finding, UsageError


@dataclass(frozen=True, slots=True)
class Offer:
    """An answer that a person may choose.

    Attributes:
        answer: the answer.
        about: what is known of it.
    """

    answer: str
    about: str


#: What is wrong with an answer.
Check = Callable[[str], tuple[Finding, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked.

    Attributes:
        text: the question.
        proposed: the answer that Enter gives, if there is one.
        choices: the only answers there are; empty where others are taken.
        offers: makes a list of answers; None where there is no list.
        check: what is wrong with an answer; then the question is asked again.
    """

    text: str
    proposed: str | None
    choices: tuple[str, ...]
    offers: Callable[[], Iterable[Offer]] | None
    check: Check


#: Asks a person.
Prompt = Callable[[Question], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """What a new stack is made of; what is None or empty is left open."""

    cloud: str | None = None
    template: str | None = None
    source: Path | None = None
    project: str | None = None
    model: str | None = None
    accelerator: str | None = None
    zones: tuple[str, ...] = ()
    run: str | None = None
    weights: str | None = None
    changes: tuple[str, ...] = ()


class Questions:
    """Asks a person; where nobody can be asked, takes defaults, or collects what is missing.

    Args:
        prompt: asks; None where nobody can be asked.
        defaults: whether to take defaults without asking (``--yes``).
    """

    def __init__(self, prompt: Prompt | None, *, defaults: bool) -> None:
        self._prompt = prompt
        self._defaults = defaults
        self._missing: list[str] = []

    def ask(
        self,
        option: str,
        given: str | None,
        question: str,
        *,
        default: Callable[[], str | None] = lambda: None,
        choices: tuple[str, ...] = (),
        offers: Callable[[], Iterable[Offer]] | None = None,
        check: Check = lambda _: (),
    ) -> str:
        """What was given for ``option``, else the answer to ``question``, else the default.

        Empty where there is none of them; :meth:`require` then says so.
        """
        if given is not None:
            return given
        proposed = default()
        if self._defaults and proposed is not None:
            return proposed
        if self._prompt is not None and self.asking:
            return self._prompt(
                Question(
                    text=question, proposed=proposed, choices=choices, offers=offers, check=check
                )
            )
        self._missing.append(option if proposed is None else f"{option} (--yes: {proposed})")
        return ""

    @property
    def asking(self) -> bool:
        """Whether a person is asked."""
        return self._prompt is not None and not self._defaults

    def require(self) -> None:
        """Check that every question has an answer.

        Raises:
            UsageError: some have none; names the options.
        """
        if self._missing:
            where = "" if self._defaults else "There is no terminal to ask on. "
            raise UsageError(f"{where}Give {', '.join(self._missing)}.")
