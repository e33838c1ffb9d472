"""What `tpuflex recommend` prints: the scenario, the options, the first one in detail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpuflex.errors import NotFoundError, SettingsError
from tpuflex.planning.figure import SourceList
from tpuflex.planning.recommend import ORDER
from tpuflex.planning.scenarios import SCENARIOS
from tpuflex.terminal.money import dollars, show_sources

if TYPE_CHECKING:
    from tpuflex.planning.figure import Figure
    from tpuflex.planning.published import PublishedRate
    from tpuflex.planning.recommend import Nearest, Option, Recommendation, Requirements
    from tpuflex.planning.scenarios import Elsewhere, Given, Scenario
    from tpuflex.terminal.output import Output

#: Options that fit and are shown; all of them with --verbose and --json.
_SHOWN = 6
_FIRST_TOKEN = {
    "met": "met in a report",
    "missed": "missed in a report",
    "impossible": "impossible",
    "not_known": "not known",
    "not_asked": "-",
}
_HEADER = (
    *("", "MODEL", "CHIPS", "KV CACHE", "HOLDS", "STACKS"),
    *("PER HOUR", "PER MILLION OUT", "BUDGET", "FIRST TOKEN", "SEEN"),
)
_LEAST = (
    "PER MILLION OUT is the least that a million generated tokens cost under this load: sequences"
    " of full length, chips at peak, busy all the time."
)
_BUDGET = {"within": "within", "over": "OVER", "not_known": "not known", "not_asked": "-"}


def show_scenarios(output: Output) -> None:
    """List the scenarios."""
    output.document([row.to_json() for row in SCENARIOS])
    output.table(
        ("SCENARIO", "WHAT", "ANSWER"),
        [(row.name, row.title, _answer(row)) for row in SCENARIOS],
    )


def _answer(row: Scenario) -> str:
    if row.elsewhere is not None:
        return f"not tpuflex: {row.elsewhere.instead}"
    return "options for " + ", ".join(row.models)


def show_recommendation(output: Output, found: Recommendation) -> int:
    """Show what is recommended.

    Returns:
        the exit code: 5 where nothing fits or nothing that fits is within the budget, 4 where that
        is not known.
    """
    output.document(found.to_json())
    sources = SourceList()
    if found.requirements is None:
        if found.scenario is not None and found.scenario.elsewhere is not None:
            _show_elsewhere(output, found.scenario, found.scenario.elsewhere, sources)
        return 0
    if not output.json:
        if found.scenario is not None:
            _show_scenario(output, found.scenario, found.options, sources)
        _show_options(output, found.requirements, found, sources)
    best = found.options[0]
    if best.fit == "does_not_fit" or best.budget == "over":
        return SettingsError.exit_code
    return NotFoundError.exit_code if "not_known" in (best.fit, best.budget) else 0


def _show_elsewhere(
    output: Output, row: Scenario, elsewhere: Elsewhere, sources: SourceList
) -> None:
    """Say that this tool is not the answer, and what is."""
    output.heading(f"{row.title}: not a job for tpuflex")
    output.facts(
        (
            ("instead", f"{elsewhere.instead} {sources.references(elsewhere.sources)}"),
            ("why", elsewhere.why),
            ("matrix", f"{row.advice} {sources.references((row.source,))}"),
        )
    )
    _show_remarks(output, row, sources)
    show_sources(output, sources)


def _show_scenario(
    output: Output, row: Scenario, options: tuple[Option, ...], sources: SourceList
) -> None:
    """Show what the scenario's matrix says of its models, and what was filled in."""
    advised = any(option.request.model.name in row.models for option in options)
    output.heading(f"{row.title} ({row.name})")
    output.facts(
        (
            ("matrix", f"{row.advice} {sources.references((row.source,))}" if advised else ""),
            ("context", _given(row.context, "tokens")),
            ("concurrency", _given(row.concurrency, "sequences at once")),
            ("first token", _given(row.ttft, "s")),
        )
    )
    if advised:
        _show_remarks(output, row, sources)
    output.result()


def _given(given: Given | None, unit: str) -> str:
    if given is None:
        return ""
    says = "the matrix" if given.basis == "matrix" else "ASSUMED"
    return f"{given.value:,g} {unit} ({says}: {given.why})"


def _show_remarks(output: Output, row: Scenario, sources: SourceList) -> None:
    for remark in row.remarks:
        references = sources.references((row.source, *remark.sources))
        output.result(f'  It says "{remark.claim}": {remark.finding} {references}')


def _show_options(
    output: Output, requirements: Requirements, found: Recommendation, sources: SourceList
) -> None:
    """Show the ranked options, the first one in detail, and what was published about it."""
    options = found.options
    output.heading(_question(requirements))
    fitting = [option for option in options if option.fit == "fits"]
    shown = fitting if output.verbose else fitting[:_SHOWN]
    for line in _summary(requirements, found, fitting):
        output.result(line)
    if shown:
        output.table(
            _HEADER,
            [_row(place, option, sources) for place, option in enumerate(shown, 1)],
        )
        output.result(f"Ranked by {', then '.join(ORDER)}.")
        output.result(_LEAST)
    if len(fitting) > len(shown):
        output.result(f"{len(fitting) - len(shown)} more fit and rank lower: --verbose lists them.")
    _show_rest(output, options)
    if shown:
        _show_best(output, shown[0], sources)
        _show_published(output, found.published, sources)
    show_sources(output, sources)


def _question(requirements: Requirements) -> str:
    parts = [f"{requirements.load.context:,} tokens", f"{requirements.load.concurrency:,} at once"]
    if requirements.ttft is not None:
        parts.append(f"first token within {requirements.ttft:g} s")
    if requirements.budget is not None:
        parts.append(f"at most {dollars(requirements.budget)} per hour")
    return f"Options for {', '.join(parts)}"


def _summary(
    requirements: Requirements, found: Recommendation, fitting: list[Option]
) -> Iterator[str]:
    """The answer in a sentence where the first row of the table is not all of it."""
    if found.nearest is not None:
        yield (
            "Nothing fits: no accelerator type of one host that the Cloud TPU API has on Flex-start"
            f" holds one sequence of {requirements.load.context:,} tokens."
        )
        yield from _near(found.nearest)
        return
    if not fitting:
        yield "Nothing can be judged:"
        return
    best = fitting[0]
    request, limits = best.request, best.limits
    if requirements.budget is not None and best.budget != "within":
        cheapest = min(fitting, key=lambda option: _price(option.total))
        least = (
            "no price is known"
            if cheapest.total.value is None
            else f"the least that is known is {dollars(cheapest.total.value)}, {_stacks(cheapest)}"
        )
        yield (
            f"Nothing that holds {request.max_num_seqs:,} at once is known to be within"
            f" {dollars(requirements.budget)} per hour: {least}."
        )
    elif limits is not None and best.stacks.value != 1:
        yield (
            f"Take {_stacks(best)}, and share the requests between them: one holds"
            f" {limits.sequences.value:g} of {request.max_num_seqs:,} sequences of"
            f" {request.max_model_len:,} tokens."
        )
        alone = [option for option in fitting if option.stacks.value == 1]
        if alone:
            one = min(alone, key=lambda option: _price(option.total))
            yield f"One stack holds all of them: {one.name}, {_per_hour(one)}."


def _near(nearest: Nearest) -> Iterator[str]:
    """What comes nearest, and what helps, a sentence each."""
    if (option := nearest.shorter) is not None:
        context = option.request.max_model_len
        yield (
            f"The longest context that fits is {context:,} tokens, on {option.name},"
            f" {_per_hour(option)}: --context {context}."
        )
    if (option := nearest.roomiest) is not None:
        yield f"Nearest is {option.request.accelerator.name}: {option.obstacle}."
        yield "What helps is a smaller model, or a checkpoint of it in fewer bits (--model-dir)."
    if nearest.elsewhere:
        names = ", ".join(nearest.elsewhere)
        yield f"Held by {names}, which the Cloud TPU API does not have: no stack can be on it."


def _per_hour(option: Option) -> str:
    total = option.total.value
    return "price not known" if total is None else f"{dollars(total)} per hour"


def _price(figure: Figure) -> float:
    return float("inf") if figure.value is None else float(figure.value)


def _stacks(option: Option) -> str:
    number = option.stacks.value or 1
    return f"{number:,} {'stack' if number == 1 else 'stacks'} of {option.name}"


def _row(place: int, option: Option, sources: SourceList) -> tuple[str, ...]:
    request, limits = option.request, option.limits
    sequences = None if limits is None else limits.sequences
    held = (
        "-"
        if sequences is None
        else _with_sources(f"{sequences.value:g} of {request.max_num_seqs:,}", sequences, sources)
    )
    reports = [row.source for row in option.seen.seen]
    return (
        str(place),
        request.model.name,
        request.accelerator.name,
        request.kv_cache_dtype,
        held,
        "-" if option.stacks.value is None else f"{option.stacks.value:,}",
        _with_sources(dollars(option.total.value), option.total, sources),
        "-" if limits is None else _at_least(limits.usd_per_million_generated),
        _BUDGET[option.budget],
        f"{_FIRST_TOKEN[option.first_token.verdict]}"
        f" {sources.references(option.first_token.sources)}".strip(),
        f"{option.seen.text} {sources.references(reports)}".strip(),
    )


def _at_least(price: Figure) -> str:
    return dollars(price.value) if price.value is None else f"from {dollars(price.value)}"


def _with_sources(text: str, figure: Figure, sources: SourceList) -> str:
    return f"{text} {sources.references(figure.sources)}".strip()


def _show_rest(output: Output, options: tuple[Option, ...]) -> None:
    """The options that do not fit, with reasons if they are wanted, and those that cannot be
    judged, one line for each reason."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for option in options:
        if option.fit == "does_not_fit":
            why = option.obstacle if output.verbose else "--verbose says why"
            reasons.setdefault(("Does not fit", why), {})[_chips(option, options)] = None
        elif option.fit == "not_known":
            reasons.setdefault(("Not judged", option.obstacle), {})[_chips(option, options)] = None
    for (word, reason), names in reasons.items():
        output.result(f"{word}: {'; '.join(names)} ({reason}).")


def _chips(option: Option, options: tuple[Option, ...]) -> str:
    """The option in a few words, without the model where all are of one."""
    models = {each.request.model.name for each in options}
    return option.name if len(models) > 1 else option.name.rpartition(" on ")[2]


def _show_best(output: Output, option: Option, sources: SourceList) -> None:
    output.result()
    output.heading(f"The first: {option.name}")
    output.facts(_best(option, sources))


def _best(option: Option, sources: SourceList) -> Iterator[tuple[str, str]]:
    limits, first_token = option.limits, option.first_token
    yield "zones", ", ".join(option.zones) or "none known to accept it"
    yield "price", _explained(dollars(option.total.value), option.total, sources)
    if first_token.text:
        references = sources.references(first_token.sources)
        yield "first token", f"{_FIRST_TOKEN[first_token.verdict]}: {first_token.text} {references}"
    for name, bound in (("at least", first_token.alone), ("in a burst", first_token.burst)):
        value = "not known" if bound.value is None else f"{bound.value:.3g} s"
        yield name, _explained(value, bound, sources)
    if limits is not None:
        for name, figure in (
            ("cache", limits.cached_tokens),
            ("arithmetic", limits.arithmetic),
            ("decoding", limits.decode),
        ):
            value = "not known" if figure.value is None else f"{figure.value:,} {figure.unit}"
            yield name, _explained(value, figure, sources)
        least = limits.usd_per_million
        yield "per million", _explained(dollars(least.value), least, sources)
        generated = limits.usd_per_million_generated
        yield "generated", _explained(dollars(generated.value), generated, sources)
    yield (
        "seen",
        "\n".join(
            f"{row.result} on {row.accelerator}: {row.what} {sources.references((row.source,))}"
            for row in option.seen.seen
        )
        or option.seen.text,
    )
    yield "unproven", "\n".join(option.unproven)


def _explained(text: str, figure: Figure, sources: SourceList) -> str:
    return f"{_with_sources(text, figure, sources)} ({figure.basis})"


def _show_published(output: Output, quoted: tuple[PublishedRate, ...], sources: SourceList) -> None:
    if quoted:
        output.result()
        output.heading("Published, not measured by this project:")
    for one in quoted:
        output.result(f"  {one.text} {sources.references((one.source,))}")
