"""A program of one's own with two endpoints, which the command finds by the state of its stack."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.checkpoints import everything_in, tiny
from tests.engine.embedded import Embedded
from tests.engine.libraries import MODEL, manifest_of
from tests.stack.recorded_states import SALT
from tests.unit.stack_sections import embedded as sections
from tpuflex import VllmEndpoint, VllmEndpointArgs
from tpuflex.deploy.secrets import ensure_secrets
from tpuflex.deploy.teardown import plan_down
from tpuflex.deploy.weights_bucket import ensure_weights_bucket
from tpuflex.engine.commands import Target
from tpuflex.engine.environment import with_own_provider
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.run import EngineRun
from tpuflex.errors import ConflictError, NotFoundError, UsageError
from tpuflex.naming import API_KEY
from tpuflex.operate.endpoint_status import status
from tpuflex.stack.connection import Connection
from tpuflex.stack.opening import open_deployed
from tpuflex.stack.progress import agree
from tpuflex.weights.stack_push import push_weights
from tpuflex.weights.stack_weights import StackWeights

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_each_endpoint_is_filled_and_looked_at(embedded: Embedded, tmp_path: Path) -> None:
    """Its secrets get their values and its bucket the weights that it waits for, its slice is
    shown; nothing that the program makes is made by the command, and the stack, which has another
    endpoint, is not torn down."""
    directory = tiny(tmp_path / "tiny")
    weights = {"manifest_sha256": manifest_of(directory, MODEL)}
    given = sections({"project": "tpuflex-dev", "model": {"name": MODEL, "weights": weights}})
    names = ["chat"]

    def program() -> None:
        for name in names:
            VllmEndpoint(name, VllmEndpointArgs(**given, environ=embedded.environ))

    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    file.write_text(f"encryptionsalt: {SALT}\nconfig:\n  shop:size: large\n")
    target = Target(embedded.root, "dev", embedded.engine, embedded.environ)
    run = EngineRun(target, program, failures=ProgramFailures())
    opened = partial(open_deployed, embedded.root, "dev", embedded.environ)
    with pytest.raises(NotFoundError, match="not a stack file of tpuflex"):
        opened()
    run.up()
    assert opened().names.name == "chat"
    names.append("embed")
    run.up()

    with pytest.raises(UsageError, match=r"several endpoints \(chat, embed\)"):
        opened()
    cloud = Connection(opened(endpoint="embed"), with_own_provider(embedded.environ))
    ensure_secrets(cloud, consent=agree)
    ensure_weights_bucket(cloud, consent=agree)
    pushed = push_weights(StackWeights(cloud), everything_in(directory), print, lambda: False)
    shown = status(cloud, tunnel=False)

    assert [each.number for each in cloud.secrets.list_versions(cloud.secret(API_KEY))] == [1]
    assert pushed.manifest.sha256 == weights["manifest_sha256"]
    assert shown.slice.queued_resource == "tpuflex-dev-embed-g1"
    assert not shown.foreign
    with pytest.raises(ConflictError, match="with more in it than an endpoint"):
        plan_down(cloud)
    names.remove("embed")
    run.up()
    with pytest.raises(NotFoundError, match="only `pulumi up` makes what is missing"):
        ensure_weights_bucket(cloud, consent=agree)
    run.destroy()
    assert embedded.remaining() == []
