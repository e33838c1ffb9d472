"""`tpuflex recommend --write STACK`: the first option as a new stack file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.planning.option_stack import comments, heading, newest_image, stack_sections
from tpuflex.scaffold.write import require_inside
from tpuflex.settings.load import parse
from tpuflex.settings.model import PLACEHOLDER_PROJECT
from tpuflex.settings.stack_text import stack_text

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.cli.invocation import Invocation
    from tpuflex.planning.recommend import Option

#: Stack names that are file names, and that Pulumi takes.
_STACK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Stands for the placeholder while the stack is checked: no stack is deployed with that one.
_ANY_PROJECT = "any-project"
_SCHEMA = "docs/stack.schema.json"


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
    if not _STACK_NAME.fullmatch(stack):
        raise click.BadParameter(
            "write letters, digits, dots, hyphens and underscores.", param_hint="'--write'"
        )
    best = options[0]
    if best.fit != "fits" or not best.zones:
        reason = best.obstacle or "no zone is known for it"
        raise NotFoundError(f"Nothing fits that could be written: {reason}")
    image = newest_image(catalog.images.values())
    if image is None:
        raise NotFoundError(
            "The catalog has no image of vllm/vllm-tpu to serve it with.",
            hint="Add one to catalog.yaml: repository, digest, vllm_version.",
        )
    place = invocation.project
    file = place.stacks / f"Pulumi.{stack}.yaml"
    require_inside(file, place.root)
    checked = stack_sections(best, image, project or _ANY_PROJECT)
    parse(
        {**checked, "catalog": catalog.own.model_dump(mode="json", exclude_defaults=True)},
        file.name,
    )
    sections = stack_sections(best, image, project or PLACEHOLDER_PROJECT)
    schema = place.root / _SCHEMA
    text = stack_text(
        sections,
        heading(best, stack),
        comments=comments(best, stack),
        schema=f"../{_SCHEMA}" if schema.is_file() and place.stacks.parent == place.root else None,
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
