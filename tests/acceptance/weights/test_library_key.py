"""Another key for the compiled programs of a library, through the engine."""

from __future__ import annotations

import pytest

from tests.engine.embedded import Embedded
from tests.engine.libraries import PROJECT, call, command
from tpuflex.deploy.library import run_library_up
from tpuflex.errors import InterruptedByUser
from tpuflex.naming import programs_key
from tpuflex.terminal.output import Output

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

KEY = programs_key(PROJECT)


def versions(embedded: Embedded) -> int:
    """How many versions the library's secret has."""
    return len(call(embedded, "GET", f"v1/{KEY}/versions").json()["versions"])


def test_another_key_is_asked_for_and_added(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`library up --new-programs-key` says what it costs before it asks; whoever says no keeps the
    key; a yes adds a version, and that counts as a change."""
    run_library_up(*command(embedded), ())
    first = versions(embedded)
    questions: list[str] = []

    def refuse(_output: Output, question: str) -> None:
        questions.append(question)
        raise InterruptedByUser("Nothing was changed.")

    monkeypatch.setattr(Output, "confirm", refuse)
    capsys.readouterr()
    asking = command(embedded, yes=False)
    with pytest.raises(InterruptedByUser):
        run_library_up(*asking, (), new_programs_key=True)
    refused, said = versions(embedded), capsys.readouterr().err
    run_library_up(*command(embedded), (), new_programs_key=True)
    told = capsys.readouterr()

    assert questions == ["Go ahead?"]
    assert "All endpoints of the library compile once more" in said
    assert (first, refused, versions(embedded)) == (1, 1, 2)
    assert '"changed": true' in told.out
    assert "hosts that boot from now on use none of the existing ones" in told.err
