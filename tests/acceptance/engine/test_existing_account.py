"""Endpoints whose hosts run as an account that was there before them, with the real engine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from embedded_cloud import daemon
from embedded_cloud.core.access import Caller, Principal, read_token
from reliability.rig import StackRig
from tests.acceptance.killed import stack_run
from tests.checkpoints import everything_in, tiny
from tests.engine.embedded import Embedded
from tests.engine.libraries import (
    BUCKET,
    PROJECT,
    bucket_of,
    call,
    command,
    library_up,
    manifest_of,
    write_stack,
)
from tpuflex.cli.down.run import run_down
from tpuflex.naming import Names
from tpuflex.weights.stack_push import push_weights
from tpuflex.weights.stack_weights import StackWeights

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

EMAIL = f"serving@{PROJECT}.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{EMAIL}"
ACCOUNT = f"projects/{PROJECT}/serviceAccounts/{EMAIL}"
MODEL = "acme/tiny"
VIEWER = "roles/storage.objectViewer"
ACCESSOR = "roles/secretmanager.secretAccessor"


def made_account(embedded: Embedded) -> Any:
    """The account, made by whoever looks after the project."""
    answer = call(
        embedded, "POST", f"v1/projects/{PROJECT}/serviceAccounts", json={"accountId": "serving"}
    )
    assert answer.ok, answer.text
    return answer.json()


def write(embedded: Embedded, stack: str, **sections: object) -> None:
    """Put sections into a stack file."""
    file = embedded.root / "stacks" / f"Pulumi.{stack}.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"] |= {f"tpuflex:{name}": value for name, value in sections.items()}
    file.write_text(yaml.safe_dump(document))


def bindings(embedded: Embedded, path: str) -> list[tuple[str, str, str]]:
    """Role, member and title of the condition of each grant of a policy."""
    policy = call(embedded, "GET", path).json()
    return sorted(
        (each["role"], member, each.get("condition", {}).get("title", ""))
        for each in policy.get("bindings", ())
        for member in each["members"]
        if not each["role"].startswith("roles/storage.legacy")
    )


def test_two_stacks_share_an_account_that_stays(
    embedded: Embedded, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where bindings decide, its hosts read weights and secrets; what one stack was granted goes
    with it, and neither the other's right to the same weights, nor anybody else's, nor the
    account itself: `down` names that as kept."""
    before = made_account(embedded)
    library_up(embedded)
    directory = tiny(tmp_path / "tiny")
    pinned = {"manifest_sha256": manifest_of(directory, MODEL)}
    for stack in ("one", "two"):
        write_stack(embedded, stack, MODEL, pinned, compile_cache="none")
        write(embedded, stack, identity={"service_account": EMAIL}, manage_apis=False)
    _, cloud = command(embedded, "one")
    push_weights(StackWeights(cloud), everything_in(directory), print, lambda: False)
    policy = f"storage/v1/b/{BUCKET}/iam?optionsRequestedPolicyVersion=3"
    document = call(embedded, "GET", policy).json()
    document["bindings"].append({"role": VIEWER, "members": ["user:ada@example.com"]})
    assert call(embedded, "PUT", f"storage/v1/b/{BUCKET}/iam", json=document).ok
    others = bindings(embedded, policy)
    runs = {
        stack: stack_run(embedded.root, embedded.engine, embedded.environ, stack)
        for stack in ("one", "two")
    }
    for run in runs.values():
        run.up()
        again = run.preview(refresh=True)
        assert (again.changes, again.drift) == ((), ())
    titles = {
        stack: f"tpuflex_weights_only_{Names('tpuflex', stack, 'vllm').owner}" for stack in runs
    }
    granted = {stack: (VIEWER, MEMBER, title) for stack, title in titles.items()}
    assert bindings(embedded, policy) == sorted([*others, *granted.values()])

    embedded.cloud.cloud.strictness.change({"iam": {"enforced": True}})
    caller = Caller(Principal.SERVICE_ACCOUNT, EMAIL)
    token = embedded.cloud.cloud.access.session_token(caller, 6000)
    weights = f"storage/v1/b/{BUCKET}/o/models%2Facme-tiny%2F1%2Fconfig.json?alt=media"

    def reads() -> list[bool]:
        """Whether its hosts may read the weights, and the secret of each stack."""
        found = [call(embedded, "GET", weights, token=token).ok]
        for stack in ("one", "two"):
            secret = Names("tpuflex", stack, "vllm").secret("api-key")
            asked = {"permissions": ["secretmanager.versions.access"]}
            path = f"v1/projects/{PROJECT}/secrets/{secret}:testIamPermissions"
            answer = call(embedded, "POST", path, token=token, json=asked)
            found.append("permissions" in answer.json())
        return found

    assert reads() == [True, True, True]
    write(embedded, "one", identity={})
    capsys.readouterr()
    run_down(*command(embedded, "one"), dry_run=False)

    assert json.loads(capsys.readouterr().out)["kept"] == [ACCOUNT]
    assert bindings(embedded, policy) == sorted([*others, granted["two"]])
    assert reads() == [True, False, True]
    runs["two"].destroy()
    assert bindings(embedded, policy) == others
    assert reads() == [False, False, False]
    assert call(embedded, "GET", f"v1/{ACCOUNT}").json() == before
    assert bucket_of(embedded) is not None
    left = ["buckets", "objects", "secrets", "serviceAccounts", "versions"]
    assert sorted(embedded.remaining()) == left


class Team:
    """Who looks after the project of a rig: makes and grants what the stack does not."""

    def __init__(self, rig: StackRig) -> None:
        self._rig = rig
        state = rig.home / ".tpuflex" / "emulator"
        self._url, self._token = daemon.wait_for_plugin(state).url, read_token(state)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A call of the cloud by its owner."""
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = requests.request(
            method, f"{self._url}/{path}", json=body, headers=headers, timeout=10
        )
        assert answer.ok, answer.text
        return answer.json()

    def typed(self, *words: str, code: int = 0) -> str:
        """What a command of the stack's said, on both channels."""
        ended = self._rig.run(*words)
        said = self._rig.said[-1]
        assert ended.exit_code == code, said
        assert "Traceback" not in str(said.stderr)
        return f"{said.stdout}{said.stderr}"


def test_in_a_project_that_others_look_after(tmp_path: Path) -> None:
    """Network, account, grants and APIs are theirs: each command that lacks one of them names it
    with what to run before anything is made; then the stack comes up, and its teardown leaves all
    of that, and names as kept what it used."""
    with StackRig(tmp_path / "project", speed=20) as rig:
        team = Team(rig)
        root = f"compute/v1/projects/{PROJECT}"
        custom = {"name": "team", "autoCreateSubnetworks": False}
        team.call("POST", f"{root}/global/networks", custom)
        team.call(
            "POST",
            f"{root}/regions/us-east5/subnetworks",
            {
                "name": "serving",
                "network": f"projects/{PROJECT}/global/networks/team",
                "ipCidrRange": "10.7.0.0/24",
                "privateIpGoogleAccess": True,
            },
        )
        team.call("POST", f"v1/projects/{PROJECT}/serviceAccounts", {"accountId": "serving"})
        file = rig.home / "stacks" / "Pulumi.dev.yaml"
        document = yaml.safe_load(file.read_text())
        document["config"] |= {
            "tpuflex:identity": {"service_account": EMAIL, "manage_grants": False},
            "tpuflex:manage_apis": False,
            "tpuflex:network": {
                "name": "team",
                "subnetwork": "serving",
                "egress": "existing",
                "manage_firewall": False,
            },
        }
        file.write_text(yaml.safe_dump(document))

        off = team.typed("secrets", "ensure", code=6)
        services = re.findall(r"[a-z]+\.googleapis\.com", off)
        team.call("POST", f"v1/projects/{PROJECT}/services:batchEnable", {"serviceIds": services})
        team.typed("secrets", "ensure")
        team.typed("weights", "push")
        refused = team.typed("up", "--yes", code=6)
        bucket = team.call("GET", f"storage/v1/b?project={PROJECT}")["items"][0]["name"]
        secret = Names("tpuflex", "dev", "vllm").secret("api-key")
        reads = {"bindings": [{"role": VIEWER, "members": [MEMBER]}]}
        accesses = {"bindings": [{"role": ACCESSOR, "members": [MEMBER]}]}
        team.call("PUT", f"storage/v1/b/{bucket}/iam", reads)
        path = f"v1/projects/{PROJECT}/secrets/{secret}:setIamPolicy"
        team.call("POST", path, {"policy": accesses})
        up = team.typed("up", "--yes")
        granted = team.call("GET", f"storage/v1/b/{bucket}/iam")["bindings"]
        down = team.typed("down", "--yes")
        left = {
            kind: len(items)
            for service, kinds in rig.control.inventory().items()
            for kind, items in kinds.items()
            if items and service != "serviceusage"
        }

    assert "and tpuflex:manage_apis is false" in off
    assert f"{VIEWER} on bucket {bucket} is not granted to {MEMBER}" in refused
    assert (
        f"gcloud storage buckets add-iam-policy-binding gs://{bucket} --member={MEMBER}"
        f" --role={VIEWER}"
    ) in refused
    assert "`tpuflex up --skip-check account` goes on in spite of it" in refused
    assert f"account    yours, and kept: {EMAIL}; others grant it what hosts need" in up
    assert granted == reads["bindings"]
    for kept in (
        ACCOUNT,
        f"projects/{PROJECT}/global/networks/team",
        f"projects/{PROJECT}/regions/us-east5/subnetworks/serving",
    ):
        assert f"Kept: {kept} (yours: the stack only uses it)" in down
    assert left == {"networks": 1, "subnetworks": 1, "serviceAccounts": 1}
