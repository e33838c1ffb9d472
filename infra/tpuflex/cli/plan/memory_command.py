"""`tpuflex memory`: whether a model fits on chips, and what is left for its cache."""

from __future__ import annotations

from pathlib import Path

import click

from tpuflex.cli.completion_values import rows
from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import FiniteRange, as_json, pass_invocation, stack_name

_AT_LEAST_1 = click.IntRange(min=1)


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex --stack prod memory",
        "tpuflex memory --model google/gemma-4-31B-it --accelerator v6e-8",
        "tpuflex memory --model-dir ./my-model --accelerator v6e-1 --max-model-len 8192",
        "tpuflex memory --model-dir ./my-model --row  # its row for catalog.yaml",
    ),
)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=rows("models"),
    help="A model of the catalog, instead of the stack's.",
)
@click.option(
    "--model-dir",
    metavar="DIR",
    help="A checkpoint instead of the stack's model: a directory, gs://BUCKET/PREFIX, or "
    "hf://OWNER/NAME. Only its configuration and the headers of its safetensors files are read.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A Hugging Face config.json, instead of the stack's model.",
)
@click.option(
    "--row",
    is_flag=True,
    help="Print the checkpoint's row for catalog.yaml, and no plan.",
)
@click.option(
    "--accelerator",
    metavar="TYPE",
    shell_complete=rows("accelerators"),
    help="An accelerator type, such as v6e-4, instead of the stack's.",
)
@click.option(
    "--tensor-parallel-size",
    "--tp",
    type=_AT_LEAST_1,
    help="Chips that share each layer.  [default: all chips]",
)
@click.option("--max-model-len", type=_AT_LEAST_1, help="Longest sequence, in tokens.")
@click.option("--max-num-seqs", type=_AT_LEAST_1, help="Most sequences in one step.")
@click.option("--max-num-batched-tokens", type=_AT_LEAST_1, help="Most tokens in one step.")
@click.option(
    "--kv-cache-dtype",
    type=click.Choice(["auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]),
    help="Data type of the KV cache.",
)
@click.option(
    "--gpu-memory-utilization",
    type=FiniteRange(min=0, max=1, min_open=True),
    help="Share of a chip's memory for weights and KV cache.",
)
@click.option("--block-size", type=_AT_LEAST_1, help="Tokens in a block of the KV cache.")
@stack_name
@as_json
@pass_invocation
def memory(
    invocation: Invocation,
    /,
    model: str | None,
    model_dir: str | None,
    config: Path | None,
    row: bool,
    accelerator: str | None,
    **flags: str | int | float | None,
) -> int:
    """Show what a chip's memory will hold, and whether the model fits.

    Needs no cloud. Plans the stack, with the options in place of what its file says; with a model
    and an accelerator no stack is read, and what is not given is vLLM's default. Each figure is per
    chip; docs/memory.md says how they come about and what was seen of them.

    Exit code 5 if it does not fit, 4 if that is not known, 7 if a checkpoint's files are damaged or
    of an architecture that tpuflex has no rule for.
    """
    from tpuflex.cli.plan.memory import run_memory, show_row
    from tpuflex.cli.plan.memory_choice import MemoryChoice, checkpoint_place

    if sum(choice is not None for choice in (model, model_dir, config)) > 1:
        raise click.UsageError("Write one of --model, --model-dir and --config.")
    checkpoint = config if model_dir is None else checkpoint_place(model_dir)
    if row:
        if checkpoint is None:
            raise click.UsageError("--row is about a checkpoint: add --model-dir or --config.")
        return show_row(invocation, checkpoint)
    given = {name: value for name, value in flags.items() if value is not None}
    choice = MemoryChoice(model, checkpoint, accelerator, given)
    return run_memory(invocation, choice)
