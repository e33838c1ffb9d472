"""What a million tokens cost: at a given throughput, and at the least possible."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.planning.figure import Figure, distinct
from tpuflex.planning.throughput import Judgement, arithmetic_ceiling, judge, prompt_ceiling

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model

_MILLION = 1_000_000
_PER_MILLION = "USD per million tokens"
_CEILING = "arithmetic ceiling: peak bfloat16 at 2 FLOP per active parameter"
_LEAST = (
    "prompt tokens at peak bfloat16, 2 FLOP per active parameter without the output head, busy all"
    " the time: no less than this for a token that is computed"
)


@dataclass(frozen=True, slots=True)
class Throughput:
    """A throughput that was measured or assumed.

    Attributes:
        tokens_per_second: tokens per second while there is work.
        busy: share of the time in which there is work, above 0 and at most 1; the rest is idle and
            paid as well.
        basis: how it was measured, or that it is assumed.
    """

    tokens_per_second: float
    busy: float = 1.0
    basis: str = "assumed"


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """What a million tokens cost.

    Attributes:
        ceiling: tokens per second that the chips compute at peak.
        least: price of prompt tokens at peak, which need no output head, busy all the time.
        given: price at the throughput that was given; None when none was.
        judgement: that throughput beside the ceiling; None when one of them is missing.
    """

    ceiling: Figure
    least: Figure
    given: Figure | None
    judgement: Judgement | None

    def to_json(self) -> dict[str, object]:
        """The prices in a JSON document."""
        return {
            "arithmetic_ceiling": self.ceiling.to_json(),
            "least_per_million": self.least.to_json(),
            "per_million": None if self.given is None else self.given.to_json(),
            "verdict": None if self.judgement is None else self.judgement.verdict,
            "flag": "" if self.judgement is None else self.judgement.text,
        }


def usd_for_million(paid: Decimal, tokens: Decimal) -> Decimal:
    """US dollars for a million tokens, where ``paid`` has paid for so many."""
    return paid * _MILLION / tokens


def usd_per_million(per_hour: Decimal, throughput: Throughput) -> Decimal:
    """US dollars per million tokens, if ``per_hour`` is paid at all hours."""
    rate = Decimal(str(throughput.tokens_per_second)) * Decimal(str(throughput.busy))
    return usd_for_million(per_hour, rate * 3600)


def generated_price(per_hour: Figure, decode: Figure) -> Figure:
    """US dollars per million generated tokens at the rate of ``decode``, busy all the time: no
    less, where ``decode`` is a ceiling and no token is guessed ahead."""
    known = distinct((*per_hour.sources, *decode.sources))
    if per_hour.value is None or not decode.value:
        return Figure(None, _PER_MILLION, "the price or the ceiling is not known", known)
    amount = usd_per_million(Decimal(per_hour.value), Throughput(float(decode.value)))
    words = "generated tokens at the decoding ceiling, busy all the time"
    return Figure(_rounded(amount), _PER_MILLION, words, known)


def token_prices(
    accelerator: Accelerator,
    model: Model | None,
    per_hour: Figure,
    given: Throughput | None = None,
) -> TokenPrices:
    """What a million tokens of ``model`` cost on ``accelerator`` at ``per_hour``.

    Args:
        accelerator: the chips.
        model: the model; None when it is not in the catalog, and nothing is known of its ceiling.
        per_hour: price of the chips.
        given: the throughput to compute with beside the ceiling.
    """
    if model is None:
        unknown = Figure(None, "tokens per second", "the model is not in the catalog")
        least = Figure(None, _PER_MILLION, "the model is not in the catalog")
        return TokenPrices(unknown, least, _price(per_hour, given), None)
    rate = arithmetic_ceiling(model, accelerator)
    sources = (model.source, accelerator.source)
    ceiling = Figure(rate and round(rate), "tokens per second", _CEILING, sources)
    return TokenPrices(
        ceiling=ceiling,
        least=_least(per_hour, model, accelerator),
        given=_price(per_hour, given),
        judgement=None if given is None else judge(model, accelerator, given.tokens_per_second),
    )


def _rounded(amount: Decimal) -> Decimal:
    """Six digits that say something, however small or large the amount is."""
    return Decimal(f"{amount:.6g}")


def _least(per_hour: Figure, model: Model, accelerator: Accelerator) -> Figure:
    known = distinct((*per_hour.sources, model.source, accelerator.source))
    rate = prompt_ceiling(model, accelerator)
    if per_hour.value is None or rate is None:
        return Figure(None, _PER_MILLION, "the price or the peak is not known", known)
    amount = usd_per_million(Decimal(str(per_hour.value)), Throughput(rate))
    quick = prompt_ceiling(model, accelerator, eight_bit=True)
    words = _LEAST
    if quick is not None and quick > rate:
        words += f"; in 8 bits, 1/{quick / rate:.3g} of it"
    return Figure(_rounded(amount), _PER_MILLION, words, known)


def _price(per_hour: Figure, given: Throughput | None) -> Figure | None:
    if given is None:
        return None
    if per_hour.value is None:
        return Figure(None, _PER_MILLION, per_hour.basis, per_hour.sources)
    words = (
        f"{given.tokens_per_second:,.6g} tokens/s, {given.basis}, busy {given.busy:.0%} of the time"
    )
    amount = usd_per_million(Decimal(str(per_hour.value)), given)
    return Figure(_rounded(amount), _PER_MILLION, words, per_hour.sources)
