"""`tpuflex library` killed at a call of the cloud, and typed once more."""

from __future__ import annotations

import pytest

from embedded_cloud.faults.processes import Roles
from embedded_cloud.faults.rule import Rule, Stage
from tests.acceptance.killed import kill_at
from tests.acceptance.security.test_p4_two_clones import mutations
from tests.engine.embedded import Embedded
from tests.engine.libraries import BUCKET, begin, bucket_of, library_down, library_up
from tpuflex.errors import NotFoundError

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def killed(embedded: Embedded, word: str, rule: Rule) -> None:
    """Run `tpuflex library up` (or `down`) until ``rule`` strikes."""
    book = embedded.cloud.cloud.faults.book
    with begin(embedded, word) as process:
        book.set_roles(Roles.from_json({"root": process.pid, "cli": process.pid}))
        book.add(rule)
        _, said = process.communicate(timeout=120)
    assert book.struck, said.decode()
    book.remove()


def test_what_was_killed_goes_on(embedded: Embedded) -> None:
    """Killed when the bucket was asked for, and when it was deleted, each before and after Google
    did it: the same command has one bucket, which its state knows, and a further one changes
    nothing; or it proves that nothing is left, and then there is no library."""
    there = []
    for stage in (Stage.BEFORE_COMMIT, Stage.AFTER_COMMIT):
        killed(embedded, "up", kill_at("POST", "/storage/v1/b$", stage=stage))
        there.append(bucket_of(embedded) is not None)
    library_up(embedded)
    bucket, before = bucket_of(embedded), mutations(embedded)
    again = library_up(embedded)
    changed = mutations(embedded) - before
    for stage in (Stage.BEFORE_COMMIT, Stage.AFTER_COMMIT):
        killed(embedded, "down", kill_at("DELETE", f"/storage/v1/b/{BUCKET}$", stage=stage))
        there.append(bucket_of(embedded) is not None)
    library_down(embedded)

    assert there == [False, True, True, False]
    assert bucket["name"] == BUCKET
    assert "tpuflex-state" in bucket["labels"]
    assert (again["changed"], changed) == (False, 0)
    assert embedded.remaining() == []
    with pytest.raises(NotFoundError, match="has no library"):
        library_down(embedded)
