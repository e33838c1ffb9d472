"""Aliases of an endpoint: Pulumi keeps its state under another URN, and its names in the cloud are
made of project, stack and name. Without its old names all of it would be made anew. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pulumi

from tpuflex.naming import Names


def require_kept_names(
    given: Names | None, made: Names, aliases: Iterable[pulumi.Input[pulumi.Alias | str]]
) -> None:
    """Check that an alias keeps what it is there to keep.

    Args:
        given: the names that the program gives the endpoint; None if it gives none.
        made: the names that it has without them.
        aliases: what else it was called.

    Raises:
        pulumi.RunError: an alias is of another project, stack or name, and the names in the cloud
            would not be those that it had there.
    """
    for before in () if given is not None else _before(made, aliases):
        if before.prefix != made.prefix:
            words = [before.project, before.stack, before.name]
            words += [before.bucket_suffix] if before.bucket_suffix else []
            arguments = ", ".join(f'"{word}"' for word in words)
            raise pulumi.RunError(
                f'{made.name}: it has an alias of "{before.name}" in stack {before.stack} of'
                f" {before.project}, but without names= everything of it is called"
                f" {made.prefix}-… from now on: the slice, the network, the bucket with its"
                " weights and the secrets would be replaced. Nothing was changed.\nWrite"
                f" names=tpuflex.Names({arguments}) in its VllmEndpointArgs (in another language,"
                " the same in its input `names`), and everything stays; or remove the alias, and"
                " another endpoint is made in its place."
            )


def _before(made: Names, aliases: Iterable[pulumi.Input[pulumi.Alias | str]]) -> Iterator[Names]:
    """The names that belong to ``aliases``, as far as they are known now."""
    for alias in aliases:
        if isinstance(alias, str):
            # urn:pulumi:STACK::PROJECT::TYPE::NAME (https://www.pulumi.com/docs/iac/concepts/resources/names/#urns)
            stack, project, _, name = [*alias.split("::", 3), "", "", ""][:4]
            if name:
                stack = stack.removeprefix("urn:pulumi:")
                yield replace(made, project=project, stack=stack, name=name)
        elif isinstance(alias, pulumi.Alias):
            # What an alias leaves out is an Ellipsis.
            parts = {key: getattr(alias, key) for key in ("project", "stack", "name")}
            yield replace(made, **{k: v for k, v in parts.items() if isinstance(v, str)})
