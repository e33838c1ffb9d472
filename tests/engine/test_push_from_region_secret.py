"""`weights push --from-region` with the Hub's token in a secret of the user's own."""

from __future__ import annotations

import json

import pytest

from reliability.rig import StackRig
from tests.engine.region_copies import (
    PUSH,
    SECRET,
    Secret,
    kill,
    of_compute,
    run,
    write_token,
)
from tests.hub_models import TOKEN

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]


def test_a_token_in_a_secret_of_yours_is_read_and_nothing_stays_of_that(rig: StackRig) -> None:
    """The machine may read the one version, for as long as it is there. Killed, the same command
    goes on; with the stack file changed since, `down` takes the role away all the same; and where
    only the role was left, it does, too."""
    secret = Secret(rig)
    write_token(rig, hf_token=f"{SECRET}/versions/2")
    killed = rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert killed.exit_code == -9
    assert f"read the Hub's token in {SECRET}/versions/2." in rig.said[-1].stderr
    assert secret.readers() == ["2"]
    document = json.loads(run(rig, *PUSH, "--json"))
    assert len([*document["sent"], *document["kept"]]) == 4
    assert (of_compute(rig), secret.readers()) == ({}, [])
    assert TOKEN not in json.dumps(rig.control.inventory())

    rig.run(*PUSH, "--again", rules=[kill("compute.instances.insert")])
    write_token(rig)
    run(rig, "down")
    assert (of_compute(rig), secret.readers(), secret.readers(gone=True)) == ({}, [], [])

    write_token(rig, hf_token=f"{SECRET}/versions/2")
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    denied = {"kind": "answer", "status": 403, "message": "no"}
    where = {"method_id": "secretmanager.projects.secrets.setIamPolicy"}
    ended = rig.run("down", rules=[{"where": where, "effect": denied, "times": 0}])
    assert ended.exit_code == 10, rig.said[-1]
    assert f"on the secret {SECRET}" in rig.said[-1].stderr
    assert (of_compute(rig), secret.readers(gone=True)) == ({}, ["2"])
    run(rig, "down")
    assert secret.readers(gone=True) == []
    assert secret.call("GET", SECRET).ok


@pytest.mark.parametrize(
    ("labels", "version", "lacking", "code", "said"),
    [
        ({}, 7, "", 4, f"{SECRET}/versions/7 does not exist"),
        ({"tpuflex-owner": "shop"}, 2, "", 1, "was made by tpuflex for an endpoint"),
        ({}, 2, "secretmanager.secrets.setIamPolicy", 6, "gcloud secrets add-iam-policy-binding"),
    ],
)
def test_no_machine_is_made_for_a_secret_of_yours_that_it_cannot_read(
    rig: StackRig, labels: dict[str, str], version: int, lacking: str, code: int, said: str
) -> None:
    """A version that is not there, a secret that an endpoint deletes, one into which the caller may
    let nobody: nothing is made, not even the bucket."""
    Secret(rig, **labels)
    write_token(rig, hf_token=f"{SECRET}/versions/{version}")
    rig.control.call(
        "POST", "strictness", {"permissions": {"missing": [lacking] if lacking else []}}
    )
    assert rig.run(*PUSH).exit_code == code, rig.said[-1]
    assert said in rig.said[-1].stderr
    made = {kind for kinds in rig.control.inventory().values() for kind in kinds}
    assert made == {"secrets", "versions"}
