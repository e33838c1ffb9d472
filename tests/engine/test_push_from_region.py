"""`weights push --from-region` by the real command line, engine and emulator: killed, continued,
stopped; and what `down` and `sweep` find of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from reliability.rig import StackRig
from tests.hub_models import MODEL, TOKEN, put_model

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

PUSH = ("weights", "push", "--from-region", "--yes")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StackRig]:
    """The dev stack with a model of the Hub as its source; TPU hosts run nothing, machines do."""
    with StackRig(tmp_path / "project", speed=20) as rig:
        write_weights(rig)
        put_model(rig.home / ".tpuflex" / "emulator")
        yield rig


def run(rig: StackRig, *words: str, code: int = 0) -> str:
    """What a command printed."""
    ended = rig.run(*words)
    assert ended.exit_code == code, rig.said[-1]
    return str(rig.said[-1].stdout)


def kill(method: str, stage: str = "after-commit") -> dict[str, object]:
    """The command is killed at the first call of this method."""
    where = {"method_id": method}
    return {"where": where, "stage": stage, "effect": {"kind": "kill", "roles": ["cli"]}}


def of_compute(rig: StackRig) -> dict[str, list[str]]:
    """Names of what Compute Engine has."""
    found = rig.control.inventory().get("compute", {})
    return {
        kind: [str(each["name"]).rpartition("/")[2] for each in listed]
        for kind, listed in found.items()
        if listed
    }


def test_a_copy_killed_in_the_middle_is_continued(rig: StackRig) -> None:
    """M11: a command that is killed when its machine was just made is continued by the same
    command, which waits for that machine; afterwards nothing of it is left, the weights verify, and
    the document is that of a push from here. Once more, and no machine is made."""
    killed = rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert killed.exit_code == -9
    assert of_compute(rig)["instances"] == ["tpuflex-dev-vllm-copy"]

    document = json.loads(run(rig, *PUSH, "--json"))
    assert {*document} == {"sent", "kept", "bytes_sent", "manifest_sha256"}
    assert sorted([*document["sent"], *document["kept"]])[0] == "config.json"
    assert of_compute(rig) == {}
    assert document["manifest_sha256"] in run(rig, "weights", "verify")
    again = json.loads(run(rig, *PUSH, "--json"))
    assert (again["sent"], len(again["kept"])) == ([], 4)
    made = [
        call for call in rig.control.history() if call["method_id"] == "compute.instances.insert"
    ]
    assert len(made) == 1
    run(rig, "down")
    assert [kind for kinds in rig.control.inventory().values() for kind in kinds] == []


def test_down_and_sweep_find_what_a_killed_copy_left(rig: StackRig) -> None:
    """`sweep` lists machine, network and account; `down` deletes them with the stack, before the
    bucket into which the machine writes; and `--stop` alone deletes the machine."""
    left = {"instances", "networks", "subnetworks"}
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert {*of_compute(rig)} == left
    swept = run(rig, "sweep")
    assert swept.count("tpuflex-dev-vllm-copy") >= 4

    run(rig, *PUSH, "--stop")
    assert of_compute(rig) == {}

    rig.run(*PUSH, "--again", rules=[kill("compute.instances.insert")])
    assert {*of_compute(rig)} == left
    listed = run(rig, "down")
    assert "instance" in listed
    assert [kind for kinds in rig.control.inventory().values() for kind in kinds] == []
    run(rig, "sweep")


def write_weights(rig: StackRig, **weights: str) -> None:
    """Let the dev stack have its weights from the Hub, and where ``weights`` says."""
    file = rig.home / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:model"]["weights"] = {"source": f"hf://{MODEL}", **weights}
    file.write_text(yaml.safe_dump(document))


def copying(rig: StackRig) -> list[str]:
    """Machines that may write to the library."""
    (bucket,) = json.loads(run(rig, "library", "status", "--json"))["buckets"]
    members = [each["member"] for each in bucket["readers"]]
    return [member for member in members if "-copy@" in member]


def test_a_copy_into_the_library_leaves_nothing_but_weights(rig: StackRig) -> None:
    """A stack that was never up makes the library, and a state for the marks. Killed when its
    machine was just made, the same command goes on; and `down` takes away the machine and its roles
    in the library, which outlives the stack with its weights."""
    write_weights(rig, bucket="library")
    killed = rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert killed.exit_code == -9
    assert {*of_compute(rig)} == {"instances", "networks", "subnetworks"}
    assert copying(rig) == [
        "serviceAccount:tpuflex-dev-vllm-copy@tpuflex-dev.iam.gserviceaccount.com"
    ]

    document = json.loads(run(rig, *PUSH, "--json"))
    assert len([*document["sent"], *document["kept"]]) == 4
    assert (of_compute(rig), copying(rig)) == ({}, [])
    assert document["manifest_sha256"] in run(rig, "weights", "verify")

    write_weights(rig, bucket="library", revision="2")
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert len(copying(rig)) == 1
    assert "tpuflex-dev-vllm-copy" in run(rig, "sweep")
    run(rig, "down")
    assert (of_compute(rig), copying(rig)) == ({}, [])
    (bucket,) = json.loads(run(rig, "library", "status", "--json"))["buckets"]
    assert "1" in [each["revision"] for each in bucket["models"]]
    run(rig, "library", "down", "--yes")
    assert [kind for kinds in rig.control.inventory().values() for kind in kinds] == []


class Bucket:
    """A bucket of the user's own, in another project than the stack's."""

    def __init__(
        self,
        rig: StackRig,
        location: str = "US-EAST5",
        *,
        uniform: bool = True,
        name: str = "acme-models",
    ) -> None:
        self._control, self.name = rig.control, name
        access = {"uniformBucketLevelAccess": {"enabled": uniform}}
        body = {"name": self.name, "location": location, "iamConfiguration": access}
        assert self.call("POST", "storage/v1/b?project=acme-data", json=body).ok

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        """An answer of Cloud Storage."""
        token = {"Authorization": f"Bearer {self._control.token}"}
        url = f"{self._control.url}/{path}"
        return requests.request(method, url, headers=token, timeout=60, **more)

    def put(self, name: str, content: bytes = b"theirs", **metadata: str) -> None:
        """Somebody of its team writes an object."""
        path = f"upload/storage/v1/b/{self.name}/o?uploadType=media&name={name}"
        assert self.call("POST", path, data=content).ok
        if metadata:
            path = f"storage/v1/b/{self.name}/o/{name.replace('/', '%2F')}"
            assert self.call("PATCH", path, json={"metadata": metadata}).ok

    def read(self, name: str) -> tuple[bytes, dict[str, Any]]:
        """Content and description of an object."""
        path = f"storage/v1/b/{self.name}/o/{name.replace('/', '%2F')}"
        return self.call("GET", f"{path}?alt=media").content, self.call("GET", path).json()

    def objects(self) -> dict[str, dict[str, str]]:
        """Its objects with their metadata."""
        items = self.call("GET", f"storage/v1/b/{self.name}/o").json().get("items", [])
        return {each["name"]: each.get("metadata", {}) for each in items}

    def let_in(self, *, gone: bool = False) -> dict[str, str]:
        """Which accounts that are there, or are gone, are let into a part of it: role and
        condition."""
        path = f"storage/v1/b/{self.name}/iam?optionsRequestedPolicyVersion=3"
        bindings = self.call("GET", path).json().get("bindings", [])
        return {
            each["role"]: each["condition"]["expression"]
            for each in bindings
            for member in each["members"]
            if "condition" in each and member.startswith("deleted:") is gone
        }


class Secret:
    """A secret of the user's own, in another project than the stack's, with the Hub's token; the
    model is gated by it."""

    def __init__(self, rig: StackRig, **labels: str) -> None:
        self._control = rig.control
        (rig.home / ".tpuflex" / "emulator" / "hub" / MODEL / ".gated").write_text(TOKEN)
        body = {"replication": {"automatic": {}}, "labels": labels}
        assert self.call("POST", "projects/acme-vault/secrets?secretId=hub", json=body).ok
        for value in (b"of-another-time", TOKEN.encode()):
            payload = {"payload": {"data": base64.b64encode(value).decode()}}
            assert self.call("POST", f"{SECRET}:addVersion", json=payload).ok

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        """An answer of Secret Manager."""
        token = {"Authorization": f"Bearer {self._control.token}"}
        url = f"{self._control.url}/v1/{path}"
        return requests.request(method, url, headers=token, timeout=60, **more)

    def readers(self, *, gone: bool = False) -> list[str]:
        """Which versions accounts that are there, or are gone, may read."""
        path = f"{SECRET}:getIamPolicy?options.requestedPolicyVersion=3"
        return [
            each["condition"]["expression"].rpartition("/")[2].rstrip("'")
            for each in self.call("GET", path).json().get("bindings", [])
            for member in each["members"]
            if member.startswith("deleted:") is gone
        ]


SECRET = "projects/acme-vault/secrets/hub"
HOME = "llm/models/huggingfacetb-smollm2-135m-instruct/1"


def test_a_copy_into_a_bucket_of_yours_leaves_nothing_but_weights(rig: StackRig) -> None:
    """It may be of another project and lie elsewhere, which is said. The machine may add to the
    set's place and no other, and what it writes bears the mark of a push. Killed, the same command
    goes on. With the stack file changed since, `down` takes away what the machine may there."""
    bucket = Bucket(rig, "EUROPE-WEST4")
    bucket.put("llm/notes.txt")
    write_weights(rig, bucket=f"gs://{bucket.name}/llm")
    killed = rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert killed.exit_code == -9
    assert "in EUROPE-WEST4, and the machine in us-east5" in rig.said[-1].stderr
    assert sorted(bucket.let_in()) == ["roles/storage.objectCreator", "roles/storage.objectViewer"]
    assert all(f"/objects/{HOME}/" in where for where in bucket.let_in().values())

    document = json.loads(run(rig, *PUSH, "--json"))
    assert len([*document["sent"], *document["kept"]]) == 4
    assert (of_compute(rig), bucket.let_in()) == ({}, {})
    written = bucket.objects()
    assert written.pop("llm/notes.txt") == {}
    assert len(written) == 5
    assert all(name.startswith(f"{HOME}/") for name in written)
    assert all(about["tpuflex-pushed"] == "1" for about in written.values())
    assert document["manifest_sha256"] in run(rig, "weights", "verify")

    write_weights(rig, bucket=f"gs://{bucket.name}/llm", revision="2")
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert len(bucket.let_in()) == 2
    write_weights(rig)
    run(rig, "down")
    assert (of_compute(rig), bucket.let_in()) == ({}, {})
    assert written.keys() <= bucket.objects().keys()


def test_what_bears_the_hubs_names_and_sums_is_read_all_the_same(rig: StackRig) -> None:
    """Whoever may write there can put other bytes of the same size under the Hub's sum: their
    checksum is Cloud Storage's, and their mark anybody's. Another home believes no such manifest; a
    machine reads what is there, and ends."""
    bucket = Bucket(rig)
    write_weights(rig, bucket=f"gs://{bucket.name}/llm")
    run(rig, *PUSH)
    notes = rig.home / ".tpuflex" / "pushed-weights.json"
    notes.unlink()
    again = json.loads(run(rig, *PUSH, "--json"))
    assert (again["sent"], len(again["kept"])) == ([], 4)

    notes.unlink()
    manifest = json.loads(bucket.read(f"{HOME}/MANIFEST.json")[0])
    shard = next(each for each in manifest["files"] if each["path"].endswith(".safetensors"))
    place = f"{HOME}/{shard['path']}"
    content, about = bucket.read(place)
    bucket.put(place, content[:-1] + b"?", **about["metadata"])
    shard["crc32c"] = bucket.read(place)[1]["crc32c"]
    told = bucket.read(f"{HOME}/MANIFEST.json")[1]["metadata"]
    bucket.put(f"{HOME}/MANIFEST.json", json.dumps(manifest).encode(), **told)
    assert rig.run(*PUSH).exit_code == 1, rig.said[-1]
    assert f"weights rm {HOME} --unfinished" in rig.said[-1].stderr
    assert not notes.exists()
    assert (of_compute(rig), bucket.let_in()) == ({}, {})


def test_an_account_with_roles_elsewhere_is_made_anew(rig: StackRig) -> None:
    """A command is killed before it made its machine, and the stack file then names another bucket:
    the account that copies there is another one, which may do nothing in the first."""
    first, second = Bucket(rig), Bucket(rig, name="other-models")
    write_weights(rig, bucket=f"gs://{first.name}/llm")
    rig.run(*PUSH, rules=[kill("compute.instances.insert", "before-commit")])
    assert ("instances" in of_compute(rig), len(first.let_in())) == (False, 2)

    write_weights(rig, bucket=f"gs://{second.name}/llm")
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert (first.let_in(), len(second.let_in())) == ({}, 2)
    assert len(first.let_in(gone=True)) == 2
    run(rig, "down")
    assert (of_compute(rig), second.let_in(), second.let_in(gone=True)) == ({}, {}, {})


def test_down_tells_of_roles_that_it_may_not_take_away(rig: StackRig) -> None:
    """The bucket's policy is somebody else's. The exit code says that something is left, and the
    next `down`, which finds nothing else, takes it away."""
    bucket = Bucket(rig)
    write_weights(rig, bucket=f"gs://{bucket.name}/llm")
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    where = {"method_id": "storage.buckets.setIamPolicy"}
    effect = {"kind": "answer", "status": 403, "message": "no"}
    ended = rig.run("down", rules=[{"where": where, "effect": effect, "times": 0}])
    assert ended.exit_code == 10, rig.said[-1]
    assert f"iam.gserviceaccount.com on the bucket {bucket.name}" in rig.said[-1].stderr
    assert (of_compute(rig), len(bucket.let_in(gone=True))) == ({}, 2)

    run(rig, "down")
    assert bucket.let_in(gone=True) == {}


@pytest.mark.parametrize(
    ("uniform", "there", "code", "said"),
    [
        (False, "llm/notes.txt", 6, "--uniform-bucket-level-access"),
        (True, f"{HOME}/config.json", 1, "Nothing was made"),
    ],
)
def test_no_machine_is_made_for_a_bucket_of_yours_that_it_cannot_fill(
    rig: StackRig, uniform: bool, there: str, code: int, said: str
) -> None:
    """One that lets nobody into a part of it, and a place with a file that no push has written."""
    bucket = Bucket(rig, uniform=uniform)
    bucket.put(there)
    write_weights(rig, bucket=f"gs://{bucket.name}/llm")
    assert rig.run(*PUSH).exit_code == code, rig.said[-1]
    assert said in rig.said[-1].stderr
    assert (of_compute(rig), bucket.let_in()) == ({}, {})
    assert [*bucket.objects()] == [there]


def test_down_goes_on_where_machines_may_not_be_looked_at(rig: StackRig) -> None:
    """Without the right to list machines everything else is destroyed, and the exit code says that
    nothing proves the rest."""
    run(rig, *PUSH)
    denied = "Required 'compute.instances.list' permission for 'projects/tpuflex-dev'"
    rule = {
        "where": {"method_id": "compute.instances.aggregatedList"},
        "effect": {"kind": "answer", "status": 403, "message": denied},
        "times": 0,
    }
    ended = rig.run("down", rules=[rule])
    assert ended.exit_code == 10, rig.said[-1]
    assert "compute.instances.list" in rig.said[-1].stderr
    assert [kind for kinds in rig.control.inventory().values() for kind in kinds] == []


def write_token(rig: StackRig, **secrets: object) -> None:
    """Let the stack have the Hub's token where ``secrets`` says."""
    file = rig.home / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:secrets"] = secrets
    file.write_text(yaml.safe_dump(document))


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
