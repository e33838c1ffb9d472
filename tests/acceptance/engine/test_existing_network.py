"""Endpoints in a network that was there before them, with the real engine."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
import yaml

from tests.acceptance.downs import begin_down
from tests.engine.embedded import Embedded
from tests.unit.stack_sections import PIN
from tpuflex import VllmEndpoint, VllmEndpointArgs
from tpuflex.engine.commands import Target
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.run import EngineRun
from tpuflex.program import deploy

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


NETWORK = {"egress": "existing", "allowed_cidrs": ["10.0.0.0/8"]}


def bring(
    embedded: Embedded,
    name: str = "team",
    *,
    host: str = "",
    private_access: bool = True,
    **network: object,
) -> None:
    """Make the network, as its team does, and name it in the stack file.

    Args:
        embedded: project and cloud.
        name: the network's.
        host: project that has it; the stack's by default.
        private_access: whether Private Google Access is on.
        network: what is otherwise in the section of the stack file.
    """
    project, region = host or embedded.settings.project, embedded.settings.region
    root = f"/compute/v1/projects/{project}"
    bodies: dict[str, dict[str, Any]] = {
        f"{root}/global/networks": {"name": name, "autoCreateSubnetworks": False},
        f"{root}/regions/{region}/subnetworks": {
            "name": f"{name}-serving",
            "network": f"projects/{project}/global/networks/{name}",
            "ipCidrRange": "10.7.0.0/24",
            "privateIpGoogleAccess": private_access,
        },
    }
    for path, body in bodies.items():
        answer = requests.post(
            f"{embedded.cloud.url}{path}",
            json=body,
            headers={"Authorization": f"Bearer {embedded.cloud.token}"},
            timeout=60,
        )
        assert answer.ok, answer.text
    place = f"projects/{project}/global/networks/" if host else ""
    named = {"name": f"{place}{name}", "subnetwork": f"{name}-serving"}
    write_network(embedded, {**NETWORK, **named, **network})


def write_network(embedded: Embedded, network: dict[str, object]) -> None:
    """Put the section into the stack file."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:network"] = network
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
    look finds nothing to change, and `down` leaves the network and names it as kept, from
    the state: the stack file may say something else by then."""
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
    again = run.preview(refresh=True)
    assert (again.changes, again.drift) == ((), ())

    write_network(embedded, {})
    down = begin_down(embedded, "dev")
    out, errors = down.communicate(timeout=200)

    assert down.returncode == 0, errors
    assert "brought-subnet" not in json.dumps(json.loads(out)["resources"])
    path = f"projects/{embedded.settings.project}"
    region = embedded.settings.region
    assert json.loads(out)["kept"] == [
        f"{path}/global/networks/team",
        f"{path}/regions/{region}/subnetworks/team-serving",
    ]
    assert compute(embedded) == before
    assert sorted(embedded.remaining()) == sorted(before)


def test_an_endpoint_moves_between_networks(embedded: Embedded) -> None:
    """From its own into one of yours, into another of yours, and back to its own, with NAT in each:
    rules, router and NAT move with it, and the only networks that ever go are its own."""
    write_network(embedded, {"egress": "internet"})
    run = stack_run(embedded)
    run.up()
    own = compute(embedded)

    for name in ("team", "other"):
        bring(embedded, name, egress="internet")
        before = compute(embedded)
        run.up()

        assert compute(embedded) == {
            "firewalls": ["tpuflex-dev-vllm-brought-serving", "tpuflex-dev-vllm-brought-ssh"],
            "networks": [each for each in before["networks"] if "tpuflex" not in each],
            "routers": ["tpuflex-dev-vllm-brought-router"],
            "subnetworks": [each for each in before["subnetworks"] if "tpuflex" not in each],
        }
        assert {link.rpartition("/")[2] for link in networks_of_what_is_made(embedded)} == {name}
        again = run.preview(refresh=True)
        assert (again.changes, again.drift) == ((), ())

    write_network(embedded, {"egress": "internet"})
    run.up()

    assert compute(embedded) == {
        **own,
        "networks": sorted([*own["networks"], "other", "team"]),
        "subnetworks": sorted([*own["subnetworks"], "other-serving", "team-serving"]),
    }
    run.destroy()
    assert compute(embedded) == {
        "networks": ["other", "team"],
        "subnetworks": ["other-serving", "team-serving"],
    }
    assert sorted(embedded.remaining()) == ["networks", "subnetworks"]


def networks_of_what_is_made(embedded: Embedded) -> list[str]:
    """The network of each firewall rule and router that there is."""
    root = f"{embedded.cloud.url}/compute/v1/projects/{embedded.settings.project}"
    found: list[str] = []
    for path in ("global/firewalls", f"regions/{embedded.settings.region}/routers"):
        token = {"Authorization": f"Bearer {embedded.cloud.token}"}
        listed = requests.get(f"{root}/{path}", headers=token, timeout=60).json()["items"]
        found.extend(each["network"] for each in listed)
    return found


def test_down_deletes_router_and_nat_in_a_network_of_yours(embedded: Embedded) -> None:
    """All that was made in it goes, also what only its marks tell, and the network stays."""
    bring(embedded, egress="internet")
    before = compute(embedded)
    stack_run(embedded).up()
    assert compute(embedded)["routers"] == ["tpuflex-dev-vllm-brought-router"]

    down = begin_down(embedded, "dev")
    out, errors = down.communicate(timeout=200)

    assert down.returncode == 0, errors
    assert len(json.loads(out)["kept"]) == len(("network", "subnetwork"))
    assert compute(embedded) == before
