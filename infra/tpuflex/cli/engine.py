"""`tpuflex engine`: which Pulumi engine is used, and why."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex engine",
        "tpuflex engine --install  # build it now, and not at the first `up`",
    ),
)
@click.option("--install", is_flag=True, help="Install one if there is none.")
@as_json
@pass_invocation
def engine(invocation: Invocation, install: bool) -> None:
    """Show which Pulumi engine is used, and why.

    Tried in this order: `pulumi` on PATH, one built here earlier, a build from its Go module,
    whose parts are all known by their checksums.
    """
    from tpuflex.engine.find import WAYS_OUT, ensure, search
    from tpuflex.errors import EngineError

    output = invocation.output
    if install:
        ensure(invocation.home, invocation.environ, output.progress)
    result = search(invocation.home, invocation.environ)
    output.document(result.to_json())
    for candidate in result.candidates:
        mark = "*" if candidate.taken else " "
        version = f" {candidate.version}" if candidate.version else ""
        output.result(f"{mark} {candidate.source:5}  {candidate.location}{version}")
        output.result(f"         {candidate.reason}")
    if result.engine is None:
        raise EngineError("There is no Pulumi engine yet.", hint=WAYS_OUT)
