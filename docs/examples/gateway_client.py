"""Streamed answers through a gateway, for Python 3.11 or later: pip install openai

The gateway sends no headers before the first token, so what `max_retries` repeats, after the time
that Retry-After says, has generated nothing. From the first token on nothing is repeated: an answer
that breaks off raises, and what came of it is yours to keep or to drop.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from openai import APIError, AsyncOpenAI, OpenAIError


class OverBudgetError(Exception):
    """A request may need more tokens than are left."""


class TokenBudget:
    """Tokens that this program may use: the most that a request may need is taken before it is
    sent, and what it did not use is given back."""

    def __init__(self, tokens: int) -> None:
        self.left = tokens

    def reserve(self, tokens: int) -> Callable[[int], None]:
        """Take so many tokens; what is returned gives back those that were not used, once."""
        if tokens > self.left:
            raise OverBudgetError(f"It may need {tokens} tokens, and {self.left} are left.")
        self.left -= tokens
        reserved = [tokens]

        def settle(used: int) -> None:
            if reserved:
                self.left += reserved.pop() - used

        return settle


async def ask(
    client: AsyncOpenAI, budget: TokenBudget, *, model: str, prompt: str, max_tokens: int
) -> AsyncGenerator[str, None]:
    """The pieces of an answer.

    The next one is read when it is asked for, so a reader that pauses holds the server back.
    Cancelling the task that reads, or closing this, ends the request: the connection closes, and
    the server stops generating.
    """
    # A prompt has no more tokens than bytes, but for a few that its template adds.
    settle = budget.reserve(len(prompt.encode()) + 64 + max_tokens)
    try:
        stream = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=max_tokens,
            stream=True,
            stream_options={"include_usage": True},
        )
    except OpenAIError:
        settle(0)  # nothing was generated
        raise
    finished = False
    async with stream:
        async for chunk in stream:
            if chunk.usage is not None:
                settle(chunk.usage.total_tokens)
            for choice in chunk.choices:
                if choice.delta.content:
                    yield choice.delta.content
                finished = finished or choice.finish_reason is not None
    # Without usage, as when it broke off, all that was taken counts as used.
    if not finished:
        raise EOFError("The answer ended before it was whole.")


async def main(prompts: Sequence[str]) -> None:
    """Each argument is a question; OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL say whom to
    ask."""
    budget = TokenBudget(int(os.environ.get("TOKEN_BUDGET", "100000")))
    model = os.environ.get("OPENAI_MODEL", "")
    async with AsyncOpenAI(max_retries=4) as client:
        for prompt in prompts:
            answer = ask(client, budget, model=model, prompt=prompt, max_tokens=512)
            async with aclosing(answer):
                async for piece in answer:
                    print(piece, end="", flush=True)
            print()
            print(f"{budget.left} tokens are left.", file=sys.stderr)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    except APIError as error:
        sys.exit(f"{error.code}: {error.message}")  # `code` is the gateway's reason
    except (EOFError, OverBudgetError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
