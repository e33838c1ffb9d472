"""Drives ``vllm bench serve`` for one point after the other, in one process.

Runs as a program with the Python of a serving image, or of any environment that has vLLM, and
needs nothing else. It reads lines of JSON from standard input, and writes one for each on standard
output:

- first ``{"url", "key", "insecure"}``, answered by ``{"vllm": VERSION}`` once vLLM is loaded, which
  takes 12 s on two cores and happens once;
- then ``{"options": […]}``, those of ``vllm bench serve``, answered by ``{"result", "before",
  "after", "lag", "busy", "stalled"}`` (:class:`tpuflex.measure.load.Drive`).

What cannot be done is answered by ``{"error"}``. The program ends with its standard input, in the
middle of a load too: when the one who asked is gone, so is the load.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import math
import os
import queue
import resource
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import IO, Any, NoReturn

#: Seconds between two looks at the clock.
TICK_S = 0.01
#: Seconds without a line after which it ends: a client whose network is gone says nothing.
IDLE_S = 900.0
#: Seconds for the server to answer what is asked beside the load.
ANSWER_WITHIN_S = 30.0
#: Letters of an error that are passed on, and bytes of an answer that are read.
LONGEST_ERROR = 400
MOST_BYTES = 4 * 1024 * 1024
#: The variable from which vLLM takes the key: it is in no argument.
KEY_VARIABLE = "OPENAI_API_KEY"


class LoadError(Exception):
    """A load that cannot be driven; says why."""


class Ticker:
    """Looks at the clock every :data:`TICK_S`: how late it comes to that, nobody else was served
    meanwhile; and how much processor the process has taken."""

    def __init__(self) -> None:
        self._times = array("d")
        self._processor = array("d")

    def tick(self, now: float, processor: float) -> None:
        """Keep a look: the time of the clock, and the processor seconds until then."""
        self._times.append(now)
        self._processor.append(processor)

    def look(self) -> None:
        """Look now."""
        self.tick(time.perf_counter(), time.process_time())

    async def run(self) -> None:
        """Look until it is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(TICK_S)

    def between(self, first: float, last: float) -> tuple[float, float, float]:
        """The longest time that the event loop stood still between two times of the clock, the
        processor seconds per second meanwhile, and all the seconds that it came later than a tick
        although it did not compute."""
        times = self._times
        lag = stalled = 0.0
        begin, end = 0, len(times) - 1
        for index in range(1, len(times)):
            due, came = times[index - 1] + TICK_S, times[index]
            late = min(came, last) - max(due, first)
            lag = max(lag, late)
            idle = late - (self._processor[index] - self._processor[index - 1])
            stalled += idle if idle > TICK_S else 0.0
            if came <= first:
                begin = index
            elif came >= last:
                end = index
                break
        seconds = times[end] - times[begin]
        processor = self._processor[end] - self._processor[begin]
        return lag, processor / seconds if seconds else 0.0, stalled


class Server:
    """The server that is put under load, as far as it is asked beside that."""

    def __init__(self, url: str, key: str, *, insecure: bool) -> None:
        self.url = url
        self._key = key
        context = ssl.create_default_context()
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        # No proxy that the shell names gets the key.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def _get(self, path: str) -> str:
        request = urllib.request.Request(f"{self.url}{path}")  # noqa: S310 - checked by the client
        if self._key:
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        came: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                with self._opener.open(request, timeout=ANSWER_WITHIN_S) as answer:
                    came.put(answer.read(MOST_BYTES))
            except Exception as error:  # raised again below
                came.put(error)

        # A connection's own limit begins again with every byte.
        threading.Thread(target=ask, daemon=True).start()
        try:
            text = came.get(timeout=ANSWER_WITHIN_S)
        except queue.Empty:
            raise TimeoutError(f"no whole answer within {ANSWER_WITHIN_S:.0f} s") from None
        if isinstance(text, Exception):
            raise text
        return text.decode("utf-8", "replace")

    def require(self) -> None:
        """Check that it answers, and takes the key.

        Raises:
            LoadError: it does not.
        """
        try:
            self._get("/v1/models")
        except urllib.error.HTTPError as error:
            why = "refuses the API key" if error.code in (401, 403) else f"answers {error.code}"
            raise LoadError(f"{self.url}/v1/models {why}") from error
        except (OSError, ValueError) as error:
            raise LoadError(f"{self.url} does not answer: {error}") from error

    def metrics(self) -> str:
        """What it counts; empty where it does not say."""
        try:
            return self._get("/metrics")
        except (OSError, ValueError):
            return ""


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise LoadError(f"this version of vllm bench serve does not take the options: {message}")


async def drive(bench: Any, server: Server, options: Sequence[str]) -> dict[str, Any]:
    """Put the load of ``options`` on ``server``; what was measured.

    Args:
        bench: ``vllm.benchmarks.serve``.
        server: the server.
        options: of ``vllm bench serve``, without those that ``server`` has.

    Raises:
        LoadError: vLLM has no such options.
    """
    parser = _Options(allow_abbrev=False)
    bench.add_cli_args(parser)
    arguments = parser.parse_args(["--base-url", server.url, *options])
    before = server.metrics()
    ticker = Ticker()
    ticking = asyncio.create_task(ticker.run())
    try:
        result = await bench.main_async(arguments)
    finally:
        ticking.cancel()
    ticker.look()
    after = server.metrics()
    begins, took = result.get("start_times") or [0.0], result.get("latencies") or []
    ends = [begin + seconds for begin, seconds in zip(begins, took, strict=False)]
    lag, busy, stalled = ticker.between(min(begins), max(ends, default=math.inf))
    return {
        "result": _brief(result),
        "before": before,
        "after": after,
        "lag": round(lag, 6),
        "busy": round(busy, 4),
        "stalled": round(stalled, 6),
    }


def _brief(result: dict[str, Any]) -> dict[str, Any]:
    """``result`` without the texts, and with times to the microsecond: there are many of them."""
    kept = {name: value for name, value in result.items() if name != "generated_texts"}
    if "itls" in kept:
        kept["itls"] = [[round(float(each), 6) for each in request] for request in kept["itls"]]
    if "errors" in kept:
        kept["errors"] = [shortened(str(each or "")) for each in kept["errors"]]
    return kept


def shortened(text: str) -> str:
    """The end of ``text``: what went wrong stands last in a traceback."""
    text = text.strip()
    return text if len(text) <= LONGEST_ERROR else f"… {text[2 - LONGEST_ERROR :]}"


def serve(lines: Callable[[], bytes], say: Callable[[dict[str, Any]], None]) -> None:
    """Answer every line of ``lines`` by ``say``.

    Args:
        lines: the next line; it does not return when there is none.
        say: writes an answer.
    """
    first = json.loads(lines())
    key = first["key"]
    if key:
        os.environ[KEY_VARIABLE] = key
    else:
        os.environ.pop(KEY_VARIABLE, None)
    server = Server(first["url"], key, insecure=first["insecure"])
    insecure = ["--insecure"] if first["insecure"] else []

    def answer(make: Callable[[], dict[str, Any]]) -> None:
        try:
            said = make()
        except (Exception, SystemExit) as error:
            why = str(error) if isinstance(error, LoadError) else f"{type(error).__name__}: {error}"
            said = {"error": shortened(why.replace(key, "…") if key else why)}
        if key:
            errors = said.get("result", {}).get("errors", [])
            errors[:] = [each.replace(key, "…") for each in errors]
        say(said)

    loaded: list[Any] = []

    def load() -> dict[str, Any]:
        server.require()
        try:
            loaded.append(importlib.import_module("vllm.benchmarks.serve"))
        except ImportError as error:
            raise LoadError(f"vllm bench serve cannot be loaded: {error}") from error
        version = getattr(importlib.import_module("vllm"), "__version__", "")
        return {"vllm": str(version)}

    answer(load)
    while loaded:
        asked = [*json.loads(lines())["options"], *insecure]
        answer(partial(_driven, loaded[0], server, asked))
        # vLLM freezes what there is before each load, so that it is not looked at meanwhile.
        gc.unfreeze()
        gc.collect()


def _driven(bench: Any, server: Server, options: Sequence[str]) -> dict[str, Any]:
    return asyncio.run(drive(bench, server, options))


def main() -> None:
    """Answer standard input to its end."""
    # No module is taken from the directory in which it happens to start.
    sys.path[:] = [place for place in sys.path if place]
    # There is a connection per open request, and many systems let a process have 1,024 at first.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # What vLLM prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, waiting), daemon=True).start()

    def next_line() -> bytes:
        try:
            return waiting.get(timeout=IDLE_S)
        except queue.Empty:
            os._exit(0)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer, default=float).encode() + b"\n")
        answers.flush()

    serve(next_line, say)


def _read(source: IO[bytes], waiting: queue.SimpleQueue[bytes]) -> None:
    for line in source:
        waiting.put(line)
    # Nothing here is worth an orderly end, and a load that is being driven has none.
    os._exit(0)


if __name__ == "__main__":
    main()
