"""`tpuflex recommend --write STACK`: the first option as a new stack file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.scaffold.google_stack import ANY_PROJECT
from tpuflex.scaffold.image_mirror import mirrored_image
from tpuflex.scaffold.option_stack import comments, heading, stack_sections
from tpuflex.scaffold.project_files import NAME, schema_of
from tpuflex.scaffold.write import require_inside
from tpuflex.settings.load import parse
from tpuflex.settings.model import PLACEHOLDER_PROJECT
from tpuflex.settings.stack_text import stack_text

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.cli.invocation import Invocation
    from tpuflex.planning.recommend import Option


def write_stack(
    invocation: Invocation,
    stack: str,
    options: tuple[Option, ...],
    catalog: Catalog,
    project: str | None,
) -> str:
    """Write the first of ``options`` as the stack file of ``stack``; returns its path.

    Raises:
        click.BadParameter: ``stack`` cannot be the name of a stack.
        NotFoundError: no project directory, or no option that fits, or no image to serve it.
        SettingsError: what would be written breaks a rule of stack files.
        TpuflexError: there is such a stack file already.
    """
    if not NAME.fullmatch(stack):
        raise click.BadParameter(
            "write letters, digits, dots, hyphens and underscores.", param_hint="'--write'"
        )
    best = options[0]
    if best.fit != "fits" or not best.zones:
        reason = best.obstacle or "no zone is known for it"
        raise NotFoundError(f"Nothing fits that could be written: {reason}")
    place = invocation.project
    file = place.stacks / f"Pulumi.{stack}.yaml"
    require_inside(file, place.root)
    # No stack is deployed with the placeholder, so another project stands for it in the check.
    checked = _sections(best, catalog, project or ANY_PROJECT)
    parse(
        {**checked, "catalog": catalog.own.model_dump(mode="json", exclude_defaults=True)},
        file.name,
    )
    text = stack_text(
        _sections(best, catalog, project or PLACEHOLDER_PROJECT),
        heading(best, stack),
        comments=comments(best, stack, project or PLACEHOLDER_PROJECT),
        schema=schema_of(place.root, place.stacks),
    )
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise TpuflexError(
            f"{file} is there already, and is never overwritten.",
            hint="Choose another name for --write, or delete it first.",
        ) from None
    return str(file.relative_to(place.root))


def _sections(option: Option, catalog: Catalog, project: str) -> dict[str, object]:
    image = mirrored_image(catalog, project=project, zone=option.zones[0])
    return stack_sections(option, image, project)
