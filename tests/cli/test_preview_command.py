"""`tpuflex preview --markdown` where there is no plan, and `up --expect`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.samples import step
from tests.cli.typing import TypeIn
from tpuflex.cli.preview.comment import marker
from tpuflex.deploy.approval import Approval
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.errors import NotFoundError, PlanChangedError
from tpuflex.naming import QUEUED_RESOURCE


def test_a_stack_file_that_is_wrong(type_in: TypeIn, project: Path) -> None:
    """A stack file that is refused gets its findings into the comment, and the exit code stays."""
    file = project / "stacks" / "Pulumi.dev.yaml"
    file.write_text(file.read_text().replace("v6e-1", "v6e-`3`"))
    comment = project / "comment.md"

    refused = type_in("preview", "--markdown", str(comment))

    assert refused.code == 5
    assert comment.read_text().startswith(f"{marker('tpuflex', 'dev')}\n")
    assert "**There is no preview: it failed.**" in comment.read_text()
    assert "v6e-\\x603\\x60" in comment.read_text()


def test_a_stack_that_does_not_exist(type_in: TypeIn) -> None:
    """On standard output, the comment is all that is printed there."""
    absent = type_in("preview", "--stack", "nobody", "--markdown")

    assert absent.code == 4
    assert absent.out.startswith(marker("tpuflex", "nobody"))
    assert "There is no stack 'nobody'" in absent.out


def test_a_comment_that_cannot_be_written(type_in: TypeIn, project: Path) -> None:
    """A file that cannot be written is named."""
    failed = type_in("preview", "--stack", "nobody", "--markdown", str(project / "no" / "x.md"))

    assert failed.code == 1
    assert "x.md cannot be written (No such file or directory)." in failed.err


def test_two_documents_for_one_output(type_in: TypeIn) -> None:
    """JSON and Markdown together need a file for one of them."""
    refused = type_in("preview", "--json", "--markdown")

    assert refused.code == 2
    assert "name a file" in refused.err


def test_outside_of_git_there_is_no_base(type_in: TypeIn) -> None:
    """What cannot be compared is not shown as if it had been."""
    refused = type_in("preview", "--base", "main")

    assert refused.code == 4
    assert "'main' is no commit of the Git repository of " in refused.err


def test_another_plan_than_the_one_that_was_approved() -> None:
    """`up --expect` goes on with the plan that was approved and with no other, and without it with
    any."""
    approved, other = EnginePlan((step("create"),)), EnginePlan((step("delete"),))

    Approval(approved.digest).require(approved)
    Approval().require(other)
    with pytest.raises(PlanChangedError, match="is not the one that was approved") as refused:
        Approval(approved.digest).require(other)

    assert refused.value.exit_code == 12
    assert other.digest in refused.value.message


def renewal(*causes: str, operation: str = "replace") -> Step:
    return Step(operation, QUEUED_RESOURCE, "vllm", "urn:vllm", changed=causes, replaced_for=causes)


@pytest.mark.parametrize("cause", ["expireTime", "lifecycle"])
def test_a_renewal_may_run_unattended(cause: str) -> None:
    """Only what starts the next run is a renewal, and a plan without changes does no harm."""
    Approval(renewal_only=True).require(EnginePlan((renewal(cause, "queuedResourceId"),)))
    Approval(renewal_only=True).require(EnginePlan((step("same"),)))
    component = Step("update", "tpuflex:index:Network", "n", "urn:n", custom=False)
    Approval(renewal_only=True).require(EnginePlan((component, renewal(cause, "lifecycle"))))


@pytest.mark.parametrize("cause", ["drainsUntil", "lifecycle", "takesOverFrom"])
def test_a_renewal_that_was_begun_goes_on(cause: str) -> None:
    """What an earlier run asked for waits in the queue, or does not serve yet, or was asked to
    drain: the next one on the schedule goes on with it."""
    begun = renewal(cause, operation="update")
    for each in (begun, replace(begun, ends_replaced=True)):
        Approval(renewal_only=True).require(EnginePlan((each,)))


def test_what_a_renewal_has_replaced_is_deleted_later() -> None:
    """Its successor serves; that the schedule ends what is billed beside it is no other change."""
    left = replace(renewal(operation="same"), ends_replaced=True)
    Approval(renewal_only=True).require(EnginePlan((left,)))

    bucket = Step("same", "gcp:storage/bucket:Bucket", "x", "urn:x", ends_replaced=True)
    with pytest.raises(PlanChangedError, match="delete of x"):
        Approval(renewal_only=True).require(EnginePlan((bucket,)))


@pytest.mark.parametrize(
    "steps",
    [
        (renewal(operation="update"),),
        (renewal("takesOverFrom", "replace", operation="update"),),
        (renewal("expireTime", "acceleratorType"),),
        (renewal("rerun"),),
        (renewal("expireTime"), step("update")),
        (renewal("metadata", operation="update"),),
        (renewal("expireTime", operation="delete"),),
    ],
)
def test_more_than_a_renewal_does_not(steps: tuple[Step, ...]) -> None:
    """A change that nobody has approved does not slip in with a renewal."""
    with pytest.raises(PlanChangedError, match="more than a renewal"):
        Approval(renewal_only=True).require(EnginePlan(steps))


def test_what_is_not_up_is_not_renewed() -> None:
    """A stack that was never brought up, or is down, is not brought up by a schedule."""
    with pytest.raises(NotFoundError, match="no slice to renew"):
        Approval(renewal_only=True).require(EnginePlan((renewal(operation="create"),)))


def test_a_digest_that_is_none(type_in: TypeIn) -> None:
    """A digest that nothing can have is wrong usage, and not a plan that changed."""
    assert type_in("up", "--expect", "abc").code == 2
