"""`tpuflex init`: a new project, or a new stack in a project."""

from __future__ import annotations

from pathlib import Path

import click

from tpuflex.cli.completion_values import rows, templates
from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex init demo --cloud embedded  # no account: a small model on this machine",
        "tpuflex init --template gemma-4-e4b-v6e-1  # a stack that comes with tpuflex",
        "tpuflex init --stack prod --model google/gemma-4-E4B-it --accelerator v6e-1",
        "tpuflex init --from values.yaml  # another tool's configuration",
    ),
)
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@stack_name
@click.option("--name", help="Name of a new project.  [default: the directory's]")
@click.option(
    "--cloud",
    type=click.Choice(("embedded", "google")),
    help="Where the stack runs: on this machine, or on Google Cloud.",
)
@click.option(
    "--template",
    metavar="STACK",
    shell_complete=templates,
    help="Begin with a stack that comes with tpuflex.",
)
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Begin with what starts vLLM elsewhere: a command or script with `vllm serve` or `docker"
    " run`, a manifest of Kubernetes, a file of Compose, a task of dstack or SkyPilot, Helm-style"
    " values, or YAML with `inference:`. What is not carried over is named.",
)
@click.option("--project", metavar="ID", help="Google Cloud project.")
@click.option(
    "--model", metavar="NAME", shell_complete=rows("models"), help="Hugging Face id of the model."
)
@click.option(
    "--accelerator",
    metavar="TYPE",
    shell_complete=rows("accelerators"),
    help="Accelerator type, such as v6e-4.",
)
@click.option(
    "--zone",
    "zones",
    multiple=True,
    metavar="ZONE",
    shell_complete=rows("zones"),
    help="Zone; may be repeated.",
)
@click.option("--run", metavar="DURATION", help="Longest run, such as 4h.")
@click.option(
    "--weights",
    metavar="SOURCE",
    help="Where the weights come from: a directory on this machine, relative to the project, or"
    " hf://OWNER/NAME@COMMIT.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any setting, such as serving.flags.max_num_seqs=32; null removes it. May be repeated.",
)
@assume_yes
@as_json
@pass_invocation
def init(
    invocation: Invocation,
    directory: Path | None,
    name: str | None,
    cloud: str | None,
    template: str | None,
    source: Path | None,
    project: str | None,
    model: str | None,
    accelerator: str | None,
    zones: tuple[str, ...],
    run: str | None,
    weights: str | None,
    changes: tuple[str, ...],
) -> None:
    """Make a new project, or a new stack in this one, by questions or options.

    Without Pulumi.yaml in DIRECTORY (by default the current one, or the project above it) this
    writes one, with the program and what git shall ignore; in a project, a stack file only. The
    stack is checked as `up` checks it before anything is written, and no file is ever changed.

    What is not given is asked; --yes takes what has a default, and goes on without those keys of
    --from that are refused. A variable that the file of --from leaves open is asked for, or set
    before the command: TP=4 tpuflex init --from serve.sh.

    Exit codes: 5 if the stack would be wrong, 2 if something is missing and there is no terminal to
    ask on.
    """
    from tpuflex.cli.project.init import InitOptions, run_init

    options = InitOptions(
        directory=directory,
        name=name,
        cloud=cloud,
        template=template,
        source=source,
        project=project,
        model=model,
        accelerator=accelerator,
        zones=zones,
        run=run,
        weights=weights,
        changes=changes,
    )
    run_init(invocation, options)
