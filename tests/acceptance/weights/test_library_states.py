"""Whose a library is: other states, lost ones, backups, and buckets of somebody else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.security.test_p4_two_clones import clone, mutations
from tests.engine.embedded import Embedded
from tests.engine.libraries import (
    BUCKET,
    MODEL,
    PROJECT,
    call,
    command,
    library_down,
    library_up,
    write_stack,
)
from tpuflex.deploy.library_engine import LibraryEngine
from tpuflex.deploy.weights_bucket import ensure_weights_bucket
from tpuflex.errors import AlreadyExistsError, ConflictError
from tpuflex.stack.progress import agree

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_another_state_is_told(embedded: Embedded, tmp_path: Any) -> None:
    """A backend that has no state of the library makes and deletes nothing of it, and says so."""
    library_up(embedded)
    other = clone(embedded, tmp_path / "other")
    before = mutations(embedded)
    with pytest.raises(AlreadyExistsError, match="does not know") as told:
        library_up(other)
    with pytest.raises(ConflictError, match="has not made all of the library"):
        library_down(other)

    assert mutations(embedded) == before
    assert "PULUMI_BACKEND_URL" in str(told.value.hint)


def test_down_finds_what_a_state_from_a_backup_does_not_know(embedded: Embedded) -> None:
    """A bucket that the library's own state has made, and forgot, goes with the others."""
    library_up(embedded)
    work = LibraryEngine(command(embedded)[1])
    backup = work.engine.deployment()
    library_up(embedded, "europe-west4")
    work.engine.replace(backup)
    library_down(embedded)

    assert embedded.remaining() == []


def test_a_bucket_of_somebody_else_is_not_taken(embedded: Embedded) -> None:
    """A bucket that has the library's name and not its marker is refused, by `up` and by a push."""
    named = {"name": BUCKET, "location": "US-EAST5"}
    call(embedded, "POST", f"storage/v1/b?project={PROJECT}", json=named).raise_for_status()
    write_stack(embedded, "one", MODEL, {})
    with pytest.raises(AlreadyExistsError, match="not made by tpuflex"):
        library_up(embedded)
    with pytest.raises(AlreadyExistsError, match="not made by tpuflex"):
        ensure_weights_bucket(command(embedded, "one")[1], consent=agree)
