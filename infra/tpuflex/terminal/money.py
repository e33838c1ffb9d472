"""Figures with their sources as text."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuflex.planning.cost import RunCost
    from tpuflex.planning.figure import Figure, SourceList
    from tpuflex.terminal.output import Output

#: Below these an amount of money is shown with four decimals, or by its first two digits.
_SMALL = Decimal("0.1")
_TINY = Decimal("0.001")


def dollars(amount: Decimal | int | float | None) -> str:
    """An amount of money: two decimals, four below ten cents, two digits below a tenth of one."""
    if amount is None:
        return "not known"
    exact = Decimal(str(amount))
    if 0 < abs(exact) < _TINY:
        return f"${exact:.2g}"
    return f"${exact:,.4f}" if 0 < abs(exact) < _SMALL else f"${exact:,.2f}"


def price_text(cost: RunCost) -> str:
    """The price in a sentence, with what it does not include."""
    if cost.per_hour is None or cost.maximum is None:
        return "unknown for this region: see https://cloud.google.com/tpu/pricing"
    if not cost.per_hour:
        return "free: nothing leaves this machine"
    read = ""
    if cost.price is not None:
        own = " by a row of yours" if cost.price.source.own else ""
        read = f", as of {cost.price.source.date}{own}"
    return (
        f"${cost.per_hour} per hour, at most ${cost.maximum} for the whole run{read} "
        "(chips only: storage, DNS zones or NAT, and traffic come on top)"
    )


def money(figure: Figure, sources: SourceList) -> str:
    """An amount with its unit, its basis and the references to its sources."""
    unit = "" if figure.value is None else figure.unit.removeprefix("USD")
    references = sources.references(figure.sources)
    return f"{dollars(figure.value)}{unit} {references} ({figure.basis})".replace("  ", " ")


def show_sources(output: Output, sources: SourceList) -> None:
    """Print the list that the references point to."""
    lines = sources.lines()
    if lines:
        output.result("\nSources (what it is, and when it was read or observed):")
    for line in lines:
        output.result(f"  {line}")
