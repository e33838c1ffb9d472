"""One upstream, looked at for as long as it is there: it is opened once it has completed a request,
and asked each second how full it is."""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, TypeVar

import aiohttp
from pydantic import BaseModel, Field, ValidationError

from tpuflex.errors import TpuflexError
from tpuflex.gateway.connection import lacks_descriptors
from tpuflex.gateway.first_token import LEAST, SHARE
from tpuflex.gateway.threads import first_of, in_thread
from tpuflex.measure.metrics import Histogram

if TYPE_CHECKING:
    from tpuflex.gateway.connection import Connection
    from tpuflex.stack.stack import Stack

Document = TypeVar("Document", bound=BaseModel)

#: Seconds from one completion to the next, while it is closed.
AGAIN_S = 5.0
#: Seconds from one look to the next, while it is open.
LOOK_S = 1.0
#: Seconds for a completion, which may wait for others there; for one while it is doubted; and for
#: what it says each second.
_COMPLETION_WITHIN = aiohttp.ClientTimeout(total=30.0)
_DOUBTED_WITHIN = aiohttp.ClientTimeout(total=10.0)
_WITHIN = aiohttp.ClientTimeout(total=2.0)
#: Seconds since it was seen to make tokens, within which it is not doubted.
_MADE_TOKENS_S = 5.0
#: Bytes of an answer that are read. vLLM 0.32 sends 60 KiB of metrics.
_MOST_BYTES = 4 * 1024 * 1024

_METRICS = re.compile(
    rb"^vllm:(kv_cache_usage_perc|gpu_cache_usage_perc|num_requests_waiting|generation_tokens_total)"
    rb"(?:\{[^\n]*\})? ([0-9.e+-]{1,30})$",
    re.MULTILINE,
)

_FIRST_TOKENS = re.compile(
    rb"^vllm:time_to_first_token_seconds_bucket"
    rb'\{[^\n]*?\ble="(\+Inf|[0-9]{1,12}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,2})?)"[^\n]*\}'
    rb" ([0-9.e+-]{1,30})$",
    re.MULTILINE,
)
#: What can be in a header.
_KEY = re.compile(r"[!-~]{1,4096}")


def _nothing() -> None:
    """Nobody wants to know."""


class _Usage(BaseModel):
    completion_tokens: Annotated[int, Field(ge=1)]


class _Completed(BaseModel):
    """The part of a completion, of text or of a chat, that shows that a token was made."""

    choices: list[dict[str, object]] = Field(min_length=1)
    usage: _Usage | None = None


class _Model(BaseModel):
    id: str
    max_model_len: Annotated[int, Field(ge=1, le=10**12)] | None = None


class _Models(BaseModel):
    data: list[_Model]


class _Guard(BaseModel):
    closed: bool


class _UnfitError(Exception):
    """An upstream cannot be opened; says why, and what to do about it where that is known."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


class _LimitedError(_UnfitError):
    """An upstream is well, and takes no more requests at present."""


class _UnloadedFirstTokens:
    """The first tokens of an upstream, by its own histogram, between those looks at which it had
    little to do. Were those under load to count, limits that follow from them would never be
    passed."""

    def __init__(self) -> None:
        self._sum: Histogram | None = None
        self._before: Histogram | None = None

    def look(self, text: bytes, *, loaded: bool) -> float | None:
        """Seconds below which 95 % have come, by what it says now; None before there are
        enough."""
        counts: dict[float, float] = defaultdict(float)
        for bound, count in _FIRST_TOKENS.findall(text):
            counts[float(bound)] += _number(count)  # of several engines
        now, before = Histogram(tuple(sorted(counts.items())), 0.0), self._before
        self._before = None if loaded or not now.sound else now
        if before is not None and self._before is not None:
            since = now.minus(before)
            # One that was started again counts from 0.
            if since.sound and since.count > 0:
                self._sum = since if self._sum is None else self._sum.plus(since)
        enough = self._sum is not None and self._sum.count >= LEAST
        return self._sum.quantile(1 - SHARE) if self._sum is not None and enough else None


class UpstreamWatch:
    """Watches an upstream.

    Args:
        connection: how it is asked.
        key: reads its API key, in a thread; empty for none.
        report: receives a line when it opens and closes.
        now: a monotonic clock, in seconds.
        pause: waits so many seconds.
        stack: the stack that it is a slice of, with tpuflex's guard in front of it, which says
            whether it drains; None for any other server.
        learns: whether limits of first tokens follow from its own histogram.
        noticed: called when it stops taking requests.
    """

    def __init__(
        self,
        connection: Connection,
        key: Callable[[], str],
        report: Callable[[str], None],
        now: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
        *,
        stack: Stack | None = None,
        learns: bool = False,
        noticed: Callable[[], None] = _nothing,
    ) -> None:
        self.connection = connection
        self.upstream = connection.upstream
        #: Set when it was asked for a completion, or held, for the first time.
        self.asked = asyncio.Event()
        self._key, self._report, self._now, self._pause = key, report, now, pause
        self._stack, self._noticed = stack, noticed
        self._first_tokens = _UnloadedFirstTokens() if learns else None
        self._drains, self._held = False, ""
        #: Whether nothing listens at its address, as it was found when it was asked last.
        self.is_refused = False
        self._closed_by_guard = False
        self._has_metrics = True
        #: How many tokens it had made, and when that was seen to change.
        self._tokens, self._made_tokens = 0.0, -math.inf
        self._doubt: asyncio.Task[bool] | None = None
        self._gone = False
        self._suspected = asyncio.Event()
        self.upstream.since = now()

    async def run(self) -> None:
        """Watch it until it is :meth:`gone` and all that it has in flight has ended; then its
        connections are closed."""
        try:
            while not self._gone or self.upstream.in_flight:
                self._suspected.clear()
                try:
                    await self.look()
                except Exception as error:  # the gateway, and all others, go on whatever it is
                    self._close(f"{type(error).__name__} ({error})")
                seconds = LOOK_S if self.upstream.open else AGAIN_S
                await first_of(self._pause(seconds), self._suspected.wait())
        finally:
            self.asked.set()
            self.upstream.open = False
            if self._doubt is not None:
                self._doubt.cancel()
            await self.connection.session.close()

    def gone(self, why: str) -> None:
        """It is no longer there, as ``why`` says; what it has in flight may end."""
        self._gone = True
        if not self.upstream.draining:
            self.upstream.draining, self.upstream.since = True, self._now()
        self.upstream.why = f"it {why}."
        self._report(f"{self.upstream.name} {why}.")
        self._suspected.set()

    def drain(self, drains: bool) -> None:
        """Whether its slice drains, as the cloud has it."""
        self._drains = drains
        self._say_whether_it_drains()

    def hold(self, why: str) -> None:
        """It is closed, and not asked for a completion, as long as ``why`` is not empty."""
        if why == self._held:
            return
        self._held = why
        if why:
            self._close(why)
        self._suspected.set()

    def suspect(self, why: str) -> None:
        """It has failed: it is closed until it completes a request."""
        if self.upstream.open and not self._gone:
            self._close(why)
            # It may drain, which is waited for: its guard, which is asked at once, says so or not.
            self.upstream.draining |= self._stack is not None
            self._suspected.set()

    def doubt(self) -> asyncio.Task[bool]:
        """Something went wrong there, for which a request may be to blame: it stays open while it
        is asked for a token, and is closed if it makes none. Returns whether what it has may still
        end well; who doubts it meanwhile gets the same answer."""
        if self._doubt is None or self._doubt.done():
            self._doubt = asyncio.create_task(self._may_end_well())
        return self._doubt

    async def _may_end_well(self) -> bool:
        # One that drains refuses to be asked, and ends what it has.
        if self.upstream.draining or self._now() - self._made_tokens < _MADE_TOKENS_S:
            return True
        try:
            await self._complete(_DOUBTED_WITHIN)
        except _LimitedError:
            return True
        except (_UnfitError, aiohttp.ClientError, OSError) as error:
            if self._stack:
                with suppress(aiohttp.ClientError, OSError):
                    await self._ask_the_guard()
            if self.upstream.draining or lacks_descriptors(error):
                return True
            self.suspect(str(error) if isinstance(error, _UnfitError) else _words(error))
            # One that makes no token for the gateway may be making others, of which it has no
            # counts: that it answers at all shows no more than that it is not frozen as a whole.
            return isinstance(error, TimeoutError) and not self._tokens and await self._answers()
        return True

    async def _answers(self) -> bool:
        try:
            async with self.connection.request("GET", "/models", timeout=_WITHIN) as response:
                return response.status < 500
        except (aiohttp.ClientError, OSError):
            return False

    async def look(self) -> None:
        """Ask it for a completion, if it is closed; else how full it is."""
        if self.upstream.open and not self._gone:
            await self._ask_how_full()
        elif not self._gone and not self._held:
            if self._stack:
                # Before a completion, for which a frozen server may take half a minute.
                with suppress(aiohttp.ClientError, OSError):
                    await self._ask_the_guard()
                self._say_whether_it_drains()
            await self._admit()
        self.asked.set()

    async def _admit(self) -> None:
        self.is_refused = False
        try:
            key = (await in_thread(self._key)).strip()
            if key and not _KEY.fullmatch(key):
                raise _UnfitError("what should be its key is no single word of ASCII")
            self.connection.headers = {"Authorization": f"Bearer {key}"} if key else {}
            await self._complete()
            self.connection.max_model_len = await self._max_model_len()
        except TpuflexError as error:
            hint = str(error.hint) if self._stack is None else self._stack.advise(error.hint)
            self._say_closed(error.message, hint)
        except _UnfitError as error:
            self._say_closed(str(error), error.hint)
        except (aiohttp.ClientError, OSError) as error:
            self.is_refused = isinstance(error, aiohttp.ClientConnectorError)
            self._say_closed(_words(error))
        else:
            self._has_metrics = True
            if self._held or self._gone:
                return
            self.upstream.why, self.upstream.since = "", self._now()
            self.upstream.open = True
            self._report(f"{self.upstream.name} is open: {self.upstream.model} has answered.")

    async def _complete(self, within: aiohttp.ClientTimeout = _COMPLETION_WITHIN) -> None:
        """Have it complete one token.

        Raises:
            _UnfitError: it does not.
            aiohttp.ClientError, TimeoutError: it does not answer.
        """
        ask = {"model": self.upstream.model, "max_tokens": 1, "temperature": 0}
        code, body = await self._post("/completions", {**ask, "prompt": "Hello"}, within)
        # A model with a chat template completes text, too, unless its server has no such route.
        if code in (400, 404, 405, 501):
            messages = [{"role": "user", "content": "Hello"}]
            code, body = await self._post(
                "/chat/completions", {**ask, "messages": messages}, within
            )
            if code == 400:
                # OpenAI's reasoning models take neither `max_tokens` nor a temperature.
                chat = {"model": ask["model"], "messages": messages, "max_completion_tokens": 16}
                code, body = await self._post("/chat/completions", chat, within)
        if code in (401, 403) and not self.connection.headers:
            raise _UnfitError("it wants a key", f"Write upstreams.{self.upstream.name}.key_file.")
        if code in (401, 403):
            raise _UnfitError("it refuses its key")
        if code == 429:
            raise _LimitedError("it has had as many requests as it takes")
        if code != 200:
            raise _UnfitError(f"it has answered with status {code}", self._about(code))
        completed = _read(_Completed, body)
        if completed is None:
            raise _UnfitError("a completion was answered without a token")
        if completed.usage is None:
            raise _UnfitError("a completion was answered without its usage, which limits need")

    def _about(self, code: int) -> str:
        """What may be wrong with the URL or the model of one that somebody has written."""
        if 300 <= code < 400:
            return "No redirect is followed: write the URL to which it leads."
        if code != 404 or self._stack:
            return ""
        if self.upstream.url.endswith("/v1"):
            return f"Is its model called {self.upstream.model} there?"
        return f"Does the URL end with /v1? It is {self.upstream.url}."

    async def _post(
        self, path: str, document: dict[str, object], within: aiohttp.ClientTimeout
    ) -> tuple[int, bytes]:
        asked = self.connection.request("POST", path, json=document, timeout=within)
        async with asked as response:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                # As a proxy before it may have it; the answer to every request would be refused.
                raise _UnfitError("its answers are compressed, though that is not asked for")
            return response.status, await _body(response)

    async def _max_model_len(self) -> int | None:
        """Tokens of its longest sequence; None where it does not say."""
        asked = self.connection.request("GET", "/models", timeout=_COMPLETION_WITHIN)
        async with asked as response:
            models = _read(_Models, await _body(response)) if response.status == 200 else None
        for each in models.data if models is not None else ():
            if each.id == self.upstream.model:
                return each.max_model_len
        return None

    async def _ask_how_full(self) -> None:
        upstream = self.upstream
        try:
            if self._stack:
                await self._ask_the_guard()
            if self._has_metrics:
                await self._read_metrics()
        except TimeoutError:
            pass  # it is busy: what it said last may still hold
        except (aiohttp.ClientError, OSError) as error:
            if not lacks_descriptors(error):
                self.suspect(_words(error))
        upstream.limit.second(self._now(), upstream.waiting)

    async def _ask_the_guard(self) -> None:
        async with self.connection.root("/tpuflex/requests", timeout=_WITHIN) as response:
            said = _read(_Guard, await _body(response)) if response.status == 200 else None
        if said is not None:
            self._closed_by_guard = said.closed
            self._say_whether_it_drains()

    async def _read_metrics(self) -> None:
        async with self.connection.root("/metrics", timeout=_WITHIN) as response:
            # One that has none, or for others, will have none later.
            self._has_metrics = response.status == 200 or response.status >= 500
            if response.status != 200:
                return
            text = await _body(response)
        kv_use, waiting, tokens = 0.0, 0.0, 0.0
        for name, value in _METRICS.findall(text):
            number = _number(value)
            if name == b"num_requests_waiting":
                waiting += number  # of several engines
            elif name == b"generation_tokens_total":
                tokens += number
            else:
                kv_use = max(kv_use, number)
        if tokens != self._tokens:
            self._tokens, self._made_tokens = tokens, self._now()
        upstream = self.upstream
        upstream.kv_use, upstream.waiting = kv_use, int(waiting)
        if self._first_tokens is not None:
            loaded = waiting > 0 or upstream.in_flight > upstream.limit.least
            upstream.first_token_p95 = self._first_tokens.look(text, loaded=loaded)

    def _say_whether_it_drains(self) -> None:
        drains = self._gone or self._drains or self._closed_by_guard
        began = drains and not self.upstream.draining
        self.upstream.draining = drains
        if began:
            self.upstream.why = "it ends what it has, and gets nothing new."
            self.upstream.since = self._now()
            self._report(f"{self.upstream.name} drains: it gets nothing new.")
            self._noticed()

    def _close(self, why: str) -> None:
        if self.upstream.open:
            self.upstream.open, self.upstream.since = False, self._now()
        self.upstream.kv_use, self.upstream.waiting = 0.0, 0
        self._say_closed(why)
        self._noticed()

    def _say_closed(self, why: str, hint: str = "") -> None:
        """Say why it is closed, once for each reason, and what to do about it."""
        said = f"{why.rstrip('.')}. {hint}".rstrip()
        if said != self.upstream.why:
            self.upstream.why = said
            self._report(f"{self.upstream.name} is closed: {said}")


def _words(error: BaseException) -> str:
    """Why an upstream does not answer. aiohttp's own words are for developers."""
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, aiohttp.ServerFingerprintMismatch):
        return "its certificate is not the stack's"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not valid: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection to {error.host}:{error.port}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection"
    return str(error) or type(error).__name__


def _number(text: bytes) -> float:
    """A count or share; 0 for what is none."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if 0 <= number <= 2**53 else 0.0


def _read(kind: type[Document], body: bytes) -> Document | None:
    try:
        return kind.model_validate_json(body)
    except ValidationError:
        return None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """The body, up to so many bytes as are read."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _MOST_BYTES:
            response.close()
            break
    return bytes(body)
