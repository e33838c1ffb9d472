"""Endpoints in a network that was there before them, with the real engine."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import yaml

from tests.engine.downs import begin_down
from tests.engine.embedded import Embedded
from tests.unit.stack_sections import PIN
from tpuflex import VllmEndpoint, VllmEndpointArgs
from tpuflex.engine.commands import Target
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.run import EngineRun
from tpuflex.errors import TpuflexError
from tpuflex.program import deploy

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(300),
    # Pulumi's SDK abandons the event loop of an inline program whose engine failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collects what a failed program has left in the test that owns it, and not in a later one."""
    yield
    gc.collect()


NETWORK = {
    "name": "team",
    "subnetwork": "serving",
    "egress": "existing",
    "allowed_cidrs": ["10.0.0.0/8"],
}


def bring(embedded: Embedded, *, private_access: bool = True) -> None:
    """Make the network, as its team does, and name it in the stack file."""
    project, region = embedded.settings.project, embedded.settings.slice.region
    root = f"/compute/v1/projects/{project}"
    bodies: dict[str, dict[str, Any]] = {
        f"{root}/global/networks": {"name": "team", "autoCreateSubnetworks": False},
        f"{root}/regions/{region}/subnetworks": {
            "name": "serving",
            "network": f"projects/{project}/global/networks/team",
            "ipCidrRange": "10.7.0.0/24",
            "privateIpGoogleAccess": private_access,
        },
    }
    for path, body in bodies.items():
        answer = requests.post(
            f"{embedded.cloud.url}{path}",
            json=body,
            headers={"Authorization": f"Bearer {embedded.cloud.token}"},
            timeout=10,
        )
        assert answer.ok, answer.text
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:network"] = dict(NETWORK)
    file.write_text(yaml.safe_dump(document))


def stack_run(embedded: Embedded, *more: str) -> EngineRun:
    """The dev stack, and ``more`` endpoints like its own beside it."""

    def program() -> None:
        settings = embedded.settings
        deploy(settings, project="tpuflex", stack="dev", environ=embedded.environ)
        for name in more:
            VllmEndpoint(
                name,
                VllmEndpointArgs(
                    cloud=settings.cloud,
                    project=settings.project,
                    slice=settings.slice,
                    model={"name": "m", "weights": {"manifest_sha256": PIN}},
                    serving=settings.serving,
                    network=settings.network,
                    environ=embedded.environ,
                ),
            )

    target = Target(embedded.root, "dev", embedded.engine, embedded.environ)
    return EngineRun(target, program, failures=ProgramFailures())


def compute(embedded: Embedded) -> dict[str, list[str]]:
    """Names of what exists of Compute Engine, by kind."""
    kinds = embedded.cloud.cloud.inventory()["compute"]
    return {
        kind: sorted(str(each["name"]).rpartition("/")[2] for each in found)
        for kind, found in kinds.items()
        if found
    }


def test_two_endpoints_share_a_network_that_stays(embedded: Embedded) -> None:
    """Each has rules of its own for its own tag; nothing else is made in the network, a second
    look finds nothing to change, and `down` leaves the network and names it as kept."""
    bring(embedded)
    before = compute(embedded)
    run = stack_run(embedded, "second")

    run.up()

    rules = [
        f"tpuflex-dev-{name}-brought-{role}"
        for name in ("second", "vllm")
        for role in ("serving", "ssh")
    ]
    assert compute(embedded) == {**before, "firewalls": rules}
    assert run.preview().changes == ()
    run.refresh()
    assert run.preview().changes == ()

    down = begin_down(embedded, "dev")
    out, errors = down.communicate(timeout=200)

    assert down.returncode == 0, errors
    path = f"projects/{embedded.settings.project}"
    region = embedded.settings.slice.region
    assert json.loads(out)["kept"] == [
        f"{path}/global/networks/team",
        f"{path}/regions/{region}/subnetworks/serving",
    ]
    assert compute(embedded) == before
    assert sorted(embedded.remaining()) == sorted(before)


def test_an_endpoint_moves_into_a_network_of_yours(embedded: Embedded) -> None:
    """From a network of its own: the slice is replaced, and the old network goes."""
    run = stack_run(embedded)
    run.up()
    bring(embedded)

    run.up()

    there = compute(embedded)
    assert there["networks"] == ["team"]
    assert there["subnetworks"] == ["serving"]
    assert there["firewalls"] == [
        "tpuflex-dev-vllm-brought-serving",
        "tpuflex-dev-vllm-brought-ssh",
    ]
    assert run.preview().changes == ()
    run.destroy()
    assert sorted(embedded.remaining()) == ["networks", "subnetworks"]


@pytest.mark.parametrize(
    ("subnetwork", "says"),
    [
        ("serving", "--enable-private-ip-google-access"),
        ("nobody", "subnetworks/nobody"),
    ],
)
def test_a_network_that_cannot_be_used_is_refused_at_the_plan(
    embedded: Embedded, subnetwork: str, says: str
) -> None:
    """A preview finds out, and nothing is made."""
    bring(embedded, private_access=False)
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    file.write_text(file.read_text().replace("subnetwork: serving", f"subnetwork: {subnetwork}"))

    with pytest.raises(TpuflexError) as caught:
        stack_run(embedded).preview()

    assert says in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert sorted(embedded.remaining()) == ["networks", "subnetworks"]
