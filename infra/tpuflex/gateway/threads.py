"""What a task waits for: something that blocks, in a thread of its own, or the first of several."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What ``work`` returns, or raises, in a thread that nobody waits for when the process ends:
    one of :func:`asyncio.to_thread` would hold that up until its last call has an answer."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if answer.done():  # nobody waits for it any more
            return
        if error is None:
            answer.set_result(value)  # type: ignore[arg-type]  # it is T's own
        else:
            answer.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except Exception as raised:  # raised again where it is awaited
            error = raised
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(settle, value, error)

    Thread(target=run, daemon=True, name="gateway").start()
    return await answer


async def first_of(*waits: Awaitable[object]) -> None:
    """Wait for one of them; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
