"""`tpuflex emulator …`: the embedded cloud on this machine."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click

from tpuflex.cli.completion_values import completion_items
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import Commands, as_json, assume_yes, pass_invocation
from tpuflex.errors import EmulatorError
from tpuflex.stack.emulator import CREDENTIAL_KINDS, CREDENTIALS_VARIABLE, Daemon

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from embedded_cloud.core.address import Address

#: What `strictness` sets as a whole: the names in embedded_cloud.strict.book.PRESETS.
_PRESETS = ("lenient", "strict")


def _capacity(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> Any:
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
    return completion_items([*presets, *((area, "show this area") for area in _areas())], typed)


def _json_object(value: str, example: str) -> dict[str, Any]:
    try:
        document = json.loads(value)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"{error}; write for instance {example}") from error
    if not isinstance(document, dict):
        raise click.BadParameter("a JSON object is expected")
    return document


@click.group(
    cls=Commands,
    examples=(
        "tpuflex emulator start",
        'eval "$(tpuflex emulator env)"  # gcloud and pulumi use it, too',
        "tpuflex emulator stop",
    ),
)
def emulator() -> None:
    """The embedded cloud on this machine.

    One process on loopback that answers as Google's APIs do. `tpuflex up` starts it when a
    stack needs it; its state survives a restart.
    """


@emulator.command(
    examples=(
        "tpuflex emulator start",
        "tpuflex emulator start --strict  # with Google's refusals and delays",
        "tpuflex emulator start --capacity '{\"grant_after_s\": 30}'",
    ),
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port on loopback; 0 picks one.")
@click.option("--capacity", callback=_capacity, metavar="JSON", help="When requests are granted.")
@click.option("--strict", is_flag=True, help="Refuse and delay as Google does: see `strictness`.")
@click.option("--iam", is_flag=True, help="Let bindings decide what users and accounts may do.")
@as_json
@pass_invocation
def start(
    invocation: Invocation,
    port: int | None,
    capacity: dict[str, Any] | None,
    strict: bool,
    iam: bool,
) -> None:
    """Start the embedded cloud, unless it is running already, and say how strict it is.

    --capacity, --strict and --iam also change one that is running. --strict and --iam last until
    it is stopped, or `tpuflex emulator strictness lenient`. Capacity is one JSON object:

    \b
    {"grant_after_s": 30}                         after half a minute
    {"grant_after_polls": 5}                      at the fifth poll
    {"never": true}                               never
    {"zones": {"us-east5-a": {"never": true}}}    per zone
    {"unsupported_zones": ["us-central1-b"]}      zones that refuse Flex-start
    {"quota": {"*": 8, "us-east5-a": {"preemptible": 0, "on_demand": 64}}}
    """
    daemon = Daemon(invocation.home)
    was_running = daemon.address() is not None
    address = daemon.start(port)
    if capacity is not None:
        daemon.call("POST", "capacity", capacity)
    if strict:
        _use_preset(invocation, daemon, "strict")
    if iam:
        daemon.call("POST", "strictness", {"iam": {"enforced": True}})
    how_strict = daemon.strictness()
    invocation.output.document({**_described(address), "strictness": how_strict})
    how = "is already running" if was_running else "is running"
    invocation.output.result(_running(address, how, how_strict))


@emulator.command(
    examples=("tpuflex emulator stop",),
)
@pass_invocation
def stop(invocation: Invocation) -> None:
    """Stop the embedded cloud and every host on it; its state is kept, its strictness is not."""
    stopped = Daemon(invocation.home).stop()
    invocation.output.result(
        "The embedded cloud is stopped." if stopped else "The embedded cloud is not running."
    )


@emulator.command(
    examples=("tpuflex emulator status --json",),
)
@as_json
@pass_invocation
def status(invocation: Invocation) -> None:
    """Show whether the embedded cloud is running, where, how strict, its hosts and all that it
    holds. Exit code 9: it is not running."""
    daemon = Daemon(invocation.home)
    address = daemon.address()
    output = invocation.output
    if address is None:
        output.document({"running": False})
        output.result("The embedded cloud is not running. Start it: tpuflex emulator start")
        click.get_current_context().exit(EmulatorError.exit_code)
    hosts, inventory = daemon.call("GET", "hosts")["hosts"], daemon.call("GET", "inventory")
    capacity, how_strict = daemon.call("GET", "capacity"), daemon.strictness()
    output.document(
        {
            "running": True,
            **_described(address),
            "strictness": how_strict,
            "hosts": hosts,
            "capacity": capacity,
            "inventory": inventory,
        }
    )
    output.result(_running(address, "is running", how_strict))
    for host in hosts:
        output.result(f"  host {host.get('node', host)}")
    if rows := _inventory_rows(inventory):
        output.table(("SERVICE", "KIND", "NAME"), rows)
    else:
        output.result("It holds nothing.")


@emulator.command(
    examples=(
        'eval "$(tpuflex emulator env)"',
        'eval "$(tpuflex --stack prod emulator env --rehearse)"',
    ),
)
@click.option(
    "--credentials",
    type=click.Choice(CREDENTIAL_KINDS),
    help="Which to use: the token that does not expire, or Application Default Credentials.",
)
@click.option(
    "--rehearse", is_flag=True, help="Let stacks for Google run on the embedded cloud, too."
)
@as_json
@pass_invocation
def env(invocation: Invocation, credentials: str | None, rehearse: bool) -> None:
    """Print the variables for a shell: eval "$(tpuflex emulator env)".

    Afterwards gcloud, Google's client libraries and a plain `pulumi` talk to the embedded
    cloud: variables of the shell that lead elsewhere are unset, and requests to this machine
    take no proxy. The project is the stack's, if there is a stack. On an error the last line is
    `false`, so that nothing after `&&` is run.

    `pulumi` uses the stand-in for the gcp plugin, or a published `pulumi-resource-gcp` that is
    on PATH or named by TPUFLEX_GCP_PLUGIN (`stand-in`: neither).

    With --rehearse the shell rehearses, even after an error: `tpuflex` runs stacks made for
    Google on the embedded cloud, says so first, and calls no API of Google. States are kept in
    .tpuflex/rehearsal. gcloud trusts no server but the embedded cloud, and a plain `pulumi`
    stops. What is not covered: `tpuflex docs rehearsal`.

    Other credentials than the token are found as Google's clients find them, by a file below
    .tpuflex or a metadata server, and their tokens expire; tpuflex uses them too, in that shell.
    Google's Python libraries take tokens for `user` and `impersonated` from Google only.
    """
    from tpuflex.cli.emulator.shell_variables import (
        past_proxies,
        rehearsing,
        shell_lines,
        to_forget,
    )
    from tpuflex.engine.gcp_plugin import callers_stand_in, find_gcp_plugin, with_gcp_plugin
    from tpuflex.files.trusted import own_directory
    from tpuflex.stack.rehearsal import Rehearsal

    project = _project(invocation, rehearse=rehearse)
    published = plugin = find_gcp_plugin(invocation.environ)
    daemon = Daemon(invocation.home)
    kind = daemon.credentials_kind(credentials or "")
    if plugin is None and daemon.acts_as_caller(kind):
        plugin = callers_stand_in(invocation.home)
    variables = daemon.environment(project, stand_in=plugin is None, credentials=kind)
    if credentials or plugin is not published:
        variables[CREDENTIALS_VARIABLE] = kind
    if plugin is not None:
        path = {"PATH": invocation.environ.get("PATH", "")}
        variables |= with_gcp_plugin(path, plugin, invocation.home)
    if published is not None:
        invocation.output.progress(f"gcp plugin: {published}, in place of the stand-in.")
    if rehearse:
        url = variables["TPUFLEX_EMULATOR"]
        invocation.output.progress(_rehearsal_begins(url, daemon.strictness()))
        directory = Rehearsal.below(invocation.home).directory
        variables = rehearsing(variables, url, directory)
    variables |= past_proxies(invocation.environ)
    forgotten = to_forget(invocation.environ, variables)
    own_directory(invocation.home / "backend")
    invocation.output.document({**dict.fromkeys(forgotten), **variables})
    for line in shell_lines(variables, forgotten):
        invocation.output.verbatim(line)


@emulator.command(
    examples=("tpuflex emulator reset --yes",),
)
@assume_yes
@pass_invocation
def reset(invocation: Invocation) -> None:
    """Forget everything in the embedded cloud: resources, hosts, logs."""
    from tpuflex.stack.progress import require_consent

    require_consent(invocation.consent, "Forget everything in the embedded cloud?")
    daemon = Daemon(invocation.home)
    daemon.reset()
    running = "" if daemon.address() is None else f"; it is {daemon.strictness()}"
    invocation.output.result(f"The embedded cloud is empty{running}.")


@emulator.command(
    examples=("tpuflex emulator image",),
)
@pass_invocation
def image(invocation: Invocation) -> None:
    """Install vLLM for CPU, which the embedded hosts serve with.

    Downloads about 1 GB once, and takes 3 GB on disk under .tpuflex/vllm.
    """
    from embedded_cloud.machines.image_installation import ensure_image
    from embedded_cloud.machines.images import embedded_image

    installed = ensure_image(embedded_image(), invocation.home, invocation.output.progress)
    invocation.output.result(f"The serving image is installed: {installed.reference}")


@emulator.command(
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
    `strict` and `lenient` set everything. `tpuflex emulator stop` returns to `lenient`;
    `reset` to `strict` if that was set as a whole, else to `lenient`. What this machine
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
    daemon = Daemon(invocation.home)
    if isinstance(change, str) and change in _PRESETS:
        current = _use_preset(invocation, daemon, change)
    elif isinstance(change, str):
        current = daemon.call("GET", "strictness")[change]
    else:
        current = daemon.call("GET" if change is None else "POST", "strictness", change)
    click.echo(json.dumps(current, indent=2))


def _use_preset(invocation: Invocation, daemon: Daemon, preset: str) -> dict[str, Any]:
    """Put a preset in force, and say what of it this machine cannot do."""
    current = daemon.call("POST", f"strictness?preset={preset}")
    if preset == "strict" and not current["hosts"]["own_mounts"]:
        from embedded_cloud.machines import namespace

        invocation.output.progress(
            f"hosts.own_mounts is off: this machine gives its user none ({namespace.refusal()}). "
            "Containers see files of the host that are not mounted, and memory does not fill up."
        )
    return current


def _rehearsal_begins(url: str, strictness: str) -> str:
    text = f"A rehearsal on the embedded cloud at {url}, which is {strictness}."
    if strictness.startswith("strict"):
        return text
    return f"{text} To have it refuse and delay as Google does: tpuflex emulator start --strict"


def _project(invocation: Invocation, *, rehearse: bool) -> str | None:
    """The Google Cloud project of the stack; None where there is no stack file.

    Raises:
        SettingsError: the stack file is wrong, or to ``rehearse`` it, its project is to be written.
    """
    from tpuflex.errors import NotFoundError
    from tpuflex.stack.rehearsal import require_project

    try:
        settings = invocation.open_stack(deploying=False).settings
    except NotFoundError:
        return None
    if rehearse:
        require_project(settings)
    return settings.project


def _running(address: Address, how: str, strictness: str) -> str:
    return f"The embedded cloud {how} at {address.url} (process {address.pid}); it is {strictness}."


def _described(address: Address) -> dict[str, object]:
    """The document of a running embedded cloud."""
    return {
        "url": address.url,
        "pid": address.pid,
        "port": address.port,
        "gcp_plugin_port": address.gcp_plugin_port,
    }


def _inventory_rows(inventory: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Service, kind and name of everything in an inventory of the control API."""
    return [
        (service, kind, _name(resource))
        for service, kinds in inventory.items()
        for kind, resources in (kinds.items() if isinstance(kinds, dict) else ())
        for resource in resources
    ]


def _name(resource: Any) -> str:
    return str(resource.get("name", resource)) if isinstance(resource, dict) else str(resource)
