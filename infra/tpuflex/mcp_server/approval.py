"""The tools that only a person can let go ahead, each with the question that the person answers.

The SDK asks the person between the call and the tool: by elicitation, in whichever way the client's
version of the protocol has it. What a question finds wrong is handed to the tool, which reports it
like any other error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    Resolve,
)
from pydantic import BaseModel, Field

from tpuflex.errors import AccessError, InterruptedByUser, TpuflexError, UsageError
from tpuflex.mcp_server.answers import Document
from tpuflex.mcp_server.changes import (
    Changes,
    Planned,
    plan_down,
    plan_secret_rotation,
    plan_up,
)
from tpuflex.mcp_server.reading import StackName
from tpuflex.mcp_server.workspace import BENCHMARKS
from tpuflex.naming import MadeSecretRole
from tpuflex.stack.progress import agree

if TYPE_CHECKING:
    from tpuflex.mcp_server.workspace import Workspace
    from tpuflex.measure.grid import Grid

PlanHash = Annotated[
    str | None,
    Field(pattern="^[0-9a-f]{64}$", description="The hash of a plan that a first call returned."),
]
_Counts = Annotated[str, Field(pattern=r"^[0-9]{1,6}[kK]?(,[0-9]{1,6}[kK]?)*$")]
_Output = Annotated[int, Field(ge=1, le=4096, description="Tokens of an answer.")]
#: Points of a benchmark that a tool measures; `tpuflex bench run` takes more.
_MOST_POINTS = 16


class TypedName(BaseModel):
    """What a person types before a change."""

    stack: str = Field(title="The stack's name", description="Type it to go ahead.")


class LoadConsent(BaseModel):
    """What a person answers before a benchmark."""

    go_ahead: bool = Field(title="Put this load on the endpoint?")


def _asking(action: str) -> Callable[..., Elicit[TypedName] | Exception | None]:
    """The question before ``action``: none on the first call, which only plans."""

    def ask(
        ctx: Context[Any, Any], stack: StackName, plan_hash: PlanHash
    ) -> Elicit[TypedName] | Exception | None:
        if plan_hash is None:
            return None
        changes = _changes(ctx)
        try:
            _require_person(ctx, action)
            name = changes.workspace.stack_name(stack)
            planned = changes.issued(action, name, plan_hash)
        except TpuflexError as error:
            return error
        return Elicit(
            f"{action}: {planned.summary}\nPlan {plan_hash[:12]}. Type the stack's name ({name}) to"
            " go ahead.",
            TypedName,
        )

    return ask


def _changes(ctx: Context[Any, Any]) -> Changes:
    return cast("Any", ctx.mcp_server).changes  # type: ignore[no-any-return]


def _require_person(ctx: Context[Any, Any], action: str) -> None:
    """Refuse a client that cannot ask a person.

    Raises:
        AccessError: it cannot.
    """
    capabilities = ctx.client_capabilities
    asked = None if capabilities is None else capabilities.elicitation
    if asked is None or (asked.form is None and asked.url is not None):
        raise AccessError(
            f"This client cannot ask a person (MCP's elicitation): {action} was not done.",
            hint="A person types the command instead, or uses a client that can ask.",
        )


def _typed(answer: ElicitationResult[Any]) -> Any:
    """What a person typed; None where nothing was asked.

    Raises:
        InterruptedByUser: the person declined.
        TpuflexError: what the question found wrong.
    """
    if not isinstance(answer, AcceptedElicitation):
        raise InterruptedByUser("Nothing was done: the person did not agree.")
    if isinstance(answer.data, Exception):
        raise answer.data
    return answer.data


NameForUp = Annotated[ElicitationResult[TypedName], Resolve(_asking("up"))]
NameForRenew = Annotated[ElicitationResult[TypedName], Resolve(_asking("renew"))]
NameForDown = Annotated[ElicitationResult[TypedName], Resolve(_asking("down"))]
NameForRotation = Annotated[ElicitationResult[TypedName], Resolve(_asking("rotate_secret"))]


class Changing:
    """The tools that change something."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def up(
        self,
        typed: NameForUp,
        stack: StackName = None,
        refresh: Annotated[
            bool, Field(description="Compare all with the cloud first, and bring it right.")
        ] = False,
        new_host: Annotated[
            bool, Field(description="Another slice, although nothing of it has changed.")
        ] = False,
        plan_hash: PlanHash = None,
    ) -> Document:
        """Plan to bring the endpoint up; with the plan's hash, do it. It costs money.

        The first call returns the plan, what it costs, and plan_hash. The second one, with
        plan_hash and the same options, has the person type the stack's name, and returns the handle
        of an operation for `get_operation`. Chips may take minutes or hours to come.
        """
        plan = partial(plan_up, refresh=refresh, new_host=new_host)
        return self._change("up", stack, plan, plan_hash, typed)

    def renew(
        self, typed: NameForRenew, stack: StackName = None, plan_hash: PlanHash = None
    ) -> Document:
        """Plan to start the stack's next run by `renew_before`; with the plan's hash, do it.

        As `up`, but only where nothing else would change. It costs money.
        """
        return self._change("renew", stack, partial(plan_up, renewal_only=True), plan_hash, typed)

    def down(
        self, typed: NameForDown, stack: StackName = None, plan_hash: PlanHash = None
    ) -> Document:
        """Plan to destroy everything of the stack; with the plan's hash, do it.

        As `up`: plan, hash, the stack's name typed by the person, operation.
        """
        return self._change("down", stack, plan_down, plan_hash, typed)

    def rotate_secret(
        self,
        typed: NameForRotation,
        role: MadeSecretRole = "api-key",
        stack: StackName = None,
        plan_hash: PlanHash = None,
    ) -> Document:
        """Plan to add a secret's version with a new random key; with the plan's hash, do it.

        As `up`. The key is in no answer. Hosts use the old one until the stack file has the new
        version's number, and an `up` has given it to them.
        """
        plan = partial(plan_secret_rotation, role=role)
        return self._change("rotate_secret", stack, plan, plan_hash, typed)

    def _change(
        self,
        action: str,
        stack: str | None,
        planned: Callable[[Workspace, str], Planned],
        plan_hash: str | None,
        answer: ElicitationResult[TypedName],
    ) -> Document:
        typed = _typed(answer)
        workspace = self._changes.workspace
        name = workspace.stack_name(stack)
        plan = partial(planned, workspace, name)
        if plan_hash is None:
            return self._changes.issue(plan).to_json()
        if not isinstance(typed, TypedName) or typed.stack != name:
            raise InterruptedByUser(f"Nothing was done: the answer was not {name!r}.")
        return self._changes.carry_out(action, name, plan_hash, plan).to_json()


def _ask_load(
    ctx: Context[Any, Any],
    stack: StackName,
    concurrency: _Counts,
    context: _Counts,
    output: _Output,
) -> Elicit[LoadConsent] | Exception:
    workspace = _changes(ctx).workspace
    try:
        _require_person(ctx, "run_benchmark")
        name = workspace.stack_name(stack)
        loads = _grid(concurrency, context, output).loads(0)
    except (TpuflexError, UsageError) as error:
        return error
    requests = sum(each.requests for each in loads)
    most = max(each.concurrency for each in loads)
    return Elicit(
        f"run_benchmark: {len(loads)} points, {requests:,} requests, up to {most:,} at a time, on"
        f" the endpoint of stack {name}. Others who use it wait longer meanwhile. Go ahead?",
        LoadConsent,
    )


def _grid(concurrency: str, context: str, output: int) -> Grid:
    from tpuflex.measure.grid import grid_of

    grid = grid_of(concurrency=concurrency, context=context, output=output)
    points = len(grid.concurrency) * len(grid.context)
    if points > _MOST_POINTS:
        raise UsageError(
            f"{points} points are more than the {_MOST_POINTS} that a tool measures:"
            " `tpuflex bench run` takes as many as there are."
        )
    return grid


ConsentForLoad = Annotated[ElicitationResult[LoadConsent], Resolve(_ask_load)]


class Measuring:
    """The tool that puts load on an endpoint."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def run_benchmark(
        self,
        consent: ConsentForLoad,
        concurrency: Annotated[_Counts, Field(description="Requests in flight.")] = "1,4",
        context: Annotated[_Counts, Field(description="Tokens of a prompt.")] = "128",
        output: _Output = 64,
        stack: StackName = None,
    ) -> Document:
        """Measure the endpoint under load. Others who use it wait longer: the person is asked.

        Figures that contradict themselves are "not a result". The points are kept in the project's
        bench/, for `compare_benchmarks`.
        """
        from tpuflex.measure.bench import Order, bench

        asked = _typed(consent)
        if not isinstance(asked, LoadConsent) or not asked.go_ahead:
            raise InterruptedByUser("Nothing was done: the person did not agree.")
        workspace = self._workspace
        cloud = workspace.deployed(stack)
        stamp = workspace.now().astimezone().strftime("%Y%m%d-%H%M%S")
        file = workspace.root / BENCHMARKS / f"{cloud.stack.name}-{stamp}.jsonl"
        order = Order(file, _grid(concurrency, context, output))
        return bench(cloud, order, workspace.report, consent=agree).to_json()
