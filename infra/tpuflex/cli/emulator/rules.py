"""`tpuflex emulator strictness`, and the rule of capacity: when it grants, refuses and delays."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from tpuflex.cli.completion_values import offered
from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import pass_invocation
from tpuflex.stack.emulator import Daemon

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: What `strictness` sets as a whole: the names in embedded_cloud.strict.book.PRESETS.
_PRESETS = ("lenient", "strict")


def capacity_rule(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> Any:
    """Read a capacity rule given as JSON."""
    return None if value is None else _json_object(value, '{"grant_after_s": 30}')


def _strictness(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> Any:
    """Read the name of a preset or of an area, or a change given as JSON."""
    if value is None or value in (*_PRESETS, *_areas()):
        return value
    if not value.lstrip().startswith("{"):
        raise click.BadParameter(
            f"{value!r} is none of {', '.join((*_PRESETS, *_areas()))}, and no JSON object"
        )
    return _json_object(value, '{"apis": {"enforced": true}}')


def _areas() -> tuple[str, ...]:
    """The areas of strictness."""
    from embedded_cloud.core.strictness import Strictness

    return tuple(each.name for each in dataclasses.fields(Strictness))


def _presets_and_areas(
    _ctx: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    """What can be typed without a quote."""
    presets = [(name, "in every area") for name in _PRESETS]
    return offered([*presets, *((area, "show this area") for area in _areas())], typed)


def _json_object(value: str, example: str) -> dict[str, Any]:
    import json

    try:
        document = json.loads(value)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"{error}; write for instance {example}") from error
    if not isinstance(document, dict):
        raise click.BadParameter("a JSON object is expected")
    return document


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex emulator strictness strict",
        "tpuflex emulator strictness iam  # what is in force in one area",
        'tpuflex emulator strictness \'{"apis": {"enforced": true}}\'',
    ),
)
@click.argument("change", required=False, callback=_strictness, shell_complete=_presets_and_areas)
@pass_invocation
def strictness(invocation: Invocation, change: str | dict[str, Any] | None) -> None:
    """Show which of Google's refusals and delays are imitated, or CHANGE it (JSON).

    The name of an area shows that area alone. What is not named in a change stays as it is;
    `strict` and `lenient` set everything. Kept over restarts;
    `reset` returns to `strict` if that was set as a whole, else to `lenient`. What this machine
    cannot do is refused; `strict` goes without it, and says so.

    \b
    strict                              as Google, in every area
    lenient                             nothing is refused or delayed
    {"apis": {"enforced": true}}        APIs answer only where they are enabled
    {"apis": {"answers_after_s": 60}}   ... and only a minute later
    {"billing": {"enabled": false}}     no project has a billing account
    {"iam": {"enforced": true}}         a caller needs a binding (`start --iam`)
    {"iam": {"takes_effect_after_s": 120}}  ... and two minutes
    {"organization_policies": {"constraints": {"compute.vmExternalIpAccess": "deny_all"}}}
    """
    import json

    daemon = Daemon(invocation.home)
    if isinstance(change, str) and change in _PRESETS:
        current = use_preset(invocation, daemon, change)
    elif isinstance(change, str):
        current = daemon.call("GET", "strictness")[change]
    else:
        current = daemon.call("GET" if change is None else "POST", "strictness", change)
    click.echo(json.dumps(current, indent=2))


def use_preset(invocation: Invocation, daemon: Daemon, preset: str) -> dict[str, Any]:
    """Put a preset in force, and say what of it this machine cannot do."""
    current = daemon.call("POST", f"strictness?preset={preset}")
    if preset == "strict" and not current["hosts"]["own_mounts"]:
        from embedded_cloud.machines import namespace

        invocation.output.progress(
            f"hosts.own_mounts is off: this machine gives its user none ({namespace.refusal()}). "
            "Containers see files of the host that are not mounted, and memory does not fill up."
        )
    return current
