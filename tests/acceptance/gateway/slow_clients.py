"""A process with many connections to a gateway, on each of which a byte comes now and then.

    python slow_clients.py PORT COUNT KEY

Half of them never end the head of their request, half its body. Once all are connected it prints
``connected``; it ends when all were cut off, and prints after how many seconds the last was.
"""

from __future__ import annotations

import asyncio
import sys
import time

EVERY_S = 2.0


async def _drip(port: int, begin: bytes, connected: asyncio.Semaphore) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    connected.release()
    answer = asyncio.create_task(reader.read())
    writer.write(begin)
    while not (await asyncio.wait([answer], timeout=EVERY_S))[0]:
        writer.write(b"x")
    answer.exception()
    writer.close()
    return time.monotonic() - began


async def _main(port: int, count: int, key: str) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nX: x"
    body = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n"
        b"Authorization: Bearer %b\r\n\r\n{" % key.encode()
    )
    connected = asyncio.Semaphore(0)
    drips = [
        asyncio.create_task(_drip(port, (head, body)[number % 2], connected))
        for number in range(count)
    ]
    for _ in range(count):
        await connected.acquire()
    print("connected", flush=True)
    print(max(await asyncio.gather(*drips)), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
