"""The text of docs/policy.md, from the rows of the rules."""

from __future__ import annotations

from tpuflex.policy.rows import RULES, Rule

_HEAD = """\
# Policy

The table is generated from `tpuflex.policy.rows` by `make docs`; do not edit.

`tpuflex preview` and `tpuflex up` hold every plan to these rules: every resource as it will be,
changed or not. A program of your own, with resources beside the endpoint, is held to them by the
[CrossGuard pack](#the-same-rules-in-plain-pulumi). `tpuflex policy` lists them.
What the stack file itself may say is checked before, with exit code 5. Nothing is created where a
rule refuses.

| | `preview` | `up` |
| --- | --- | --- |
| a mandatory rule is broken | shows the whole plan, exits with 11 | refuses first, exits with 11 |
| it is waived | shows it as waived | the same |
| an advisory finding, or one that is known only after the update | shows it | shows it |
| a waiver has expired, or is wrong | exits with 5, by its key | the same |

`--json` has `policy`: `refused`, `findings` (`rule`, `severity`, `resource`, `type`, `text`,
`remedy`, `waived`) and `idle_waivers`. An `up` that has nothing to change refuses nothing.
"""
_WAIVERS = """\
## Waivers

```yaml
config:
  tpuflex:waivers:
    - rule: no-external-address
      resource: bastion            # logical name, * allowed; left out: every resource
      reason: the bastion of the platform team, reviewed by A. Example
      until: "2026-12-31"          # its last day, by UTC
```

All but `resource` is required; `until` is in quotes. An unknown rule, an empty reason and a date
that has passed are errors; the last for `preview` and `up` alone, so that what runs can be looked
at and taken down. A waiver that waives nothing is told.
"""
_BUDGET = """\
## Budget

```yaml
config:
  tpuflex:budget:
    per_run_usd: 50        # chips x price x max_run_duration of this stack
    per_project_usd: 500   # with all other runs in the Google Cloud project, each to its end
```

Both count chips only, by the catalog's prices. A run without a known price is refused where a cap
is set. For the second, `preview` and `up` read the queued resources and nodes of the project: in
the zones of the stack, and in all others as far as the API lists them at once. What cannot be
read or priced (a zone that does not answer, a node that nothing ends, another kind of TPU) is
told and does not refuse. It is a look at one moment: two `up` that begin together do not see each
other. A Google Cloud budget alert is the second line of defence, and only that sees the bill.
"""
_PACK = """\
## The same rules in plain Pulumi

The CrossGuard pack holds `pulumi preview` and `pulumi up` to the same rules, with the same waivers,
from the same stack file; `tpuflex policy` prints its directory. It has an environment of its own,
because pulumi-policy 1.21.0 asks for protobuf 5.29, and grpcio-status, which tpuflex needs, for 6:

```sh
pack=$(tpuflex policy --pack)
python3 -m venv ~/.tpuflex-policy && . ~/.tpuflex-policy/bin/activate
pip install -r "$pack/requirements.txt"
pulumi preview --policy-pack "$pack"
```

"""
_PACK_LIMITS = """\
What a preview did not know yet it judges during the update. What it does otherwise:

- Other runs of the project are not asked for: `budget-per-project` counts this run alone, and says
  so.
- pulumi-policy hands it secrets in clear, so of `secret-by-reference` it sees known forms of
  credentials (keys, tokens) and not every Pulumi secret in metadata.
- It runs in the pack's directory, so it does not read `catalog.yaml`: rows that a policy needs
  stand under `tpuflex:catalog`. Settings that it cannot read are told, and no waiver holds then.
- `bucket-region` and the budgets need the whole plan: in an update they come after the resources,
  so look at the preview first, as Pulumi does by default.

Run by the tests: the pack under the engine, started as the script `pulumi-analyzer-policy-python`
of Pulumi's releases starts it. Not run: started by Pulumi's language host for Python, which cannot
be had as a Go module; the pack is the same program there, and its configuration comes another way.

`make acceptance AREA=policy` also compares the pack's word with that of `tpuflex preview` for every
spelling in `tests/policy/cases.py`.
"""


def policy_reference() -> str:
    """The document."""
    return "\n".join([_HEAD, _table(), "", _WAIVERS, _BUDGET, _PACK + _PACK_LIMITS])


def _table() -> str:
    lines = ["## Rules", "", "| rule | requires | because | see |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *map(_row, RULES)])


def _row(rule: Rule) -> str:
    name = f"`{rule.id}`" + ("" if rule.severity == "mandatory" else f" ({rule.severity})")
    see = f"[{rule.see.rpartition('/')[2]}]({rule.see})" if rule.see else ""
    return f"| {name} | {rule.requires} | {rule.protects} | {see} |"
