"""What it costs to copy bytes from a bucket in one region to one in another. Pure."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

from tpuflex.planning.rates import TRANSFER

_GIB = 2**30
#: Continents as the prices name them, by the first word of a region.
_CONTINENTS = {"us": "North America", "northamerica": "North America", "europe": "Europe"}


def transfer_dollars(size: int, origin: str, target: str) -> Decimal | None:
    """US dollars at most for ``size`` bytes from the region ``origin`` to ``target``, rounded up to
    a cent; None where nobody has read the price."""
    if origin == target:
        return Decimal(0)
    rate = TRANSFER.get((_continent(origin), _continent(target)))
    if rate is None:
        return None
    dollars = Decimal(size) / _GIB * rate.usd_per_gib
    return dollars.quantize(Decimal("0.01"), rounding=ROUND_CEILING)


def transfer_text(size: int, origin: str, target: str) -> str:
    """The same in words, with what is not known."""
    dollars = transfer_dollars(size, origin, target)
    if dollars is None:
        return f"the price of the network from {origin} to {target} was not read"
    if not dollars:
        return "the network costs nothing within a region"
    return f"the network costs ${dollars} at most"


def _continent(region: str) -> str:
    word = region.partition("-")[0]
    return _CONTINENTS.get(word, word)
