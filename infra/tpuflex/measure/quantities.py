"""The quantities of a point that reports show and comparisons divide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tpuflex.measure.run import Point, Quantiles
from tpuflex.terminal.money import dollars


def rounded(value: float) -> str:
    """A figure in three digits, or in all those before the decimal point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that a point has measured.

    Attributes:
        name: what options and documents call it.
        title: what tables and plots call it, with its unit.
        of: its value at a point; None where the point has none.
        text: a value as tables show it.
        lower_is_better: whether the least value is the best.
    """

    name: str
    title: str
    of: Callable[[Point], float | None]
    text: Callable[[float], str] = rounded
    lower_is_better: bool = False

    def best(self, points: list[Point]) -> Point | None:
        """The point with the best value; None if no point has one."""
        valued = [(value, point) for point in points if (value := self.of(point)) is not None]
        choose = min if self.lower_is_better else max
        return choose(valued, key=lambda pair: pair[0])[1] if valued else None


def _requests(point: Point) -> float | None:
    return point.measured.requests_per_second if point.measured else None


def _output(point: Point) -> float | None:
    return point.measured.output_per_second if point.measured else None


def _prompt(point: Point) -> float | None:
    return point.measured.prompt_per_second if point.measured else None


def _cached(point: Point) -> float | None:
    counted = point.measured.counted if point.measured else None
    if counted is None or not counted.prompt_tokens:
        return None
    return counted.cached_tokens / counted.prompt_tokens * 100


def _p95(quantiles: Quantiles | None) -> float | None:
    return quantiles.p95 if quantiles else None


def _ttft(point: Point) -> float | None:
    return _p95(point.measured.ttft) if point.measured else None


def _tpot(point: Point) -> float | None:
    seconds = _p95(point.measured.tpot) if point.measured else None
    return None if seconds is None else seconds * 1000


def _inter_token(point: Point) -> float | None:
    seconds = _p95(point.measured.inter_token) if point.measured else None
    return None if seconds is None else seconds * 1000


def _latency(point: Point) -> float | None:
    return _p95(point.measured.latency) if point.measured else None


def _usd(point: Point) -> float | None:
    return None if point.usd_per_million is None else float(point.usd_per_million)


OUTPUT = Quantity("output", "Output tokens/s", _output)
PROMPT = Quantity("prompt", "Computed prompt tokens/s", _prompt)
REQUESTS = Quantity("requests", "Requests/s", _requests)
TTFT = Quantity("ttft", "Time to first token, p95, s", _ttft, lower_is_better=True)
TPOT = Quantity(
    "tpot", "Time per token after the first (TPOT), p95, ms", _tpot, lower_is_better=True
)
INTER_TOKEN = Quantity(
    "itl", "Time between tokens (ITL), p95, ms", _inter_token, lower_is_better=True
)
LATENCY = Quantity("latency", "Time to last token, p95, s", _latency, lower_is_better=True)
USD = Quantity("usd", "USD per million generated tokens", _usd, dollars, lower_is_better=True)
CACHED = Quantity("cached", "Prompt tokens read from the prefix cache, %", _cached)

#: Those by which runs are compared.
COMPARED = (OUTPUT, PROMPT, REQUESTS, TTFT, TPOT, INTER_TOKEN, LATENCY, USD)
