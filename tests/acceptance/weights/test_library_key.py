"""Another key for the compiled programs of a library, through the engine."""

from __future__ import annotations

import pytest

from tests.engine.embedded import Embedded
from tests.engine.libraries import PROJECT, call, command
from tpuflex.deploy.library import library_up
from tpuflex.errors import InterruptedByUser
from tpuflex.naming import programs_key
from tpuflex.stack.progress import Question, agree

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

KEY = programs_key(PROJECT)


def versions(embedded: Embedded) -> int:
    """How many versions the library's secret has."""
    return len(call(embedded, "GET", f"v1/{KEY}/versions").json()["versions"])


def test_another_key_is_asked_for_and_added(embedded: Embedded) -> None:
    """`library up --new-programs-key` says what it costs before it asks; whoever says no keeps the
    key; a yes adds a version, and that counts as a change."""
    _, cloud = command(embedded)
    library_up(cloud, consent=agree)
    first = versions(embedded)
    told: list[str] = []

    def refuse(question: Question) -> bool:
        told.append(str(question))
        return False

    with pytest.raises(InterruptedByUser):
        library_up(
            cloud, (), lambda each: told.append(str(each)), consent=refuse, new_programs_key=True
        )
    refused = versions(embedded)
    done: list[str] = []
    again = library_up(
        cloud, report=lambda each: done.append(str(each)), new_programs_key=True, consent=agree
    )

    assert told[-1] == "Go ahead?"
    assert "All endpoints of the library compile once more" in told[-2]
    assert (first, refused, versions(embedded)) == (1, 1, 2)
    assert again.changed
    assert "hosts that boot from now on use none of the existing ones" in done[-1]
