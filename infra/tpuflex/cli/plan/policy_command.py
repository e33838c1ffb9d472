"""`tpuflex policy`: the rules that `preview` and `up` hold every plan to."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation


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
        invocation.output.result(str(DIRECTORY))
        return
    invocation.output.table(
        ("RULE", "SEVERITY", "REQUIRES"),
        [(rule.id, rule.severity, rule.requires) for rule in RULES],
    )
    invocation.output.result()
    invocation.output.result(f"CrossGuard pack: {DIRECTORY}")
