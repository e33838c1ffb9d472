"""`tpuflex validate`, `recommend`, `memory`, `catalog`, `cost`, `policy`, `render`: plans without a
cloud; and `zones`, which asks one."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from pathlib import Path

import click

from tpuflex.catalog import KINDS
from tpuflex.cli.completion_values import rows, rows_of_chosen_kind, scenarios
from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import FiniteRange, Tokens, as_json, pass_invocation, stack_name, verbose
from tpuflex.errors import NotFoundError, SettingsError

#: The word of --scenario that lists them.
_LIST = "list"


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex validate  # every stack file of the project",
        "tpuflex validate stacks/Pulumi.prod.yaml",
        "tpuflex validate --changed origin/main --json",
    ),
)
@click.argument(
    "files", nargs=-1, metavar="[FILE]...", type=click.Path(dir_okay=False, path_type=Path)
)
@click.option(
    "--changed",
    metavar="[REF]",
    is_flag=False,
    flag_value="HEAD",
    help="Those that differ from where the branch left this Git reference, such as origin/main."
    "  [default: HEAD]",
)
@as_json
@pass_invocation
def validate(invocation: Invocation, files: tuple[Path, ...], changed: str | None) -> int:
    """Check stack files, and print each finding with file, line and column.

    Needs no account and no network, opens no secret and builds nothing, so it can run before each
    commit (.pre-commit-hooks.yaml) and in CI. Without FILE it checks all stack files of the
    project; with Pulumi.yaml or catalog.yaml, all that it applies to. What cannot be known offline,
    such as environments of Pulumi ESC, is listed as not looked at; what may be wrong is a warning.
    Neither is a finding.

    Exit code 5 if something is wrong, 4 if there is no such file.
    """
    from tpuflex.deploy.validation import changed_stack_files, project_stack_files
    from tpuflex.deploy.validation import validate as validate_files

    if changed is not None and files:
        raise click.UsageError("Write files, or --changed.")
    if changed is not None:
        files = changed_stack_files(invocation.project, changed, invocation.environ)
    elif not files:
        files = project_stack_files(invocation.project)
    found = validate_files(files, invocation.environ)
    output = invocation.output
    output.document(found.to_json())
    for each in found.findings:
        output.result(str(each))
    for each in found.warnings:
        output.progress(f"warning: {each}")
    for file, what in found.not_looked_at:
        output.progress(f"{file}: not looked at: {what}")
    if not found.findings:
        checked = len(found.files)
        output.progress(
            f"Nothing is wrong: {checked} stack file{'' if checked == 1 else 's'} checked."
        )
    return SettingsError.exit_code if found.findings else 0


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex recommend  # for the model and the load of the dev stack",
        "tpuflex recommend --model google/gemma-4-31B-it --context 16K --concurrency 8",
        "tpuflex recommend --scenario list",
    ),
)
@click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    shell_complete=rows("models"),
    help="Hugging Face id; may be repeated.  [default: the stack's]",
)
@click.option(
    "--model-dir",
    "directories",
    metavar="DIR",
    multiple=True,
    help="A checkpoint, ranked by its files: a directory, gs://BUCKET/PREFIX, or hf://OWNER/NAME;"
    " may be repeated.",
)
@click.option(
    "--context",
    type=Tokens(1, 10_000_000),
    metavar="TOKENS",
    help="Tokens of the longest sequence, prompt and answer together, such as 16384 or 16K."
    "  [default: the stack's, or 16K]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Sequences at once.  [default: the stack's, or 8]",
)
@click.option(
    "--ttft",
    type=FiniteRange(min=0, min_open=True, max=86_400),
    metavar="SECONDS",
    help="Seconds within which the first token is wanted.",
)
@click.option("--budget", metavar="USD", help="US dollars per hour for chips.")
@click.option(
    "--scenario",
    metavar="NAME",
    shell_complete=scenarios,
    help="A row of a published decision matrix; `list` lists them.",
)
@stack_name
@as_json
@verbose
@pass_invocation
def recommend(
    invocation: Invocation,
    models: tuple[str, ...],
    directories: tuple[str, ...],
    context: int | None,
    concurrency: int | None,
    ttft: float | None,
    budget: str | None,
    scenario: str | None,
) -> int:
    """Rank chips for a model and a load, with price, limits and evidence.

    Without --model and --scenario, in a project, for the model and the load of the stack.
    Every figure names its source. Fit is computed by the memory planner; limits are ceilings that
    no server passes, not predictions; published measurements are quoted as they stand. What is not
    known is said to be not known. --scenario fills in what a published decision matrix says, and
    other options override it; for some scenarios tpuflex is not the answer, and it says what is.

    A stack is one slice of one host: where it holds fewer sequences than are wanted, the price is
    that of as many stacks as hold all of them. Where nothing fits, it says what comes nearest.

    Exit code 5 if nothing fits, or nothing within the budget; 4 if that is not known, or a model or
    scenario is not.
    """
    from tpuflex.cli.plan.recommend import show_recommendation, show_scenarios
    from tpuflex.sizing import (
        CheckpointReader,
        Workload,
        checkpoint_place,
        known_rows,
        recommendation_for,
    )

    output = invocation.output
    if scenario == _LIST:
        if any((models, directories, context, concurrency, ttft, budget)):
            raise click.UsageError("`--scenario list` lists the scenarios and takes nothing else.")
        show_scenarios(output)
        return 0
    workload = Workload(
        models=models,
        checkpoints=tuple(map(checkpoint_place, directories)),
        context=context,
        concurrency=concurrency,
        ttft=ttft,
        budget=_budget(budget),
        scenario=scenario,
    )
    catalog = invocation.catalog
    if workload.needs_stack:
        try:
            settings = invocation.open_stack(deploying=False, by_catalog=True).settings
            workload, catalog = workload.of_stack(settings), known_rows(settings)
        except NotFoundError:
            if invocation.chosen_stack:
                raise
    reader = CheckpointReader(invocation.environ, invocation.now().date(), output.progress)
    return show_recommendation(output, recommendation_for(workload, catalog, reader))


def _budget(text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        amount = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(0)
    if not amount.is_finite() or not 0 < amount < 1_000_000:
        raise click.BadParameter(
            "write US dollars per hour, such as 6 or 5.40.", param_hint="'--budget'"
        )
    return amount


_AT_LEAST_1 = click.IntRange(min=1)
_TOKENS = Tokens(min=1)


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
@click.option(
    "--max-model-len", type=_TOKENS, help="Longest sequence, in tokens, such as 16384 or 16K."
)
@click.option("--max-num-seqs", type=_AT_LEAST_1, help="Most sequences in one step.")
@click.option("--max-num-batched-tokens", type=_TOKENS, help="Most tokens in one step.")
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
    chip; `tpuflex docs memory` says how they come about and what was seen of them.

    Exit code 5 if it does not fit, 4 if that is not known, 7 if a checkpoint's files are damaged or
    of an architecture that tpuflex has no rule for.
    """
    from tpuflex.cli.plan.memory import show_memory, show_row
    from tpuflex.sizing import CheckpointReader, MemoryChoice, checkpoint_place, memory_report

    if sum(choice is not None for choice in (model, model_dir, config)) > 1:
        raise click.UsageError("Write one of --model, --model-dir and --config.")
    checkpoint = config if model_dir is None else checkpoint_place(model_dir)
    output, today = invocation.output, invocation.now().date()
    if row:
        if checkpoint is None:
            raise click.UsageError("--row is about a checkpoint: add --model-dir or --config.")
        reader = CheckpointReader(invocation.environ, today, output.progress)
        show_row(output, reader.read(checkpoint).model)
        return 0
    given = {name: value for name, value in flags.items() if value is not None}
    choice = MemoryChoice(model, checkpoint, accelerator, given)
    stack = None
    if choice.needs_stack:
        stack = invocation.open_stack(deploying=False, by_catalog=True)
    catalog = invocation.catalog if stack is None else stack.settings.catalog
    reader = CheckpointReader(invocation.environ, today, output.progress, stack)
    report = memory_report(choice, catalog, reader)
    return show_memory(output, report, chosen_by_name=model is not None)


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex catalog zones  # where which chips are granted",
        "tpuflex catalog accelerators v6e-4  # one row, with its sources",
        "tpuflex catalog prices --json  # rows as catalog.yaml has them",
    ),
)
@click.argument("kind", required=False, type=click.Choice(KINDS))
@click.argument("name", required=False, shell_complete=rows_of_chosen_kind)
@stack_name
@as_json
@pass_invocation
def catalog(invocation: Invocation, kind: str | None, name: str | None) -> None:
    """Show what is known of accelerators, zones, prices, models and images.

    Every row says where it comes from and when that was read or observed; what is not known is
    shown as "?". Without KIND, count the rows; with KIND, list them; with NAME (an accelerator
    type, a zone, a region, a model, an image's digest or its beginning), show everything about it.

    Rows of your own in catalog.yaml beside Pulumi.yaml add to the catalog or replace its rows, and
    are marked with "*". With --stack, so do those in the stack file's tpuflex:catalog. With --json
    the rows are as such a file holds them (JSON is YAML), so one can be copied and changed; "own"
    repeats yours.

    Exit codes: 4 if there is no such row, 5 if a row of yours is wrong.
    """
    from tpuflex.catalog.listing import listing
    from tpuflex.cli.plan.catalog import show_catalog

    if invocation.chosen_stack:
        known = invocation.open_stack(deploying=False, by_catalog=True).settings.catalog
    else:
        known = invocation.catalog
    show_catalog(invocation.output, listing(known, kind, name), kind, name)


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex zones  # for the accelerator of the dev stack",
        "tpuflex --stack prod zones v6e-8",
        "tpuflex zones v6e-4 --project my-project-id  # before there is a stack",
    ),
)
@click.argument("accelerator", required=False, shell_complete=rows("accelerators"))
@click.option(
    "--project",
    metavar="ID",
    help="Google Cloud project to ask about, where there is no stack for it.",
)
@stack_name
@as_json
@pass_invocation
def zones(invocation: Invocation, accelerator: str | None, project: str | None) -> int:
    """Compare the zones for an accelerator: offer, quota, price, what was seen.

    Asks about every zone that the catalog has for ACCELERATOR, by default the stack's: whether it
    is offered there, how much quota of both pools the project has, what it costs with Flex-start,
    and what was last seen of Flex-start there, in this project or by the catalog. The best zones
    come first. A zone that does not answer is shown with the reason. It changes nothing and costs
    nothing.

    \b
    OFFERED      "no runtime": it has the chips, and not the runtime version
    FLEX-START   "active here", "failed here", …: of this project's newest
                 request; else the catalog's word: documented, observed, refused,
                 or hardware (there are such chips, nobody has tried)

    A quota is a limit on what may be asked for. Whether there are chips to be had, no API tells.

    Exit code 0 if a zone offers it and has quota, or may; 6 if the quota is too small in all that
    offer it, 5 if none does, 4 if the catalog does not have it. If no zone answers, for one reason,
    that of the reason.
    """
    from tpuflex.cli.plan.zones import is_project, show_zones, zones_of_project, zones_of_stack

    if project is None:
        return show_zones(invocation.output, zones_of_stack(invocation, accelerator))
    if invocation.chosen_stack:
        raise click.UsageError("Write --project or --stack: a stack has a project.")
    if accelerator is None:
        raise click.UsageError("With --project, write an accelerator type, such as v6e-4.")
    if not is_project(project):
        raise click.BadParameter("write the id of a project.", param_hint="'--project'")
    return show_zones(invocation.output, zones_of_project(invocation, accelerator, project))


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex cost  # the dev stack",
        "tpuflex --stack prod cost --tokens-per-second 900 --busy 40",
    ),
)
@click.option(
    "--tokens-per-second",
    type=FiniteRange(min=0, min_open=True, max=1e12),
    metavar="N",
    help="Throughput that you measured or assume, for the price of a million tokens.",
)
@click.option(
    "--basis",
    metavar="TEXT",
    help="Where that throughput comes from, such as how you measured it.  [default: assumed]",
)
@click.option(
    "--busy",
    type=FiniteRange(min=0, min_open=True, max=100),
    metavar="PERCENT",
    help="Share of the time with that throughput; the rest is idle and paid as well."
    "  [default: 100]",
)
@stack_name
@as_json
@pass_invocation
def cost(
    invocation: Invocation, tokens_per_second: float | None, basis: str | None, busy: float | None
) -> None:
    """Show what the stack costs per hour, run, day and million tokens.

    Needs no cloud. For another model or other chips: `tpuflex recommend`.

    Chips are billed while the slice exists, whether or not it serves. The price of
    a million tokens is that of your own throughput, and beside it are the ceilings of arithmetic
    and of the memory's bandwidth; a throughput above what the chips can compute is flagged.
    """
    from tpuflex.cli.plan.cost import show_cost
    from tpuflex.planning.stack_cost import cost_report
    from tpuflex.planning.token_cost import Throughput

    given = None
    if tokens_per_second is not None:
        given = Throughput(tokens_per_second, (busy or 100) / 100, basis or "assumed")
    elif basis is not None or busy is not None:
        raise click.UsageError("--basis and --busy say something of --tokens-per-second.")
    stack = invocation.open_stack(deploying=False, by_catalog=True)
    show_cost(invocation.output, cost_report(stack.name, stack.settings, given))


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex policy",
        'pulumi preview --policy-pack "$(tpuflex policy --pack)"  # with plain Pulumi',
    ),
)
@click.option("--pack", is_flag=True, help="Print only the directory of the CrossGuard pack.")
@as_json
@pass_invocation
def policy(invocation: Invocation, pack: bool) -> None:
    """List the rules of policy, and where their CrossGuard pack is.

    `tpuflex preview` and `tpuflex up` hold every plan to them, and so does plain Pulumi with
    `pulumi preview --policy-pack DIRECTORY`. A rule that is broken ends `preview` and `up` with
    exit code 11, unless tpuflex:waivers in the stack file accepts the breach. Needs no cloud.
    """
    from tpuflex.policy.rows import RULES
    from tpuflex.policy_pack import DIRECTORY

    invocation.output.document(
        {"rules": [rule.to_json() for rule in RULES], "policy_pack": str(DIRECTORY)}
    )
    if pack:
        invocation.output.verbatim(str(DIRECTORY))
        return
    invocation.output.table(
        ("RULE", "SEVERITY", "REQUIRES"),
        [(rule.id, rule.severity, rule.requires) for rule in RULES],
    )
    invocation.output.result()
    invocation.output.result(f"CrossGuard pack: {DIRECTORY}")


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex render --part config",
        "tpuflex render --part script > startup.sh",
    ),
)
@click.option(
    "--part",
    type=click.Choice(["all", "script", "config"]),
    default="all",
    show_default=True,
    help="What to print: the startup script, the configuration document, or both.",
)
@stack_name
@as_json
@pass_invocation
def render(invocation: Invocation, part: str) -> None:
    """Print what the host boots with: startup script and configuration.

    Needs no cloud. The script is the same for every stack; everything that varies is in the
    configuration, which the host reads from the metadata key tpuflex-config. Where the stack file
    pins no weights, `manifest_sha256` is all zeros here: `up` finds it out.
    """
    from tpuflex.boot.config import boot_config
    from tpuflex.boot.document import NO_MANIFEST
    from tpuflex.boot.metadata import node_metadata

    stack = invocation.open_stack()
    weights = stack.settings.model.weights.manifest_sha256 or NO_MANIFEST
    metadata = node_metadata(boot_config(stack.settings, stack.names, weights))
    config = json.dumps(json.loads(metadata["tpuflex-config"]), indent=2)
    output = invocation.output
    output.document(metadata)
    if part == "all":
        output.result(f"# metadata key tpuflex-config\n{config}\n\n# metadata key startup-script")
    elif part == "config":
        output.verbatim(config)
    if part != "config":
        output.verbatim(metadata["startup-script"])
