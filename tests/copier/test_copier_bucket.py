"""The program that copies within a region, of a model in a bucket: what it brings, keeps, refuses,
and what it sends whom."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import google_crc32c
import pytest
import requests

from tests.copier.rig import PREFIX, PROJECT, Rig, _Quiet, done, line_to, serving
from tests.copier.test_copier import Waiting, bucket_of, refusing
from tests.embedded_cloud.api import TOKEN
from tests.hub_models import safetensors
from tpuflex.boot.manifest import MANIFEST_NAME, read_manifest
from tpuflex.copier.__main__ import main
from tpuflex.copier.bucket import BucketFiles
from tpuflex.copier.errors import CopyError
from tpuflex.copier.http import Patience
from tpuflex.copier.job import BucketOrigin, Job, JobFile
from tpuflex.copier.storage import CHUNK_BYTES, Objects

SOURCE = BucketOrigin("acme-models", "team/tiny")
SHARD = "model.safetensors"
FILES = {"config.json": b"{}", SHARD: safetensors(), "tokenizer.json": b""}
ORIGINAL = b"what was listed"
FILE = JobFile("a.bin", len(ORIGINAL), crc32c="AAAAAA==", generation=7)


def put(rig: Rig, path: str, content: bytes) -> JobFile:
    """Write a file of the model; gives it as it is listed then."""
    answer = requests.post(
        f"{rig.cloud.url}/upload/storage/v1/b/{SOURCE.bucket}/o",
        params={"uploadType": "media", "name": SOURCE.name(path)},
        data=content,
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=30,
    ).json()
    generation = int(answer["generation"])
    return JobFile(path, len(content), crc32c=answer["crc32c"], generation=generation)


def job(rig: Rig, files: dict[str, bytes] | None = None, url: str = "", **changes: Any) -> Job:
    """The copy of a model of a bucket, which is made for it."""
    body = {"name": SOURCE.bucket, "location": "US-EAST5"}
    rig.api.call("POST", "storage/v1/b", body=body, project=PROJECT)
    listed = tuple(put(rig, *each) for each in sorted((files or FILES).items()))
    source = f"gs://{SOURCE.bucket}/{SOURCE.prefix}"
    return rig.job(url, **{"origin": SOURCE, "files": listed, "source": source, **changes})


def test_it_brings_what_was_listed(rig: Rig) -> None:
    """Files and manifest are those that a push of the same files writes, the one of several chunks,
    too; and once more, nothing is sent."""
    files = {**FILES, SHARD: safetensors(bytes(CHUNK_BYTES + 12_345))}
    wanted = job(rig, files)

    report = done(rig.run(wanted))

    assert {name: rig.read(name) for name in files} == files
    check = bucket_of(rig).verify(PREFIX)
    assert (check.problems, check.sha256) == ((), report.manifest_sha256)
    manifest = read_manifest(rig.manifest())
    assert manifest is not None
    assert {each.path: each.crc32c for each in manifest.files} == {
        each.path: each.crc32c for each in wanted.files
    }
    listed = {stored.prefix: stored.source for stored in bucket_of(rig).list()}
    assert listed[PREFIX] == "gs://acme-models/team/tiny"
    with line_to(rig.cloud.url) as line:
        again = done(rig.run(replace(wanted, storage=line.url)))
    assert (again.kept, line.writes) == ((0, 1, 2), [])


def test_a_model_at_the_top_of_a_bucket() -> None:
    """A place without a prefix is the whole bucket."""
    assert (str(SOURCE), str(BucketOrigin("b", ""))) == ("gs://acme-models/team/tiny", "gs://b")
    assert (SOURCE.name("x"), BucketOrigin("b", "").name("x")) == ("team/tiny/x", "x")


def forged(content: bytes) -> bytes:
    """Another content with the same size and the same CRC32C: a CRC is linear."""
    wanted, changed = google_crc32c.value(content), bytearray(content)
    changed[0] ^= 1
    free = range(len(changed) * 8 - 64, len(changed) * 8)
    zero = google_crc32c.value(bytes(len(changed)))
    basis: dict[int, tuple[int, int]] = {}
    for bit in free:
        one = bytearray(len(changed))
        one[bit // 8] = 1 << bit % 8
        value, used = google_crc32c.value(bytes(one)) ^ zero, 1 << bit - free[0]
        while value and (top := value.bit_length()) in basis:
            value, used = value ^ basis[top][0], used ^ basis[top][1]
        if value:
            basis[value.bit_length()] = (value, used)
    left, used = google_crc32c.value(bytes(changed)) ^ wanted, 0
    while left:
        left, used = (a ^ b for a, b in zip((left, used), basis[left.bit_length()], strict=True))
    for place, bit in enumerate(free):
        if used >> place & 1:
            changed[bit // 8] ^= 1 << bit % 8
    assert google_crc32c.value(bytes(changed)) == wanted
    return bytes(changed)


def test_a_forged_checksum_is_not_believed(rig: Rig) -> None:
    """Whoever may write to the bucket can put other bytes there with the size and the CRC32C that
    are listed: what is there counts only with the source's own content."""
    wanted = job(rig, {**FILES, "config.json": b'{"a": "0123456789abcdef"}'})
    done(rig.run(wanted))
    right = rig.read("config.json")
    rig.write("config.json", forged(right))
    failed = rig.run(replace(wanted, create_only=True))
    assert (failed["state"], failed["code"]) == ("failed", "in-the-way")

    report = done(rig.run(wanted))

    assert (rig.read("config.json"), report.kept) == (right, (1, 2))


@pytest.mark.parametrize("deleted", [False, True])
def test_what_has_changed_since_it_was_listed_is_not_copied(rig: Rig, deleted: bool) -> None:
    """A file that was replaced or deleted ends the copy by a code of its own, and there is no
    manifest; the rest is kept for the next one."""
    wanted = job(rig)
    if deleted:
        name = SOURCE.name(SHARD).replace("/", "%2F")
        rig.api.call("DELETE", f"storage/v1/b/{SOURCE.bucket}/o/{name}")
    else:
        put(rig, SHARD, b"another one")
    report = rig.run(wanted)
    assert (report["state"], report["code"]) == ("failed", "source-changed")
    assert report["text"] == (
        "gs://acme-models/team/tiny/model.safetensors has changed since it was listed"
    )
    assert not {SHARD, MANIFEST_NAME} & rig.names()


@contextmanager
def altering(rig: Rig) -> Iterator[str]:
    """A line to the cloud that alters one byte of every file that is fetched."""

    class Handler(_Quiet):
        def _forward(self) -> None:
            answer = requests.request(
                self.command,
                f"{rig.cloud.url}{self.path}",
                data=self.body(),
                headers={key: value for key, value in self.headers.items() if key != "Host"},
                timeout=30,
            )
            content = answer.content
            if "alt=media" in self.path and content:
                content = content[:-1] + bytes([content[-1] ^ 1])
            kept = {
                key: value.replace(rig.cloud.url, f"http://{self.headers['Host']}")
                for key, value in answer.headers.items()
                if key in ("Location", "Range", "Content-Range")
            }
            self.answer(answer.status_code, content, kept)

        do_GET = do_PUT = do_POST = _forward  # noqa: N815 - names that http.server asks for

    with serving(Handler) as url:
        yield url


@pytest.mark.parametrize("large", [False, True])
def test_what_was_altered_on_the_way_becomes_no_object(rig: Rig, large: bool) -> None:
    """Cloud Storage is told the CRC32C that was listed, and makes no object of another content, in
    one request or in several; the code says what is wrong."""
    content = safetensors(bytes(CHUNK_BYTES + 1)) if large else safetensors()
    wanted = job(rig, {SHARD: content})
    with altering(rig) as url:
        report = rig.run(replace(wanted, storage=url))
    assert (report["state"], report["code"]) == ("failed", "source-content")
    assert f"(CRC32C {wanted.files[0].crc32c}, {len(content)} bytes)" in report["text"]
    assert rig.names() == set()


@contextmanager
def storage(answer: Callable[[_Quiet], None]) -> Iterator[BucketFiles]:
    """The files of a Cloud Storage that answers so."""

    class Handler(_Quiet):
        def do_GET(self) -> None:  # noqa: N802
            answer(self)

    with serving(Handler) as url:
        objects = Objects(url, SOURCE.bucket, lambda: "ya29.x", Patience(lambda _seconds: None))
        yield BucketFiles(SOURCE, objects)


def test_a_line_that_breaks_is_gone_on_with() -> None:
    """Each request asks for the rest of the same generation, and what came is not asked for
    again."""
    asked: list[tuple[str, str]] = []

    def broken(server: _Quiet) -> None:
        start = int(server.headers["Range"].removeprefix("bytes=").rstrip("-"))
        asked.append((server.path.partition("?")[2], server.headers["Range"]))
        server.send_response(206)
        server.send_header("Content-Length", str(len(ORIGINAL) - start))
        server.end_headers()
        server.wfile.write(ORIGINAL[start : start + 6])
        server.close_connection = True

    with storage(broken) as files:
        assert b"".join(files.blocks(FILE)) == ORIGINAL
    assert {query for query, _ in asked} == {"alt=media&generation=7"}
    assert [where for _, where in asked] == ["bytes=0-", "bytes=6-", "bytes=12-"]


@pytest.mark.parametrize(
    ("status", "content", "live", "code"),
    [
        (206, ORIGINAL + b"!", 7, "source-content"),
        (206, b"", 7, "source-unreachable"),
        (503, b"", 7, "source-unreachable"),
        (403, b"", 7, "source-refused"),
        (403, b"", 8, "source-changed"),
        (403, b"", None, "source-refused"),
        (404, b"", None, "source-changed"),
        (302, b"", 7, "source-refused"),
    ],
)
def test_each_refusal_has_its_code(
    status: int, content: bytes, live: int | None, code: str
) -> None:
    """More or fewer bytes, an outage, no right; and a generation that is gone, which Cloud Storage
    does not tell from a missing right to whoever may not list, but by the object that is there."""

    def answer(server: _Quiet) -> None:
        if "alt=media" in server.path:
            server.answer(status, content, {"Location": "https://example.com/"})
        elif live is None:
            server.answer(status)
        else:
            server.answer(200, b'{"generation": "%d", "size": "3"}' % live)

    with storage(answer) as files, pytest.raises(CopyError) as caught:
        b"".join(files.blocks(FILE))
    assert caught.value.code == code
    assert "ya29" not in caught.value.text


def test_a_role_on_the_source_that_has_no_effect_yet_is_waited_for(rig: Rig) -> None:
    """The machine may be up before its account may read there; after the time that roles may take
    it is a refusal."""
    wanted = job(rig, settling_seconds=600)
    rig.metadata.job = wanted.to_json()
    rig.api.call("POST", "_emulator/faults", body={"rules": refusing("storage.objects.get")})
    waiting = Waiting(until=lambda now: now >= 420 and rig.api.call("DELETE", "_emulator/faults"))
    assert main(rig.metadata.environ, sleep=waiting.sleep, clock=waiting.clock) == 0
    assert done(rig.metadata.last)
    assert 420 <= waiting.now < 440

    rig.metadata.job = replace(wanted, again=True).to_json()
    rig.api.call("POST", "_emulator/faults", body={"rules": refusing("storage.objects.get")})
    waiting = Waiting()
    assert main(rig.metadata.environ, sleep=waiting.sleep, clock=waiting.clock) == 1
    assert (rig.metadata.last["code"], waiting.now) == ("source-refused", 600)


def test_the_token_goes_to_cloud_storage_alone(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    """No redirect is followed with it, no Hub or Secret Manager is asked, and it is in no report
    and no line."""
    seen: list[str] = []

    class Elsewhere(_Quiet):
        def do_GET(self) -> None:  # noqa: N802
            seen.append(self.path)
            self.answer(200, ORIGINAL)

    with serving(Elsewhere) as elsewhere:
        moved = {"Location": f"{elsewhere}/moved"}
        redirecting = storage(lambda server: server.answer(302, headers=moved))
        with redirecting as files, pytest.raises(CopyError):
            b"".join(files.blocks(FILE))
        done(rig.run(replace(job(rig), secretmanager=elsewhere)))
    assert seen == []
    told = "".join((*rig.metadata.told, rig.metadata.job, *capfd.readouterr()))
    assert TOKEN not in told


def test_a_job_of_a_bucket_is_read_as_it_was_written(rig: Rig) -> None:
    """And no two listings of a place are one job."""
    wanted = job(rig)
    assert Job.from_json(wanted.to_json()) == wanted
    newer = replace(wanted.files[0], generation=wanted.files[0].generation + 1)
    assert replace(wanted, files=(newer, *wanted.files[1:])).id != wanted.id
    assert base64.b64decode(wanted.files[0].crc32c)


def test_nothing_listed_is_never_right(rig: Rig) -> None:
    """A file without any sum, which no command writes into a job, is not copied."""
    wanted = job(rig)
    bare = tuple(replace(each, crc32c="") for each in wanted.files)
    report = rig.run(replace(wanted, files=bare))
    assert (report["state"], report["code"]) == ("failed", "source-content")
    assert rig.names() == set()
