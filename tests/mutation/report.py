"""The figures of a mutation run as a table, and as docs/mutation.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Exit codes of mutmut's workers: a test failed, or pytest itself did.
_KILLED = frozenset({1, 3})
_SURVIVED = 0
_NO_TEST = 33
#: Two-sided 95 %.
_Z = 1.96


@dataclass(frozen=True)
class Module:
    """One module's mutants.

    Attributes:
        name: the module.
        total: the number of mutants.
        killed: a test failed.
        timeouts: the tests did not finish, or the process died.
        survived: every test that reaches it passed.
        untested: no test reaches it.
    """

    name: str
    total: int
    killed: int
    timeouts: int
    survived: int
    untested: int

    @classmethod
    def of(
        cls, name: str, codes: Mapping[str, int | None], drawn: frozenset[str] | None = None
    ) -> Module:
        """Count the workers' exit ``codes`` by mutant, None for one that was not run; for a
        sample, only the mutants that were ``drawn``."""
        run = [
            code
            for mutant, code in codes.items()
            if code is not None and (drawn is None or mutant in drawn)
        ]
        killed = sum(code in _KILLED for code in run)
        survived, untested = run.count(_SURVIVED), run.count(_NO_TEST)
        timeouts = len(run) - killed - survived - untested
        return cls(name, len(codes), killed, timeouts, survived, untested)

    @property
    def noticed(self) -> int:
        """The number of mutants that the tests noticed."""
        return self.killed + self.timeouts

    @property
    def measured(self) -> int:
        """The number of mutants with a verdict."""
        return self.noticed + self.survived + self.untested


@dataclass(frozen=True)
class Setting:
    """How the figures were measured.

    Attributes:
        sample: share of each module's mutants that was run.
        seed: the seed of the sample.
        command: the command that was run.
    """

    sample: float
    seed: int
    command: str


def interval(noticed: int, measured: int) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a share measured on a sample."""
    if not measured:
        return 0.0, 1.0
    share, square = noticed / measured, _Z * _Z
    centre = share + square / (2 * measured)
    spread = _Z * math.sqrt(share * (1 - share) / measured + square / (4 * measured**2))
    whole = 1 + square / measured
    return max(0.0, (centre - spread) / whole), min(1.0, (centre + spread) / whole)


def table(modules: Sequence[Module]) -> list[str]:
    """One row for each module, and one for all of them together."""
    rows = [
        "| module | mutants | run | killed | timed out | survived | no test | score |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    together = Module(
        "**all**",
        *(
            sum(getattr(module, column) for module in modules)
            for column in ("total", "killed", "timeouts", "survived", "untested")
        ),
    )
    return [*rows, *(_row(module) for module in modules), _row(together)]


def page(modules: Sequence[Module], setting: Setting) -> str:
    """The text of docs/mutation.md."""
    noticed = sum(module.noticed for module in modules)
    measured = sum(module.measured for module in modules)
    total = sum(module.total for module in modules)
    low, high = interval(noticed, measured)
    drawn = f"All {total} mutants."
    if setting.sample < 1:
        drawn = (
            f"{measured} of {total} mutants, drawn by seed {setting.seed}; 95 % confidence interval"
            f" {low:.1%} to {high:.1%}."
        )
    elif measured < total:
        drawn = f"Only {measured} of {total} mutants: the run was cut short."
    return "\n".join(
        [
            "# Mutation score of the provider",
            "",
            f"`{setting.command}` writes this page. {_INTRODUCTION}",
            "",
            f"**{noticed}/{measured} noticed: {_share(noticed, measured)}.** {drawn}",
            "",
            *table(modules),
            "",
            *_EXCLUDED,
            "",
            *_EQUIVALENT,
            "",
        ]
    )


_INTRODUCTION = (
    "[mutmut](https://mutmut.readthedocs.io) changes one expression of the provider, or of"
    " what it knows of requests (`tpuflex/request`), at a time; a change that no fast test"
    " (`tests/provider` and `tests/request`, without engine and processes) notices survives."
)
_EXCLUDED = (
    "Not mutated: `main.py` (the process's entry), held by `provider/test_process.py`; what stands"
    " outside of functions, such as tables and the fields of the arguments; functions inside of"
    " functions that have a decorator; triple-quoted texts. Decorated functions and methods are"
    " mutated, by applying the decorator after them (`tests/mutation/undecorated.py`). Nothing else"
    " is left out: error and progress texts count, and so do mutants that change nothing.",
)
_EQUIVALENT = (
    "Survivors that no test can notice; they stay in the count:",
    "",
    "| where | change | why |",
    "|---|---|---|",
    "| `diff._same_place` | `split(x, 1)[0]` without or with a larger limit |"
    " the first part is the same |",
    "| `call.Report.__call__` | defaults of a protocol | nothing calls it |",
    "| `call._made_by` | `rpartition` | a name says `/locations/` once |",
    "| `place.place` | text of an error | cannot be reached: the loop returns or raises |",
    "| `zone_attempt.reason` | the code beside a text | the text says quota |",
    "| `nodes.Nodes._not_ready` | `strict` of a `zip` | both are as long |",
    "| `call.pause_for` | another default of `waits` | two wait as briefly as one |",
    "| `resource.QueuedResource`, `resource._inputs` | type of a `cast`, name of a class | neither"
    " is looked at |",
    "| `resource_args._arguments` | all | runs while it is imported, before a mutant is chosen |",
    "| arguments that are false | `passing=None`, `is_input=None` | the same to protobuf and to"
    " `if` |",
)


def _row(module: Module) -> str:
    return (
        f"| {module.name} | {module.total} | {module.measured} | {module.killed} |"
        f" {module.timeouts} | {module.survived} | {module.untested} |"
        f" {_share(module.noticed, module.measured)} |"
    )


def _share(noticed: int, measured: int) -> str:
    return f"{noticed / measured:.1%}" if measured else "-"
