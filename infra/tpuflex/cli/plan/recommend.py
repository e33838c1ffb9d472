"""The steps of `tpuflex recommend`: resolve what is asked, rank, show."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import click

from tpuflex.cli.plan.catalog_lookup import known_model
from tpuflex.cli.plan.memory_choice import checkpoint_of, checkpoint_place
from tpuflex.cli.plan.recommendation import (
    show_elsewhere,
    show_options,
    show_scenario,
    show_scenarios,
)
from tpuflex.errors import NotFoundError, SettingsError
from tpuflex.planning.anchors import published
from tpuflex.planning.figure import SourceList, with_source_table
from tpuflex.planning.first_token import Load
from tpuflex.planning.option_json import option_json, requirements_json, scenario_json
from tpuflex.planning.recommend import Option, Requirements, recommend
from tpuflex.planning.scenarios import SCENARIOS, Elsewhere, Scenario, nearest_scenarios, scenario

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Model
    from tpuflex.cli.invocation import Invocation

#: The word of --scenario that lists them.
_LIST = "list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed; see ``tpuflex recommend --help``."""

    models: tuple[str, ...]
    directories: tuple[str, ...]
    context: int | None
    concurrency: int | None
    ttft: float | None
    budget: str | None
    scenario: str | None

    @property
    def names_models(self) -> bool:
        """Whether it says what to serve."""
        return bool(self.models or self.directories)


def run_recommend(invocation: Invocation, asked: Asked) -> int:
    """Rank the options for what was asked, and show them.

    Returns:
        the exit code: 5 where nothing fits or nothing that fits is within the budget, 4 where that
        is not known.

    Raises:
        click.UsageError: what was typed says too little, or contradicts itself.
        NotFoundError: the model or the scenario is not known.
        WeightsError: a checkpoint is damaged, or of an architecture that nobody has described.
        SettingsError: a row of the user's catalog is wrong.
    """
    _refuse_unused(asked)
    if asked.scenario == _LIST:
        invocation.output.document([scenario_json(row) for row in SCENARIOS])
        show_scenarios(invocation.output, SCENARIOS)
        return 0
    row = _scenario(asked.scenario)
    if row is not None and row.elsewhere is not None and not asked.names_models:
        _answer_elsewhere(invocation, row, row.elsewhere, asked)
        return 0
    catalog = invocation.catalog
    requirements = _requirements(asked, row)
    names = asked.models if asked.names_models or row is None else row.models
    models = [known_model(catalog, name) for name in names]
    models += [
        checkpoint_of(invocation, checkpoint_place(each)).model for each in asked.directories
    ]
    _refuse_too_long(models, requirements)
    options = recommend(dict.fromkeys(models), requirements, catalog)
    _show(invocation, row, requirements, options)
    best = options[0]
    if best.fit == "does_not_fit" or best.budget == "over":
        return SettingsError.exit_code
    return NotFoundError.exit_code if "not_known" in (best.fit, best.budget) else 0


def _refuse_unused(asked: Asked) -> None:
    """Refuse options that would change nothing.

    Raises:
        click.UsageError: there is one.
    """
    others = (asked.names_models, asked.context, asked.concurrency, asked.ttft, asked.budget)
    if asked.scenario == _LIST and any(others):
        raise click.UsageError("`--scenario list` lists the scenarios and takes nothing else.")


def _refuse_too_long(models: list[Model], requirements: Requirements) -> None:
    """Refuse a context that is longer than any of ``models`` takes.

    Raises:
        click.BadParameter: it is.
    """
    longest = {row.name: row.max_context for row in models}
    if all(most is not None and most < requirements.load.context for most in longest.values()):
        each = ", ".join(f"{name} takes at most {most:,}" for name, most in longest.items())
        raise click.BadParameter(
            f"{requirements.load.context:,} tokens are too many: {each}.", param_hint="'--context'"
        )


def _show(
    invocation: Invocation,
    row: Scenario | None,
    requirements: Requirements,
    options: tuple[Option, ...],
) -> None:
    output = invocation.output
    best = options[0]
    quoted = tuple(published(best.request.model, best.request.accelerator, requirements.load))
    output.document(
        with_source_table(
            {
                "scenario": None if row is None else scenario_json(row),
                "request": requirements_json(
                    requirements, dict.fromkeys(option.request.model.name for option in options)
                ),
                "options": [option_json(option) for option in options],
                "published": [one.to_json() for one in quoted],
            }
        )
    )
    if output.json:
        return
    sources = SourceList()
    if row is not None:
        show_scenario(output, row, sources)
    show_options(output, requirements, options, quoted, sources)


def _answer_elsewhere(
    invocation: Invocation, row: Scenario, elsewhere: Elsewhere, asked: Asked
) -> None:
    if asked.context or asked.concurrency or asked.ttft or asked.budget:
        raise click.UsageError(
            f"{row.name} is not a job for tpuflex: {elsewhere.why}. Add --model to rank chips all"
            " the same."
        )
    document = {"scenario": scenario_json(row), "options": []}
    invocation.output.document(with_source_table(document))
    show_elsewhere(invocation.output, row, elsewhere)


def _scenario(name: str | None) -> Scenario | None:
    if name is None:
        return None
    row = scenario(name)
    if row is None:
        near = nearest_scenarios(name)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise NotFoundError(
            f"There is no scenario {name!r}.",
            hint=f"{hint}`tpuflex recommend --scenario list` lists them.",
        )
    return row


def _requirements(asked: Asked, row: Scenario | None) -> Requirements:
    context = asked.context or (int(row.context.value) if row and row.context else None)
    concurrency = asked.concurrency or (
        int(row.concurrency.value) if row and row.concurrency else None
    )
    ttft = asked.ttft or (row.ttft.value if row and row.ttft else None)
    missing = [
        option
        for option, value in (
            ("--model", asked.names_models or (row and row.models)),
            ("--context", context),
            ("--concurrency", concurrency),
        )
        if not value
    ]
    if missing or context is None or concurrency is None:
        raise click.UsageError(
            f"Missing {', '.join(missing)}: say what to serve, or take a --scenario"
            " (`--scenario list` lists them)."
        )
    load = Load(context=context, concurrency=concurrency)
    return Requirements(load=load, ttft=ttft, budget=_budget(asked.budget))


def _budget(text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        amount = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(0)
    if not amount.is_finite() or not 0 < amount < 1_000_000:
        raise click.BadParameter(
            "write US dollars per hour, such as 6 or 5.40.", param_hint="'--budget'"
        )
    return amount
