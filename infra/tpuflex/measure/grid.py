"""Which points a benchmark has, in which order, and which of them the server can hold at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpuflex.catalog.flags import suffixed_number
from tpuflex.errors import UsageError
from tpuflex.measure.run import Load, Server

#: 12 x 12 points.
CONCURRENCY = tuple(2**power for power in range(12))
CONTEXT = tuple(2**power for power in range(3, 15))
OUTPUT = 64
REQUESTS_PER_USER = 8
#: Quantiles of fewer requests than that say little.
LEAST_REQUESTS = 32
#: The most requests of a point that has at most half as many users. The generator's prompts are
#: runs of the vocabulary's tokens, so of N prompts about N / 2 / vocabulary begin as another one
#: does, by chance: 1.6 % of 4,096 with 128k tokens.
MOST_REQUESTS = 4096
#: The shortest prompt: the generator leaves room for the tokenizer's special tokens.
SHORTEST_CONTEXT = 8
#: The steps in which the axes of a grid are filled in.
_STEPS = (4, 2, 1)
_POINT = re.compile(r"([0-9]{1,9})x([0-9]{1,9}[kK]?)")


@dataclass(frozen=True, slots=True)
class Grid:
    """What a benchmark measures.

    Attributes:
        concurrency: requests in flight, each with every one of ``context``.
        context: tokens of a prompt.
        points: pairs of the two, in place of all of them.
        output: tokens of an answer.
        requests_per_user: requests of a point, for each that is in flight.
        shared: tokens that all prompts of a second series begin with; 0 for no second series.
    """

    concurrency: tuple[int, ...] = CONCURRENCY
    context: tuple[int, ...] = CONTEXT
    points: tuple[tuple[int, int], ...] = ()
    output: int = OUTPUT
    requests_per_user: int = REQUESTS_PER_USER
    shared: int = 0

    def loads(self, seed: int) -> tuple[Load, ...]:
        """The points in the order in which they are measured.

        Coarse before fine: every fourth value of both axes first, then every second, then all, so
        that a run that was stopped early is a coarser grid, and not the corner of one. Prompts that
        share their beginning come last.

        Args:
            seed: of the run; the seeds of the points follow from it.

        Raises:
            UsageError: there are none.
        """
        series = (0, self.shared) if self.shared else (0,)
        pairs = list(self._pairs())
        loads = tuple(
            self._load(concurrency, context, shared, seed)
            for shared in series
            for concurrency, context in pairs
            if context > shared
        )
        if self.shared and all(not each.shared for each in loads):
            longest = max(context for _, context in pairs)
            raise UsageError(
                f"No prompt is longer than the {self.shared:,} tokens that all of them would share:"
                f" the longest has {longest:,}.",
                option="--shared",
            )
        return loads

    def _pairs(self) -> Iterator[tuple[int, int]]:
        if self.points:
            yield from dict.fromkeys(self.points)
            return
        concurrency, context = sorted(set(self.concurrency)), sorted(set(self.context))
        for before, step in zip((None, *_STEPS), _STEPS, strict=False):
            for j, tokens in enumerate(context):
                for i, users in enumerate(concurrency):
                    done = before is not None and i % before == 0 and j % before == 0
                    if i % step == 0 and j % step == 0 and not done:
                        yield users, tokens

    def _load(self, concurrency: int, context: int, shared: int, seed: int) -> Load:
        wanted = max(LEAST_REQUESTS, self.requests_per_user * concurrency)
        requests = min(wanted, max(MOST_REQUESTS, 2 * concurrency))
        load = Load(
            concurrency=concurrency,
            context=context,
            output=self.output,
            requests=requests,
            shared=shared,
        )
        return seeded(load, seed)


def seeded(load: Load, seed: int) -> Load:
    """``load`` with the seed of its prompts in a run with ``seed``."""
    point = f"{seed} {load.key}"
    # What numpy takes as a seed has 32 bits.
    own = int.from_bytes(hashlib.sha256(point.encode()).digest()[:4])
    return load.model_copy(update={"seed": own})


def grid_of(
    *,
    concurrency: str | None = None,
    context: str | None = None,
    points: str | None = None,
    output: int | None = None,
    requests_per_user: int | None = None,
    shared: int | None = None,
) -> Grid:
    """The grid that options describe; None is an option that was not given.

    Args:
        concurrency: such as ``1,8,64``.
        context: such as ``128,2K``.
        points: such as ``8x128,64x2K``, in place of the two.
        output, requests_per_user, shared: as of :class:`Grid`.

    Raises:
        UsageError: one of them cannot be read, or two exclude each other.
    """
    if points is not None and (concurrency, context) != (None, None):
        raise UsageError("--points stands in place of --concurrency and --context.")
    users, tokens = CONCURRENCY, CONTEXT
    if concurrency is not None:
        users = parse_counts(concurrency, "--concurrency")
    if context is not None:
        tokens = parse_counts(context, "--context")
    return Grid(
        concurrency=users,
        context=tokens,
        points=() if points is None else parse_points(points),
        output=output or OUTPUT,
        requests_per_user=requests_per_user or REQUESTS_PER_USER,
        shared=shared or 0,
    )


def parse_points(text: str) -> tuple[tuple[int, int], ...]:
    """Points such as ``8x128,64x2048``: requests in flight x tokens of a prompt.

    Raises:
        UsageError: that is something else.
    """
    return tuple(_point(word.strip()) for word in text.split(","))


def _point(word: str) -> tuple[int, int]:
    found = _POINT.fullmatch(word)
    if found is None:
        raise UsageError(
            f"{word!r} is no point: write CONCURRENCYxCONTEXT, such as 8x128.", option="--points"
        )
    concurrency, context = int(found[1]), _count(found[2])
    _check("--points", (concurrency,), (context,))
    return concurrency, context


def parse_counts(text: str, option: str) -> tuple[int, ...]:
    """Numbers such as ``1,8,64`` or ``128,2K`` of the axis that ``option`` is for.

    Raises:
        UsageError: one of them is none, or too small.
    """
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not re.fullmatch(r"[0-9]{1,9}[kK]?", word):
            raise UsageError(
                f"{word!r} is no number: write some with commas, such as 8,64.", option=option
            )
    counts = tuple(_count(word) for word in words)
    of_context = option == "--context"
    _check(option, () if of_context else counts, counts if of_context else ())
    return counts


def _count(word: str) -> int:
    return int(word) if word.isdecimal() else suffixed_number(word) or 0


def _check(option: str, concurrency: Sequence[int], context: Sequence[int]) -> None:
    if any(not 1 <= each <= 1_000_000 for each in concurrency):
        raise UsageError("Between 1 and 1,000,000 requests can be in flight.", option=option)
    if any(not SHORTEST_CONTEXT <= each <= 100_000_000 for each in context):
        raise UsageError(
            f"A prompt has {SHORTEST_CONTEXT} tokens or more: some are the tokenizer's own.",
            option=option,
        )


def why_not_feasible(load: Load, server: Server) -> str:
    """Why the server cannot hold ``load`` at once, with the arithmetic; empty if it can, or if it
    does not say what it holds."""
    tokens = load.context + load.output
    if server.max_model_len is not None and tokens > server.max_model_len:
        return (
            f"{load.context:,} tokens of a prompt and {load.output:,} of its answer are {tokens:,},"
            f" and the server's longest sequence has {server.max_model_len:,} (max_model_len)"
        )
    if server.kv_tokens is None or not server.block_size:
        return ""
    size = server.block_size
    # One block is a placeholder that holds no tokens.
    there = server.kv_tokens // size - 1
    each, common = -(-tokens // size), load.shared // size
    blocks = common + load.concurrency * (each - common)
    if blocks <= there:
        return ""
    if common:
        sum_ = f"{common:,} shared + {load.concurrency:,} x {each - common:,}"
    else:
        sum_ = f"{load.concurrency:,} x {each:,}"
    return (
        f"{load.concurrency:,} sequences of {tokens:,} tokens take {sum_} = {blocks:,} blocks of"
        f" {size:,} tokens, and the KV cache has {there:,} for them"
    )
