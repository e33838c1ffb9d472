"""P4: nothing is written into a bucket or secret that another state has made."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.security.test_p4_two_clones import command, engine, mutations, the_id
from tests.acceptance.security.test_p4_two_homes import second_home
from tests.checkpoints import tiny
from tests.engine.conftest import embedded, pulumi_engine
from tests.engine.embedded import Embedded
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run
from tpuflex.deploy.ownership import require_containers_owned
from tpuflex.engine.state import Stored
from tpuflex.errors import AlreadyExistsError, NotFoundError
from tpuflex.naming import LABEL_STATE
from tpuflex.stack.connection import Connection

__all__ = ["embedded", "pulumi_engine"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]


@dataclass(frozen=True)
class Told:
    """How a command ended."""

    code: int
    text: str


Type = Callable[..., Told]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Type a command in a home whose embedded cloud runs in this process."""

    def type_in(home: Embedded, *words: str, given: str = "") -> Told:
        invocation, cloud = command(home)
        monkeypatch.setattr("tpuflex.stack.connection.connect", lambda *_, **__: cloud)
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        capsys.readouterr()
        code = run(["-C", str(home.root), *words], Invocation(environ=invocation.environ))
        return Told(code, "".join(capsys.readouterr()))

    return type_in


def test_a_second_home_writes_nothing(embedded: Embedded, tmp_path: Path, typed: Type) -> None:
    """S5: `weights push` and `secrets put` of a second home are refused as its `up` is, with the
    owner's state id; `preview` too. The owner goes on writing. Where only the secret is missing, a
    new state does not begin in the middle of another's endpoint."""
    engine(embedded).up()
    colleague = second_home(embedded, tmp_path / "colleague")
    model = tiny(tmp_path / "model")
    before = mutations(embedded)

    told = {
        "push": typed(colleague, "weights", "push", str(model)),
        "put": typed(colleague, "secrets", "put", "api-key", given="mine\n"),
        "ensure": typed(colleague, "secrets", "ensure"),
        "preview": typed(colleague, "preview"),
    }

    for what, one in told.items():
        assert one.code == AlreadyExistsError.exit_code, what
        assert f"state ID {the_id(embedded)}" in one.text, what
        assert "docs working-together" in one.text, what
        assert "recover --take-over" in one.text, what
    assert mutations(embedded) == before
    assert typed(embedded, "secrets", "put", "api-key", given="ours\n").code == 0
    assert mutations(embedded) == before + 1

    _, cloud = command(embedded)
    cloud.apis().secretmanager.call("DELETE", f"/v1/{cloud.secret('api-key')}")
    before = mutations(embedded)
    told_without = typed(colleague, "secrets", "put", "api-key", given="mine\n")
    assert f"state ID {the_id(embedded)}" in told_without.text
    assert mutations(embedded) == before


@dataclass
class Engine:
    """A state; none if the backend knows no such stack."""

    state: Stored | None

    @property
    def engine(self) -> Engine:
        return self

    def deployment(self) -> Stored:
        if self.state is None:
            raise NotFoundError("no stack")
        return self.state


def may_write(cloud: Connection, state: Stored | None) -> bool:
    """Whether a home with ``state``, and without a memory, may write."""
    try:
        require_containers_owned(cloud, Engine(state))  # type: ignore[arg-type]
    except AlreadyExistsError:
        return False
    return True


def test_what_decides(embedded: Embedded, tmp_path: Path) -> None:
    """An id that the state has or that the home remembers; what carries none is nobody's."""
    engine(embedded).up()
    _, cloud = command(second_home(embedded, tmp_path / "other"))
    state = engine(embedded).deployment()
    without_id = {
        **state,
        "resources": [one for one in state["resources"] if not one["type"].endswith("StateId")],
    }

    assert not may_write(cloud, None)
    assert not may_write(cloud, without_id)
    assert may_write(cloud, state)
    cloud.known_state_ids.remember("dev", [the_id(embedded)])
    assert may_write(cloud, None)

    _, cloud = command(second_home(embedded, tmp_path / "third"))
    storage, secrets = cloud.apis().storage, cloud.apis().secretmanager
    labels = storage.call("GET", f"/storage/v1/b/{cloud.bucket}")["labels"]
    assert isinstance(labels, dict)
    unlabelled = {key: value for key, value in labels.items() if key != LABEL_STATE}
    storage.call("PATCH", f"/storage/v1/b/{cloud.bucket}", body={"labels": {LABEL_STATE: None}})
    path, mask = f"/v1/{cloud.secret('api-key')}", {"updateMask": "labels"}
    secrets.call("PATCH", path, query=mask, body={"labels": unlabelled})
    assert not may_write(cloud, None)
    assert not may_write(cloud, state)
