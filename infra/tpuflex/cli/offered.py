"""The values that the shell offers on TAB: stacks, templates, and names of the catalog.

Somebody waits for a key, so nothing is imported that takes long, no stack file is read and no cloud
is asked. Nothing is checked either: what is completed is not run yet. Only names that mean nothing
to a shell are offered: it puts them on the command line as they stand, and the files of a checkout
may be somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpuflex.catalog import USER_FILE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: As click calls it: with the context, the parameter, and what has been typed of the value.
Offer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]
Row = Mapping[str, Any]

#: A name that no shell reads anything into; Pulumi allows stacks no others.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
#: Characters of a project's own files that are read.
_LONGEST = 128 * 1024


def stacks(
    ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    """The project's stacks."""
    from tpuflex.project import PULUMI_FILE, stack_names_in

    root = _root(ctx)
    folder = _own_document(root / PULUMI_FILE).get("stackConfigDir")
    return offered(((name, "") for name in stack_names_in(root / str(folder or ""))), typed)


def templates(
    _ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    """The stacks that come with tpuflex."""
    from tpuflex.project import stack_names_in

    shipped = Path(__file__).parents[1] / "stacks"
    return offered(((name, "") for name in stack_names_in(shipped)), typed)


def scenarios(
    _ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    """The rows of published decision matrices, and what lists them."""
    from tpuflex.planning.scenarios import SCENARIOS

    named = [(each.name, each.title) for each in SCENARIOS]
    return offered([*named, ("list", "List them.")], typed)


def rows(kind: str) -> Offer:
    """What offers the names of one kind of the catalog's rows, such as ``zones``."""

    def offer(
        ctx: click.Context, _parameter: click.Parameter, typed: str
    ) -> list[CompletionItem[str]]:
        return offered(_named(ctx, kind), typed)

    return offer


def rows_of_chosen_kind(
    ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    """The names of the rows of the kind that is typed before."""
    kind = ctx.params.get("kind")
    return offered(_named(ctx, kind) if kind else (), typed)


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

    documents: list[Row] = [packaged_rows(f"{kind}.yaml"), _own_document(_root(ctx) / USER_FILE)]
    name, about = _COLUMNS[kind]
    for document in documents:
        found = document.get(kind)
        for row in found if isinstance(found, list) else ():
            if isinstance(row, dict):
                text = " ".join(str(row.get(column, "")) for column in about)
                yield str(row.get(name, "")).removeprefix("sha256:"), text


def offered(named: Iterable[tuple[str, str]], typed: str) -> list[CompletionItem[str]]:
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


def _root(ctx: click.Context) -> Path:
    from tpuflex.project import project_root

    return project_root(ctx.find_root().params.get("project_dir") or Path())


def _own_document(file: Path) -> Row:
    """A file of the project; empty if there is none, or it is no mapping."""
    import yaml

    try:
        with file.open(encoding="utf-8") as text:
            document = yaml.safe_load(text.read(_LONGEST))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return document if isinstance(document, dict) else {}
