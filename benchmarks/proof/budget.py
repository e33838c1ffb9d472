"""How long a run may be for the money. Pure.

Google deletes a Flex-start slice at the end of its run, whatever happens here: the longest run is
the cap that holds even if this machine goes away.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import ROUND_CEILING, Decimal

#: Storage, DNS zones and requests of an afternoon: `tpuflex cost` says a few cents.
BESIDE_CHIPS_USD = Decimal("0.10")
#: What a first run needs: boot (seven minutes were seen), questions, a reboot, and another boot.
WANTED = timedelta(hours=1)
NEEDED = timedelta(minutes=40)


def affordable_run(cap_usd: Decimal, usd_per_hour: Decimal | None) -> timedelta:
    """The longest run that costs at most ``cap_usd``, and no longer than one is of use.

    Args:
        cap_usd: what all of it may cost, in US dollars.
        usd_per_hour: price of the chips; None where it is not known.

    Raises:
        ValueError: the price is not known, or the money is not enough; says how much would be.
    """
    if usd_per_hour is None:
        raise ValueError("the price of these chips is not known: add its row to catalog.yaml")
    if usd_per_hour == 0:
        return WANTED
    minutes = int((cap_usd - BESIDE_CHIPS_USD) / usd_per_hour * 60)
    affordable = min(WANTED, timedelta(minutes=max(minutes, 0)))
    if affordable < NEEDED:
        least = usd_per_hour * NEEDED.seconds / 3600 + BESIDE_CHIPS_USD
        enough = least.quantize(Decimal("0.01"), ROUND_CEILING)
        raise ValueError(
            f"CAP_USD={cap_usd} pays for {affordable.seconds // 60} minutes at ${usd_per_hour} per "
            f"hour, and a run needs {NEEDED.seconds // 60}: write {enough} or more"
        )
    return affordable
