"""P4: `sweep --yes`, `recover` and `down` in one home touch nothing that another one has made."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.security.test_p4_two_clones import clone, command, engine, mutations, the_id
from tests.engine.conftest import embedded, pulumi_engine
from tests.engine.embedded import Embedded
from tpuflex.cli.down.run import run_down
from tpuflex.cli.recover.run import run_recover
from tpuflex.cli.sweep.run import run_sweep
from tpuflex.cli.up.run import run_up
from tpuflex.errors import AlreadyExistsError, EngineError, IncompleteTeardownError
from tpuflex.naming import ENDPOINT_NAME, Names

__all__ = ["embedded", "pulumi_engine"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

FIRST = Names("tpuflex", "dev", ENDPOINT_NAME).queued_resource_id()


def second_home(of: Embedded, directory: Path) -> Embedded:
    """The same project with a home of its own: neither its state nor its memory is shared."""
    directory.mkdir()
    home = clone(of, directory / "backend")
    return replace(home, environ={**home.environ, "TPUFLEX_HOME": str(directory)})


def test_the_second_home_touches_nothing(
    embedded: Embedded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S5: a colleague's `sweep --yes`, even with the slice named, `recover` and `down` leave a live
    endpoint as it is, and say whose it is: `recover` the same as `up`."""
    engine(embedded).up()
    colleague = second_home(embedded, tmp_path / "colleague")
    before, there = mutations(embedded), embedded.cloud.cloud.inventory()

    with pytest.raises(IncompleteTeardownError, match="left alone"):
        run_sweep(*command(colleague), frozenset({FIRST}))
    with pytest.raises(AlreadyExistsError) as by_up:
        run_up(*command(colleague))
    capsys.readouterr()
    with pytest.raises(EngineError) as by_recover:
        run_recover(*command(colleague))
    shown = capsys.readouterr().out
    with pytest.raises(IncompleteTeardownError) as left:
        run_down(*command(colleague), dry_run=False)

    assert f"it was made by another state ({the_id(embedded)})" in left.value.message
    assert by_recover.value.message == by_up.value.message
    assert json.loads(shown)["clean"] is False
    assert mutations(embedded) == before
    assert embedded.cloud.cloud.inventory() == there
    run_down(*command(embedded), dry_run=False)
    assert embedded.remaining() == []


def test_a_stale_state_deletes_nothing_of_its_successor(embedded: Embedded, tmp_path: Path) -> None:
    """S5: what was deleted behind a state's back and made anew by another one has the same names;
    `down` of the first forgets it and leaves it alone."""
    engine(embedded).up()
    colleague = second_home(embedded, tmp_path / "colleague")
    backend = embedded.root / ".tpuflex" / "backend"
    shutil.copytree(backend, tmp_path / "before")
    run_down(*command(embedded), dry_run=False)
    shutil.copytree(tmp_path / "before", backend, dirs_exist_ok=True)
    engine(colleague).up()
    there = embedded.cloud.cloud.inventory()

    with pytest.raises(IncompleteTeardownError) as left:
        run_down(*command(embedded), dry_run=False)

    assert f"it was made by another state ({the_id(colleague)})" in left.value.message
    assert embedded.cloud.cloud.inventory() == there
    assert not engine(embedded).exists()
