"""A request under way: what it may use, what becomes of it, and how it has ended."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.gateway.outcome import Outcome, Reason
from tpuflex.gateway.sse import Usage
from tpuflex.gateway.upstream import Want

if TYPE_CHECKING:
    from aiohttp import web

    from tpuflex.gateway.budgets import Reservation
    from tpuflex.gateway.clients import Client
    from tpuflex.gateway.connection import Connection
    from tpuflex.gateway.door import Ask
    from tpuflex.gateway.upstream import Upstream
    from tpuflex.settings.gateway import ClassSettings

#: Status, in logs, of a client that has left before its answer was whole, as nginx has it.
_CLIENT_LEFT = 499
#: Tokens that a chat template adds to what is written in a prompt. OpenAI's harmony has most: 70.
_TEMPLATE_TOKENS = 128


@dataclass(slots=True)
class Bound:
    """The most that a request can use, and what it costs.

    Attributes:
        sequence: tokens that one of its answers may be expected to have.
        prompt: tokens of its prompts.
        generated: tokens of all its answers.
        tokens: tokens in all.
        usd_micros: micro-dollars.
    """

    sequence: int
    prompt: int
    generated: int
    tokens: int
    usd_micros: int

    @classmethod
    def of(cls, ask: Ask, connections: Iterable[Connection], most: int) -> Bound:
        """The bound of a request that one of ``connections`` gets, where nothing generates more
        than ``most`` tokens without being asked for them."""
        lengths: set[int | None] = set()
        prompt_price, generated_price = 0.0, 0.0
        for connection in connections:
            lengths.add(connection.max_model_len)
            prompt_price = max(prompt_price, connection.prompt_usd_micros or 0.0)
            generated_price = max(generated_price, connection.generated_usd_micros or 0.0)
        known = [each for each in lengths if each is not None]
        longest = max(known, default=most) if len(known) == len(lengths) else None
        context = most if longest is None else longest
        generated = ask.n * (context if ask.max_tokens is None else ask.max_tokens)
        prompt = context * ask.prompts
        if ask.prompt_bytes is not None:
            written = ask.prompt_bytes + _TEMPLATE_TOKENS * ask.prompts
            prompt = written if longest is None else min(prompt, written)
        tokens = prompt + generated
        if longest is not None:
            # Prompt and answer together are no longer than the model's context.
            tokens = min(tokens, ask.n * longest)
        micros = math.ceil(prompt * prompt_price + generated * generated_price)
        sequence = min(context, most) if ask.max_tokens is None else ask.max_tokens
        return cls(sequence, prompt, generated, tokens, micros)


@dataclass(slots=True, eq=False)
class Passage:
    """A request under way, and what becomes of it.

    Attributes:
        id: its name, which the client has in ``x-request-id``.
        client: who asks.
        ask: what for.
        want: the same, as far as admission is concerned.
        rules: of its class.
        bound: the most that it can use.
        request: the client's request.
        began: when it came.
        upstream: the upstream that it had last.
        pool: number of that one's pool.
        status: of the answer.
        reason: why it was refused or did not end well; None if it did.
        moved: why it went to a second upstream.
        waited: seconds in the waiting room.
        asked: when its upstream was asked.
        first_token: seconds from then to the first token.
        reservation: what is counted for it while it is under way.
        computed: whether an upstream may have computed it of whose use nothing is known.
        usage: what it has used, as the upstream says.
        generated: events with something generated that have come.
        received: tokens of theirs, at most.
        cut: whether the gateway, which stops, cancels it, and not a client that leaves.
        cached: whether the answer was given before.
        prices: micro-dollars for a token of the prompt, and for a generated one.
    """

    id: str
    client: Client
    ask: Ask
    want: Want
    rules: ClassSettings
    bound: Bound
    request: web.BaseRequest
    began: float
    upstream: Upstream | None = None
    pool: int | None = None
    status: int = _CLIENT_LEFT
    reason: Reason | None = Reason.CLIENT_LEFT
    moved: Reason | None = None
    waited: float = 0.0
    asked: float = 0.0
    first_token: float | None = None
    reservation: Reservation | None = None
    computed: bool = False
    usage: Usage | None = None
    generated: int | None = None
    received: int | None = None
    cut: bool = False
    cached: bool = False
    prices: tuple[float, float] = (0.0, 0.0)

    @property
    def used(self) -> Usage:
        """What it has used at its last upstream, as that says; else no less than that."""
        if self.usage is not None:
            return self.usage
        generated = self.bound.generated
        if self.received is not None:
            return Usage(self.bound.prompt, min(self.received, generated))
        return Usage(self.bound.prompt, generated) if self.computed else Usage(0, 0)

    @property
    def used_tokens(self) -> int:
        """How many tokens that is."""
        tokens = self.used.prompt + self.used.generated
        return tokens if self.usage is not None else min(tokens, self.bound.tokens)

    @property
    def used_usd_micros(self) -> int:
        """What that costs."""
        prompt, generated = self.prices
        return math.ceil(self.used.prompt * prompt + self.used.generated * generated)

    def ended(self, status: int, reason: Reason | None = None) -> None:
        """It has ended so."""
        self.status, self.reason = status, reason

    def outcome(self, now: float) -> Outcome:
        """How it has ended."""
        usage = self.usage
        return Outcome(
            id=self.id,
            client=self.client.name,
            request_class=self.want.request_class,
            model=self.want.model,
            upstream=None if self.upstream is None else self.upstream.name,
            pool=self.pool,
            status=self.status,
            reason=self.reason,
            streamed=self.ask.stream,
            moved=self.moved,
            waited_s=self.waited,
            first_token_s=self.first_token,
            seconds=now - self.began,
            prompt_tokens=None if usage is None else usage.prompt,
            generated_tokens=self.generated if usage is None else usage.generated,
            cached=self.cached,
        )
