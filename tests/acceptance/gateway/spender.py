"""A process that spends a budget in Redis as fast as it can, and says what it has spent.

    python spender.py URL PASSWORD_FILE TOKENS_PER_DAY SEED

It prints ``ready`` and waits for a line. Then, for each request that was let through, it prints how
many tokens that used; it ends when not even one token is left.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from tpuflex.gateway.budgets import Budgets, open_budgets
from tpuflex.gateway.clients import Client
from tpuflex.gateway.door import RejectedError
from tpuflex.settings.gateway import BudgetStore, ClientLimits

AT_ONCE = 20
MOST = 100


async def _spend(budgets: Budgets, client: Client, sizes: random.Random) -> None:
    while True:
        tokens = sizes.randint(1, MOST)
        try:
            reservation = await budgets.reserve(client, tokens, 0)
        except RejectedError as refused:
            if refused.status != 429:
                raise
            # Others may have reserved it for a moment, so a last token is asked for many times.
            for _ in range(50):
                try:
                    reservation = await budgets.reserve(client, tokens := 1, 0)
                    break
                except RejectedError:
                    await asyncio.sleep(0.01)
            else:
                return
        used = sizes.randint(0, tokens)
        print(used, flush=True)
        await asyncio.sleep(sizes.random() / 100)
        await reservation.settle(used, 0)


async def _main(url: str, password_file: Path, most: int, seed: int) -> None:
    client = Client("somebody", "batch", None, ClientLimits(tokens_per_day=most))
    sizes = random.Random(seed)  # noqa: S311 - sizes
    store = BudgetStore(url=url, password_file=password_file.name)
    async with open_budgets(store, password_file.parent) as budgets:
        print("ready", flush=True)
        sys.stdin.readline()
        await asyncio.gather(*(_spend(budgets, client, sizes) for _ in range(AT_ONCE)))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
