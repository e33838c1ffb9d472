"""What a server is asked before others ask it: completions of the kinds and sizes that it serves.

``warmup.py`` asks them, beside which the startup script writes this. Of lengths and batches the
first is asked for twice: where that took no longer than the second time, nothing is compiled at a
first use, and the others are left out.

vLLM for TPU compiles a program for each number of tokens and of sequences, padded as below, most
often all of them at its start. Where it has not (``enforce_eager``, ``SKIP_JAX_PRECOMPILE``), and
where something else is slow at its first use, a first user would wait
(https://github.com/vllm-project/tpu-inference/blob/main/tpu_inference/runner/compilation_manager.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: Tokens are padded to powers of two from here (MIN_TOKEN_BUCKET), and sequences (MIN_NUM_SEQS).
FEWEST_TOKENS, FEWEST_SEQUENCES = 16, 8
#: The prompt that shows whether lengths cost something at their first use: longer than the chat
#: that the host has asked for before, with what its template adds.
TELLING_TOKENS = 128
#: Longer prompts go through the same programs in pieces; so many tokens vLLM takes at once if it
#: is told nothing, or fewer.
MOST_TOKENS = 8192
#: Requests at once, at most: as many as vLLM takes if it is told nothing.
MOST_SEQUENCES = 256
#: Tokens of an answer: one step beyond the prompt; a batch is together for a while.
ANSWER_TOKENS, BATCH_ANSWER_TOKENS = 2, 32
#: A first use costs something if it takes this many seconds longer than the second, and this many
#: times as long.
FIRST_USE_SECONDS, FIRST_USE_RATIO = 0.2, 1.5
#: Ids of tokens that every vocabulary has, and that are no images or audio.
TOKEN_IDS = range(300, 1000)

_SCHEMA = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Round:
    """Requests that are sent at once."""

    path: str
    documents: tuple[dict[str, object], ...]


def ask_all(
    send: Callable[[Round], float], longest: int, model: str, tokens: int, sequences: int
) -> Iterator[str]:
    """Ask for what a server may be asked for; say of what the first use has cost something.

    Args:
        send: asks, and returns the seconds until all is answered.
        longest: tokens that a request may have with its answer; 0 if the server does not say.
        model: the name that it serves under.
        tokens: how many it computes at once.
        sequences: how many requests it computes at once.
    """
    for asked in kinds(model):
        send(asked)
    sizes = lengths(longest, tokens)
    if _grow(send, lambda size, nth: prompt(model, size, nth), sizes):
        yield f"prompts up to {max(sizes)} tokens"
    sizes = batches(longest, sequences)
    if _grow(send, lambda size, nth: batch(model, size, nth), sizes):
        yield f"up to {max(sizes)} at once"


def _grow(
    send: Callable[[Round], float], asked: Callable[[int, int], Round], sizes: list[int]
) -> bool:
    """Send the first size twice, and the others if its first use has cost something; whether it
    has."""
    if not sizes:
        return False
    first, second = (send(asked(sizes[0], nth)) for nth in (1, 2))
    if first <= max(FIRST_USE_RATIO * second, second + FIRST_USE_SECONDS):
        return False
    for size in sizes[1:]:
        send(asked(size, 1))
    return True


def lengths(longest: int, at_once: int) -> list[int]:
    """Tokens of prompts, the telling one first, then every power of two.

    Args:
        longest: tokens that a request may have with its answer.
        at_once: tokens that the server computes at once.
    """
    most = min(longest - ANSWER_TOKENS, at_once, MOST_TOKENS)
    if most < 1:
        return []
    telling = min(TELLING_TOKENS, most)
    return [telling, *(each for each in (*_powers(FEWEST_TOKENS, most), most) if each != telling)]


def batches(longest: int, sequences: int) -> list[int]:
    """How many requests to send at once to a server that takes ``sequences``: more than what one
    request is padded to."""
    most = min(sequences, MOST_SEQUENCES)
    if most <= FEWEST_SEQUENCES or longest < FEWEST_TOKENS + BATCH_ANSWER_TOKENS:
        return []
    return list(dict.fromkeys((*_powers(2 * FEWEST_SEQUENCES, most), most)))


def kinds(model: str) -> Iterator[Round]:
    """A chat as users send it, by the model's own sampling; an answer of a given form; and log
    probabilities of one token."""
    message = {"role": "user", "content": "Reply with one word: ready"}
    chat = {"model": model, "messages": [message], "max_tokens": 8, "stream": True}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA}}
    # Last, as it may be the slowest. With none besides the token's own, vLLM for TPU computes none
    # (https://github.com/vllm-project/tpu-inference/issues/3572).
    token = chat | {"logprobs": True, "top_logprobs": 1, "max_tokens": 1}
    for each in (chat, chat | {"response_format": form}, token):
        yield Round("/v1/chat/completions", (each,))


def prompt(model: str, tokens: int, nth: int) -> Round:
    """One prompt of so many tokens; the ``nth`` begins like no other."""
    return Round("/v1/completions", (_completion(model, tokens, ANSWER_TOKENS, f"{tokens} {nth}"),))


def batch(model: str, sequences: int, nth: int) -> Round:
    """So many short prompts at once."""
    documents = (
        _completion(model, FEWEST_TOKENS, BATCH_ANSWER_TOKENS, f"{number} of {sequences} {nth}")
        for number in range(sequences)
    )
    return Round("/v1/completions", tuple(documents))


def _powers(first: int, most: int) -> Iterator[int]:
    """Powers of two times ``first`` below ``most``."""
    while first < most:
        yield first
        first *= 2


def _completion(model: str, tokens: int, answer: int, seed: str) -> dict[str, object]:
    # No two prompts begin alike: what the prefix cache has is not computed.
    chosen = random.Random(seed).choices(TOKEN_IDS, k=tokens)  # noqa: S311
    return {
        "model": model,
        "prompt": chosen,
        "max_tokens": answer,
        "temperature": 0,
        "ignore_eos": True,
    }
