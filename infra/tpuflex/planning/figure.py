"""Figures that say where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from tpuflex.catalog.rows import Source

KIB, MIB, GIB = 2**10, 2**20, 2**30


def ceiling(number: int, divisor: int) -> int:
    """``number / divisor``, rounded up."""
    return -(-number // divisor)


def multiple(number: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not below ``number``."""
    return ceiling(number, step) * step


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below ``number``; 1 for what is below 1."""
    return 1 << max(number - 1, 0).bit_length()


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of an answer.

    Attributes:
        value: the number; None when it is not known.
        unit: its unit, such as ``USD per hour``.
        basis: how it came about, in words: what was multiplied, read, or assumed.
        sources: where its inputs come from; empty only for what was asked for.
    """

    value: Decimal | int | float | None
    unit: str
    basis: str
    sources: tuple[Source, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The figure in a JSON document, with its sources in full."""
        number = float(self.value) if isinstance(self.value, Decimal) else self.value
        return {
            "value": number,
            "unit": self.unit,
            "basis": self.basis,
            "sources": sources_json(self.sources),
        }


def source_json(source: Source) -> dict[str, object]:
    """A source in a JSON document; ``own`` is true of a row that a user added."""
    return {"where": source.where, "date": source.date.isoformat(), "own": source.own}


def sources_json(sources: Iterable[Source]) -> list[dict[str, object]]:
    """Sources in a JSON document."""
    return [source_json(source) for source in sources]


def distinct(sources: Iterable[Source]) -> tuple[Source, ...]:
    """``sources`` without repetitions, in their order."""
    return tuple(dict.fromkeys(sources))


def with_source_table(document: Mapping[str, object]) -> dict[str, object]:
    """``document`` with each source written once: under ``sources`` at the top by number, and as
    numbers under each ``sources`` below."""
    numbers: dict[str, int] = {}
    table: dict[str, object] = {}

    def number(source: object) -> int:
        key = repr(source)
        if key not in numbers:
            numbers[key] = len(numbers) + 1
            table[str(numbers[key])] = source
        return numbers[key]

    def numbered(value: object) -> object:
        if isinstance(value, Mapping):
            return {
                key: [number(source) for source in inner]
                if key == "sources" and isinstance(inner, list)
                else numbered(inner)
                for key, inner in value.items()
            }
        return [numbered(each) for each in value] if isinstance(value, list) else value

    return {**{key: numbered(value) for key, value in document.items()}, "sources": table}


@dataclass(slots=True)
class SourceList:
    """Numbers the sources of a text, for references such as ``[2]``."""

    _numbers: dict[Source, int] = field(default_factory=dict)

    def references(self, sources: Iterable[Source]) -> str:
        """The references to ``sources``, each numbered at its first use; empty for none."""
        numbers = [
            self._numbers.setdefault(source, len(self._numbers) + 1) for source in distinct(sources)
        ]
        return "".join(f"[{number}]" for number in numbers)

    def lines(self) -> list[str]:
        """The list that the references point to."""
        return [f"[{n}] {source.text}" for source, n in self._numbers.items()]


def gib(size: int) -> str:
    """``size`` bytes in GiB, such as ``15.29 GiB``."""
    return f"{size / GIB:,.2f} GiB"


def kib(size: int) -> str:
    """``size`` bytes in KiB, such as ``120 KiB``."""
    return f"{size / KIB:,.0f} KiB"
