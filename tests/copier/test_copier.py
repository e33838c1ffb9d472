"""The program that copies a model within its region: what it brings, keeps, refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.copier.rig import (
    BUCKET,
    PREFIX,
    PROJECT,
    Rig,
    _Quiet,
    directory_of,
    done,
    line_to,
    serving,
)
from tests.hub_models import TOKEN, safetensors
from tpuflex.boot.manifest import MANIFEST_NAME, read_manifest
from tpuflex.copier.__main__ import main
from tpuflex.copier.copy import Copy
from tpuflex.copier.http import Patience
from tpuflex.copier.hub import Hub
from tpuflex.copier.job import HubOrigin, Job
from tpuflex.copier.machine import Machine
from tpuflex.copier.report import LONGEST_TEXT, read_report
from tpuflex.copier.storage import CHUNK_BYTES, Objects
from tpuflex.gcp.foreign_objects import MARK
from tpuflex.gcp.weights import WeightsBucket, weights_bucket

SHARD = "model-00001-of-00002.safetensors"


def bucket_of(rig: Rig) -> WeightsBucket:
    """The bucket, as a command reads it."""
    return weights_bucket(BUCKET, project=PROJECT, environ=dict(rig.cloud.environ()))


def hub_of(job: Job) -> HubOrigin:
    """Where the files of ``job`` come from."""
    assert isinstance(job.origin, HubOrigin)
    return job.origin


def pushed_here(rig: Rig, tmp_path: Path, prefix: str) -> bytes:
    """The manifest that a push from this machine writes of the same model."""
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    for file in rig.job().files:
        content = (directory_of(rig.cloud.state_dir) / file.path).read_bytes()
        (directory / file.path).write_bytes(content)
    bucket_of(rig).push(
        directory, prefix, model="tiny", revision="r1", progress=lambda _done, _total: None
    )
    name = f"{prefix}/{MANIFEST_NAME}".replace("/", "%2F")
    return rig.api.call("GET", f"storage/v1/b/{BUCKET}/o/{name}", alt="media").content


def test_it_brings_what_a_push_brings(rig: Rig, tmp_path: Path) -> None:
    """M11: files, manifest and source are, to the byte, those of a push through a machine of the
    user's; so that nobody after it can tell, and `weights verify` finds nothing wrong."""
    job = rig.job()

    report = done(rig.run(job))

    assert rig.manifest() == pushed_here(rig, tmp_path, "models/tiny/pushed")
    check = bucket_of(rig).verify(PREFIX)
    assert check.problems == ()
    assert (report.manifest_sha256, report.kept) == (check.sha256, ())
    listed = {stored.prefix: stored.source for stored in bucket_of(rig).list()}
    assert listed[PREFIX] == job.source
    assert "pytorch_model.bin" not in rig.names()


def test_the_models_own_manifest_is_left_at_the_hub(rig: Rig) -> None:
    """A MANIFEST.json that a model brings, wherever in it, never becomes that of the set."""
    directory = directory_of(rig.cloud.state_dir)
    (directory / MANIFEST_NAME).write_text('{"schema": 1}')
    (directory / "original" / MANIFEST_NAME).write_text("{}")

    done(rig.run(rig.job()))

    manifest = read_manifest(rig.manifest())
    assert manifest is not None
    assert MANIFEST_NAME not in {file.path.rpartition("/")[2] for file in manifest.files}


def test_a_large_file_goes_in_chunks_and_has_its_parts(rig: Rig) -> None:
    """A file longer than a request is uploaded in several, and the sums of its parts are those
    that a push computes."""
    large = safetensors() + bytes(CHUNK_BYTES + 12_345)
    (directory_of(rig.cloud.state_dir) / SHARD).write_bytes(large)
    job = rig.job()
    machine = Machine(rig.metadata.environ, Patience(lambda _s: None), lambda: 0.0)
    patience = Patience(lambda _s: None)
    objects = Objects(job.storage, job.bucket, machine.token, patience)
    copy = Copy(job, Hub(hub_of(job), "", patience), objects, part_bytes=2**20)

    copy.run()

    found = {file["path"]: file for file in json.loads(rig.manifest())["files"]}
    assert len(found[SHARD]["parts"]) == -(-len(large) // 2**20)
    assert rig.read(SHARD) == large
    assert copy.done_bytes == job.total_bytes
    assert read_manifest(rig.manifest()) is not None


def test_a_second_run_sends_nothing(rig: Rig) -> None:
    """What is in the bucket and has the Hub's sum is kept, and the manifest is not touched."""
    job = rig.job()
    first = done(rig.run(job))
    with line_to(rig.cloud.url) as line:
        again = done(rig.run(rig.job(line.url)))

    assert again.kept == tuple(range(len(job.files)))
    assert again.manifest_sha256 == first.manifest_sha256
    assert line.writes == []


@pytest.mark.parametrize("damage", ["content", "size", "missing"])
def test_what_is_altered_is_sent_again(rig: Rig, damage: str) -> None:
    """A file that has the right size and another content, another size, or is gone, is brought
    anew; the others are kept. The content is read: a CRC32C could be forged."""
    done(rig.run(rig.job()))
    right = rig.read(SHARD)
    place = [file.path for file in rig.job().files].index(SHARD)
    if damage == "missing":
        name = f"{PREFIX}/{SHARD}".replace("/", "%2F")
        rig.api.call("DELETE", f"storage/v1/b/{BUCKET}/o/{name}")
    else:
        rig.write(SHARD, right[:-1] + b"?" if damage == "content" else right + b"?")

    report = done(rig.run(rig.job()))

    assert rig.read(SHARD) == right
    assert place not in report.kept
    assert len(report.kept) == len(rig.job().files) - 1


@pytest.mark.parametrize("wrong", [SHARD, MANIFEST_NAME])
def test_nothing_is_replaced_where_others_serve(rig: Rig, wrong: str) -> None:
    """A file, or a manifest, that is there with another content ends the copy before anything is
    written; what is right is kept, and what is missing is brought."""
    done(rig.run(rig.job()))
    names = [wrong] if wrong == MANIFEST_NAME else [wrong, MANIFEST_NAME]
    for name in names:
        path = f"{PREFIX}/{name}".replace("/", "%2F")
        rig.api.call("DELETE", f"storage/v1/b/{BUCKET}/o/{path}")
    report = done(rig.run(rig.job(create_only=True)))
    assert len(report.kept) == len(rig.job().files) - (wrong != MANIFEST_NAME)

    rig.write(wrong, b"a colleague's")
    with line_to(rig.cloud.url) as line:
        failed = rig.run(rig.job(line.url, create_only=True))
    assert (failed["state"], failed["code"]) == ("failed", "in-the-way")
    assert line.writes == []
    assert rig.read(wrong) == b"a colleague's"


def test_what_is_written_bears_the_mark_and_nothing_else_is_taken(rig: Rig) -> None:
    """In a bucket of the user's own every object says that a push has written it, the large ones
    and the manifest, too. A file without it is somebody else's, also with the right content."""
    large = safetensors() + bytes(CHUNK_BYTES + 12_345)
    (directory_of(rig.cloud.state_dir) / SHARD).write_bytes(large)
    mine: dict[str, Any] = {"create_only": True, "mark": MARK}
    done(rig.run(rig.job(**mine)))
    items = rig.api.call("GET", f"storage/v1/b/{BUCKET}/o").json()["items"]
    assert len(items) == len(rig.job().files) + 1
    assert all(MARK.items() <= item["metadata"].items() for item in items)
    assert done(rig.run(rig.job(**mine))).kept == tuple(range(len(rig.job().files)))

    rig.write(SHARD, large)
    with line_to(rig.cloud.url) as line:
        failed = rig.run(rig.job(line.url, **mine))
    assert (failed["state"], failed["code"]) == ("failed", "in-the-way")
    assert line.writes == []


def test_all_is_sent_on_demand(rig: Rig) -> None:
    """--again keeps nothing."""
    done(rig.run(rig.job()))
    assert done(rig.run(rig.job(again=True))).kept == ()


def test_weights_known_in_schema_1_stay_in_it(rig: Rig) -> None:
    """A manifest that the stack file pins, or that is in the bucket, in the schema without parts,
    is written in it again."""
    manifest = read_manifest((rig.run(rig.job()), rig.manifest())[1])
    assert manifest is not None
    first = manifest.in_schema_1()

    report = done(rig.run(rig.job(known=(first.sha256,), pinned=first.sha256)))
    assert report.manifest_sha256 == first.sha256
    assert rig.manifest() == first.to_json().encode()

    assert done(rig.run(rig.job())).manifest_sha256 == first.sha256


def test_weights_that_are_not_the_pinned_ones_get_no_manifest(rig: Rig) -> None:
    """The stack file's pin holds for a copy, too."""
    report = rig.run(rig.job(pinned="0" * 64))
    assert (report["state"], report["code"]) == ("failed", "not-pinned")
    assert MANIFEST_NAME not in rig.names()


def test_a_file_that_is_not_what_the_hub_lists_gets_no_name(rig: Rig) -> None:
    """What came and has another sum than the job says is not written, and there is no manifest."""
    job = rig.job()
    wrong = tuple(
        replace(file, sha256="0" * 64 if file.sha256 else "", git_id="0" * 40)
        if file.path in (SHARD, "config.json")
        else file
        for file in job.files
    )
    report = rig.run(replace(job, files=wrong))
    assert (report["state"], report["code"]) == ("failed", "hub-content")
    assert not {SHARD, "config.json", MANIFEST_NAME} & rig.names()


def test_an_answer_lost_at_any_write_changes_nothing(rig: Rig) -> None:
    """Each write whose answer is lost is taken for what it is: done, or asked again."""
    (directory_of(rig.cloud.state_dir) / SHARD).write_bytes(safetensors() + bytes(CHUNK_BYTES))
    with line_to(rig.cloud.url) as line:
        whole = done(rig.run(rig.job(line.url)))
        count = len(line.writes)
    manifest = rig.manifest()
    assert count >= 7
    for place in range(count):
        for name in rig.names():
            path = f"{PREFIX}/{name}".replace("/", "%2F")
            rig.api.call("DELETE", f"storage/v1/b/{BUCKET}/o/{path}")
        with line_to(rig.cloud.url) as line:
            line.lose_at = place
            report = done(rig.run(rig.job(line.url)))
        assert report.manifest_sha256 == whole.manifest_sha256, place
        assert rig.manifest() == manifest
        assert bucket_of(rig).verify(PREFIX).problems == ()


def test_a_gated_model_comes_with_the_token_of_the_secret(
    rig: Rig, capfd: pytest.CaptureFixture[str]
) -> None:
    """The token is read where the account may, and stands in no job, no report and no line."""
    (directory_of(rig.cloud.state_dir) / ".gated").write_text(TOKEN)
    version = secret(rig, TOKEN)

    done(rig.run(rig.job(token=TOKEN, token_version=version)))
    refused = rig.run(rig.job(token=TOKEN, again=True))
    (directory_of(rig.cloud.state_dir) / ".gated").write_text("another")
    stale = rig.run(rig.job(token="another", token_version=version, again=True))

    assert (refused["code"], stale["code"]) == ("hub-refused", "hub-refused")
    told = "".join((*rig.metadata.told, rig.metadata.job, *capfd.readouterr()))
    assert TOKEN not in told
    assert "ya29" not in told


def secret(rig: Rig, value: str) -> str:
    """A version of a secret that holds ``value``."""
    import base64

    body: dict[str, Any] = {"replication": {"automatic": {}}}
    rig.api.call("POST", f"v1/projects/{PROJECT}/secrets", body=body, secretId="hub")
    body = {"payload": {"data": base64.b64encode(value.encode()).decode()}}
    path = f"v1/projects/{PROJECT}/secrets/hub:addVersion"
    assert rig.api.call("POST", path, body=body).status_code == 200
    return f"projects/{PROJECT}/secrets/hub/versions/1"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"bucket": "of-nobody"}, "storage-refused"),
        ({"token_version": "projects/p/secrets/none/versions/1"}, "token"),
        ({"commit": "0" * 40}, "hub-refused"),
        ({"hub": "http://127.0.0.1:9"}, "hub-unreachable"),
        ({"hub": "http://hub.invalid", "token_version": "hub"}, "token"),
    ],
)
def test_each_failure_has_its_code(rig: Rig, changes: dict[str, Any], code: str) -> None:
    """What failed is said by a code and a line; nothing waits for what cannot come."""
    if changes.get("token_version") == "hub":
        changes = {**changes, "token_version": secret(rig, TOKEN)}
    report = rig.run(rig.job(**changes))
    assert (report["state"], report["code"]) == ("failed", code)
    assert report["text"]


@dataclass
class Waiting:
    """A clock that runs on only while the program waits.

    Attributes:
        now: seconds.
        until: called at each wait.
    """

    now: float = 0.0
    until: Callable[[float], object] = lambda _now: None

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.now += seconds
        self.until(self.now)

    def clock(self) -> float:
        """The time."""
        return self.now


def refusing(*methods: str) -> list[dict[str, Any]]:
    """Rules by which these methods are refused."""
    effect = {"kind": "answer", "status": 403, "message": "Permission denied"}
    return [{"where": {"method_id": method}, "effect": effect, "times": 0} for method in methods]


#: What an account without its roles is refused.
UNSETTLED = refusing(
    "storage.objects.get",
    "storage.objects.insert",
    "secretmanager.projects.secrets.versions.access",
)


@pytest.mark.parametrize("there", [False, True])
def test_roles_that_have_no_effect_yet_are_waited_for(rig: Rig, there: bool) -> None:
    """The machine is up before its account may write or read: Google says two minutes, sometimes
    seven. It tries again for as long as it was told, and keeps what was there."""
    if there:
        done(rig.run(rig.job()))
    rig.metadata.job = rig.job(
        token=TOKEN, token_version=secret(rig, TOKEN), settling_seconds=600
    ).to_json()
    rig.api.call("POST", "_emulator/faults", body={"rules": UNSETTLED})

    def granted(now: float) -> None:
        if now >= 420:
            rig.api.call("DELETE", "_emulator/faults")

    waiting = Waiting(until=granted)
    assert main(rig.metadata.environ, sleep=waiting.sleep, clock=waiting.clock) == 0
    assert done(rig.metadata.last).kept == (tuple(range(len(rig.job().files))) if there else ())
    assert 420 <= waiting.now < 440


def test_roles_that_come_in_the_middle_are_no_conflict(rig: Rig) -> None:
    """What could not be seen a moment ago, and is there, was not written by somebody else."""
    (directory_of(rig.cloud.state_dir) / SHARD).write_bytes(safetensors() + bytes(CHUNK_BYTES))
    done(rig.run(rig.job()))
    (rule,) = refusing("storage.objects.get")
    rule["times"] = len(rig.job().files) + 1  # every look at what is there
    rig.api.call("POST", "_emulator/faults", body={"rules": [rule]})
    rig.metadata.job = rig.job(settling_seconds=600).to_json()
    waiting = Waiting()
    assert main(rig.metadata.environ, sleep=waiting.sleep, clock=waiting.clock) == 0
    assert len(done(rig.metadata.last).kept) == len(rig.job().files)
    assert waiting.now == 10


def test_a_role_that_is_missing_is_told_in_the_end(rig: Rig) -> None:
    """After that time a refusal is one."""
    rig.api.call("POST", "_emulator/faults", body={"rules": UNSETTLED})
    rig.metadata.job = rig.job(settling_seconds=600).to_json()
    waiting = Waiting()
    assert main(rig.metadata.environ, sleep=waiting.sleep, clock=waiting.clock) == 1
    assert (rig.metadata.last["code"], waiting.now) == ("storage-refused", 600)


def test_a_hub_cannot_make_the_last_report_unreadable(rig: Rig) -> None:
    """What it says of why is cut: a report that is too long is not read, and the command would
    wait for another."""

    class Hub(_Quiet):
        def do_GET(self) -> None:  # noqa: N802
            self.answer(302, headers={"Location": "https://x:" + "\x80" * 60_000})

    with serving(Hub) as hub:
        report = rig.run(rig.job(hub=hub))

    job = rig.job(hub=hub)
    assert report["code"] == "hub-content"
    read = read_report(
        rig.metadata.told[-1], job=job.id, files=len(job.files), total=job.total_bytes
    )
    assert read is not None
    assert len(read.text) == LONGEST_TEXT
