"""States in a bucket: Pulumi's `gs://` backend with the real engine on the embedded cloud (P19)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.request import Request, urlopen

import pulumi
import pytest
import yaml

from tests.engine.embedded import Embedded
from tpuflex.engine.backend import stack_names
from tpuflex.engine.commands import Program, Target
from tpuflex.engine.failure import LOCKED, ProgramFailures
from tpuflex.engine.run import EngineRun
from tpuflex.errors import EngineError

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

BUCKET = "our-pulumi-states"


@pytest.fixture(params=["environment", "project"])
def target(request: pytest.FixtureRequest, embedded: Embedded) -> Target:
    """A stack whose state is in a bucket: so says the environment, or Pulumi.yaml."""
    call(embedded, "b?project=tpuflex-dev", {"name": BUCKET})
    environ = {**embedded.environ}
    if request.param == "environment":
        environ["PULUMI_BACKEND_URL"] = f"gs://{BUCKET}"
    else:
        del environ["PULUMI_BACKEND_URL"]
        file = embedded.root / "Pulumi.yaml"
        project = yaml.safe_load(file.read_text())
        file.write_text(yaml.safe_dump({**project, "backend": {"url": f"gs://{BUCKET}"}}))
    return Target(embedded.root, "dev", embedded.engine, environ)


def objects(embedded: Embedded) -> set[str]:
    """Names of the bucket's objects."""
    listed = call(embedded, f"b/{BUCKET}/o")
    return {str(each["name"]) for each in listed.get("items", ())}


def call(embedded: Embedded, path: str, body: Mapping[str, object] | None = None) -> Any:
    """The answer of the embedded storage to a GET, or to a POST of ``body``."""
    asked = Request(
        f"{embedded.cloud.url}/storage/v1/{path}",
        json.dumps(body).encode() if body else None,
        {"Authorization": f"Bearer {embedded.cloud.token}", "Content-Type": "application/json"},
    )
    with urlopen(asked) as answer:
        return json.load(answer)


def engine_run(target: Target, program: Program) -> EngineRun:
    return EngineRun(target, program, failures=ProgramFailures())


def small() -> None:
    """A program without cloud resources: the backend is what is tried."""
    pulumi.ComponentResource("acme:index:Part", "part")
    pulumi.export("said", "yes")


def test_p19_a_stack_lives_in_a_bucket(embedded: Embedded, target: Target) -> None:
    """P19: preview, up, outputs, destroy and rm with the state in a bucket; the engine reads by
    `GET /BUCKET/OBJECT` and sends no token, and leaves no lock behind."""
    run = engine_run(target, small)

    assert run.preview().changes
    run.up()

    assert run.outputs() == {"said": "yes"}
    assert stack_names(target) == ("dev",)
    state = ".pulumi/stacks/tpuflex/dev.json"
    assert state in objects(embedded)
    run.destroy()
    run.remove()
    assert state not in objects(embedded)
    assert not [name for name in objects(embedded) if "/locks/" in name]
    assert not (embedded.root / ".tpuflex" / "backend" / ".pulumi").exists()


@pytest.mark.parametrize("target", ["environment"], indirect=True)
def test_p19_a_second_run_meets_the_lock(target: Target) -> None:
    """P19: while one `up` runs, another operation on the stack is refused, with whose lock it is
    and what takes it away: `tpuflex recover` cannot."""
    refused: list[str] = []

    def program() -> None:
        small()
        with pytest.raises(EngineError) as caught:
            engine_run(target, small).destroy()
        refused.append(str(caught.value))

    engine_run(target, program).up()

    assert refused[0].startswith(LOCKED)
    assert "pulumi cancel" in refused[0]
