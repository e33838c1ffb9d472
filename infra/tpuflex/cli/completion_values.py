"""The values that the shell offers on TAB: stacks, templates, and names of the catalog.

The user waits for a key, so nothing is imported that takes long, no stack file is read and no cloud
is asked. Nothing is checked either, but whether others could change the project: what is completed
is not run yet. Only names that mean nothing to a shell are offered: it puts them on the command
line as they stand, and the files of a checkout may have come from someone else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpuflex.catalog import USER_FILE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tpuflex.project import Project

#: As click calls it: with the context, the parameter, and what has been typed of the value.
Offer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]
Row = Mapping[str, Any]

#: A name that no shell reads anything into; Pulumi allows stacks no others.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


def stacks(
    ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    """The project's stacks."""
    project = _project(ctx)
    return completion_items(
        ((name, "") for name in (project.stack_names() if project else ())), typed
    )


def templates(
    _ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    """The stacks that come with tpuflex."""
    from tpuflex.project import stack_names_in

    shipped = Path(__file__).parents[1] / "stacks"
    return completion_items(((name, "") for name in stack_names_in(shipped)), typed)


def scenarios(
    _ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    """The rows of published decision matrices, and what lists them."""
    from tpuflex.planning.scenarios import SCENARIOS

    named = [(each.name, each.title) for each in SCENARIOS]
    return completion_items([*named, ("list", "List them.")], typed)


def rows(kind: str) -> Offer:
    """What offers the names of one kind of the catalog's rows, such as ``zones``."""

    def offer(
        ctx: click.Context, _parameter: click.Parameter, typed: str
    ) -> list[CompletionItem[str]]:
        return completion_items(_named(ctx, kind), typed)

    return offer


def rows_of_chosen_kind(
    ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    """The names of the rows of the kind that is typed before."""
    kind = ctx.params.get("kind")
    return completion_items(_named(ctx, kind) if kind else (), typed)


#: What the rows of a kind are asked for by, and what may help to choose one.
_COLUMNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "accelerators": ("name", ()),
    "zones": ("zone", ("generation", "flex_start")),
    "prices": ("region", ()),
    "models": ("name", ()),
    "images": ("digest", ("repository",)),
}


def _named(ctx: click.Context, kind: str) -> Iterator[tuple[str, str]]:
    from tpuflex.catalog.packaged import packaged_rows

    documents: list[Row] = [packaged_rows(f"{kind}.yaml"), _own_rows(ctx)]
    name, about = _COLUMNS[kind]
    for document in documents:
        found = document.get(kind)
        for row in found if isinstance(found, list) else ():
            if isinstance(row, dict):
                text = " ".join(str(row.get(column, "")) for column in about)
                yield str(row.get(name, "")).removeprefix("sha256:"), text


def completion_items(named: Iterable[tuple[str, str]], typed: str) -> list[CompletionItem[str]]:
    """Those of the names that begin with ``typed``, each with a text that some shells show."""
    from click.shell_completion import CompletionItem

    helps: dict[str, str] = {}
    for name, text in named:
        helps.setdefault(name, text)
    return [
        CompletionItem(name, help=text or None)
        for name, text in helps.items()
        if name.startswith(typed) and _PLAIN.fullmatch(name)
    ]


def _project(ctx: click.Context) -> Project | None:
    """The project; None if there is none that a command would open."""
    from tpuflex.errors import TpuflexError
    from tpuflex.project import open_project

    try:
        return open_project(ctx.find_root().params.get("project_dir") or Path(), os.environ)
    except TpuflexError:
        return None


def _own_rows(ctx: click.Context) -> Row:
    """The project's catalog.yaml; empty if there is none, or it is no mapping."""
    import yaml

    from tpuflex.settings.stack_yaml import LONGEST, read_yaml

    if (project := _project(ctx)) is None:
        return {}
    try:
        with (project.root / USER_FILE).open(encoding="utf-8") as text:
            document = read_yaml(text.read(LONGEST + 1)).value
    except (OSError, ValueError, yaml.YAMLError):  # of which RefusedYamlError is the second
        return {}
    return document if isinstance(document, dict) else {}
