"""A run can be recorded: what was asked, what was answered, and no secret."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests

from tests.loopback import serving
from tpuflex.errors import AccessError
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.recording import VARIABLE, Recording
from tpuflex.google.session import EMBEDDED_TOKEN, AuthorizedSession, authorized_session

TOKEN = f"{EMBEDDED_TOKEN}.canary-of-a-token"
PAYLOAD = "Y2FuYXJ5LW9mLWEtc2VjcmV0"


class Answers(BaseHTTPRequestHandler):
    """Answers every request with a payload."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = json.dumps({"payload": {"data": PAYLOAD}, "name": "x"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815 - the name that the server looks for

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def url() -> Iterator[str]:
    """A server on loopback."""
    with serving(Answers) as url:
        yield url


def session(url: str, environ: dict[str, str]) -> AuthorizedSession:
    """A session for a cloud at ``url``."""
    return authorized_session(
        Endpoints(*[url] * len(Endpoints.__slots__)),
        {"GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN, **environ},
    )


def test_requests_and_answers_are_written_and_no_secret(url: str, tmp_path: Path) -> None:
    """A line has method, URL, bodies and status; tokens are in headers, which are not written, and
    the bodies of methods that carry a secret are counted only."""
    file = tmp_path / "wire.jsonl"
    client = session(url, {VARIABLE: str(file)})

    client.post(f"{url}/v2/things?alt=json", json={"labels": {"a": "b"}})
    for name in ("secrets/s:addVersion", "secrets/s/versions/1%3Aaccess"):
        client.post(f"{url}/v1/projects/p/{name}", json={"payload": {"data": PAYLOAD}})
    with client.get(f"{url}/download", stream=True) as download:
        assert PAYLOAD in download.text

    text = file.read_text()
    first, added, accessed, streamed = map(json.loads, text.splitlines())
    assert TOKEN not in text
    assert (first["method"], first["url"], first["status"], first["body"], first["answer"]) == (
        "POST",
        f"{url}/v2/things?alt=json",
        200,
        {"labels": {"a": "b"}},
        {"payload": {"data": PAYLOAD}, "name": "x"},
    )
    assert PAYLOAD not in json.dumps([added, accessed, streamed])
    assert streamed["answer"] is None
    assert file.stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_unasked(url: str, tmp_path: Path) -> None:
    """Without the variable there is no file."""
    session(url, {}).post(f"{url}/v2/things")

    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_the_file_is_not_followed(url: str, tmp_path: Path) -> None:
    """What somebody else put there is not written to."""
    (tmp_path / "wire.jsonl").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(AccessError, match="symbolic links"):
        session(url, {VARIABLE: str(tmp_path / "wire.jsonl")})
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("kind", ["pipe", "readable by others", "missing directory"])
def test_a_file_that_is_not_ours_alone_is_refused(url: str, tmp_path: Path, kind: str) -> None:
    """It is refused before anything is asked for, and not waited for."""
    file = tmp_path / "wire.jsonl"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "missing directory":
        file = tmp_path / "nowhere" / "wire.jsonl"
    else:
        file.touch(0o644)
        file.chmod(0o644)

    with pytest.raises(AccessError, match="cannot be written"):
        session(url, {VARIABLE: str(file)})


def test_an_answer_arrives_although_its_record_cannot_be_written(url: str, tmp_path: Path) -> None:
    """What was asked for is done: losing its answer would lose what was made."""
    file = tmp_path / "wire.jsonl"
    client = session(url, {VARIABLE: str(file)})
    file.unlink()
    file.mkdir()

    assert client.post(f"{url}/v2/things").status_code == 200


SIGNATURE = "canary-of-a-signature"


@pytest.mark.parametrize(
    "parameter",
    [
        "X-Goog-Signature",
        "X-Goog-Credential",
        "X-Amz-Security-Token",
        "Signature",
        "sig",
        "Policy",
        "upload_id",
        "access_token",
        "key",
        "verify",
    ],
)
def test_what_makes_a_url_a_credential_is_left_out(
    url: str, tmp_path: Path, parameter: str
) -> None:
    """Whoever reads the record could fetch with a signed URL, or go on with an upload."""
    file = tmp_path / "wire.jsonl"
    client = session(url, {VARIABLE: str(file)})

    client.get(f"{url}/b/o?prefix=models/m&pageToken=next&{parameter}={SIGNATURE}&alt=json")

    (found,) = map(json.loads, file.read_text().splitlines())
    assert found["url"] == (
        f"{url}/b/o?prefix=models/m&pageToken=next&{parameter}=({len(SIGNATURE)} letters)&alt=json"
    )


def recorded(file: Path, url: str, **headers: str) -> str:
    """The URL in the record of a request."""
    response = requests.Response()
    response.status_code = 200
    request = requests.Request("GET", "https://cdn.example/", headers=headers).prepare()
    request.url = url
    Recording(file).add(request, response, whole=False)
    return str(json.loads(file.read_text().splitlines()[-1])["url"])


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        (f"o?any={SIGNATURE}#x", "(2 letters)?any=(21 letters)"),
        (f"blob;id=1/{SIGNATURE}/x", "(34 letters)"),
        (f"?{SIGNATURE}", "(1 letters)?(21 letters)"),
    ],
)
def test_where_a_redirect_leads_nothing_but_the_host_is_written(
    tmp_path: Path, asked: str, written: str
) -> None:
    """The URL alone lets its holder read there, whatever its parts are called."""
    found = recorded(tmp_path / "wire.jsonl", f"https://cdn.example/{asked}")
    assert found == f"https://cdn.example/{written}"


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        (
            f"us-docker.pkg.dev/artifacts-downloads/namespaces/p/repositories/r/downloads/{SIGNATURE}",
            "us-docker.pkg.dev/artifacts-downloads/(59 letters)",
        ),
        (f"me:{SIGNATURE}@us-docker.pkg.dev/v2/p/r", "us-docker.pkg.dev/v2/p/r"),
        (
            f"storage.googleapis.com/b?foo;X-Goog-Signature={SIGNATURE}&alt=json",
            "storage.googleapis.com/b?foo;X-Goog-Signature=(21 letters)&alt=json",
        ),
        (
            f"x.googleapis.com/b?filter=a;b&sig=a;{SIGNATURE}",
            "x.googleapis.com/b?filter=a;b&sig=(23 letters)",
        ),
    ],
)
def test_a_credential_in_a_url_is_left_out_beside_a_token(
    tmp_path: Path, asked: str, written: str
) -> None:
    """What Artifact Registry signs is a path of its own host, to which the caller's token goes on;
    a password may stand in front of the host."""
    found = recorded(tmp_path / "wire.jsonl", f"https://{asked}", Authorization="Bearer x")
    assert found == f"https://{written}"
    assert SIGNATURE not in (tmp_path / "wire.jsonl").read_text()
