"""What the copying program believes of servers: redirects, and what a machine reports."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.copier.jobs import COMMIT, job_of
from tests.copier.rig import _Quiet, serving
from tests.hub_models import TOKEN
from tpuflex.copier.errors import CopyError
from tpuflex.copier.http import Patience, RefusedError, Response, UnreachableError
from tpuflex.copier.hub import Hub
from tpuflex.copier.job import HubOrigin, Job, JobFile
from tpuflex.copier.report import MOST_CHARACTERS, Report, read_report

FILE = JobFile("a.json", 4, "", "0" * 40)
JOB = job_of(FILE)


def fetched(hub: str, file: JobFile = FILE) -> bytes:
    """``file`` of the Hub at ``hub``, asked for with a token."""
    patience = Patience(lambda _seconds: None)
    origin = HubOrigin(hub, "acme/tiny", COMMIT)
    return b"".join(Hub(origin, TOKEN, patience).blocks(file))


def test_the_token_is_not_carried_elsewhere() -> None:
    """A redirect to another server, as to where large files are kept, gets no Authorization; one
    within the Hub does."""
    seen: dict[str, str | None] = {}

    class Elsewhere(_Quiet):
        def do_GET(self) -> None:  # noqa: N802
            seen["elsewhere"] = self.headers.get("Authorization")
            self.answer(200, b"data")

    with serving(Elsewhere) as elsewhere:

        class Here(_Quiet):
            def do_GET(self) -> None:  # noqa: N802
                seen[self.path] = self.headers.get("Authorization")
                moved = self.path.startswith("/moved")
                target = f"{elsewhere}/blob" if moved else "/moved"
                self.answer(302, headers={"Location": target})

        with serving(Here) as here:
            assert fetched(here) == b"data"

    assert seen["/moved"] == f"Bearer {TOKEN}"
    assert seen["elsewhere"] is None


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token",
        "https://metadata.google.internal/x",
        "https://metadata/x",
        "http://example.com/file",
        "https://10.0.0.1/file",
        "https://[fd00::1]/file",
        "file:///etc/passwd",
        "ftp://example.com/file",
    ],
)
def test_hostile_redirects_are_not_followed(target: str) -> None:
    """No redirect leads into the machine's own networks, to its metadata server, or off TLS."""

    class Here(_Quiet):
        def do_GET(self) -> None:  # noqa: N802
            self.answer(302, headers={"Location": target})

    with serving(Here) as here, pytest.raises(CopyError) as caught:
        fetched(here)
    assert caught.value.code == "hub-content"


def test_redirects_in_a_circle_end() -> None:
    """A Hub that redirects for ever is given up."""

    class Here(_Quiet):
        def do_GET(self) -> None:  # noqa: N802
            self.answer(302, headers={"Location": "/again"})

    with serving(Here) as here, pytest.raises(CopyError, match="redirects"):
        fetched(here)


@pytest.mark.parametrize("content", [b"more than it lists", b"", b"x"])
def test_a_file_of_another_length_is_none(content: bytes) -> None:
    """What is longer is refused at once, and what ends too early is asked for a few times."""

    class Here(_Quiet):
        def do_GET(self) -> None:  # noqa: N802
            start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
            self.answer(206, content[start:])

    with serving(Here) as here, pytest.raises(CopyError):
        fetched(here)


def test_no_token_crosses_the_network_in_clear() -> None:
    """A mirror without TLS is not asked."""
    with pytest.raises(CopyError) as caught:
        fetched("http://mirror.test")
    assert caught.value.code == "token"


@pytest.mark.parametrize(
    ("status", "headers", "waits"),
    [
        (429, {"retry-after": "7"}, [8.0]),
        (503, {}, [1.0]),
        (429, {"retry-after": "3600"}, []),
        (403, {}, []),
    ],
)
def test_waits_are_as_long_as_the_server_says(
    status: int, headers: dict[str, str], waits: list[float]
) -> None:
    """What may succeed later is asked again, as late as the server says and no later than five
    minutes; what will not is not."""
    waited: list[float] = []
    left = [RefusedError(Response(status, headers, lambda _size: b""))]

    def attempt() -> str:
        if left:
            raise left.pop()
        return "there"

    patience = Patience(waited.append)
    if waits:
        assert patience.ask(attempt) == "there"
    else:
        with pytest.raises(RefusedError):
            patience.ask(attempt)
    assert waited == waits


def test_a_line_that_stays_dead_is_given_up() -> None:
    """Not after five minutes each time, and not for ever."""
    waited: list[float] = []

    def attempt() -> None:
        raise UnreachableError("gone")

    with pytest.raises(UnreachableError):
        Patience(waited.append).ask(attempt)
    assert waited == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def _report(**changes: Any) -> str:
    right = json.loads(Report("job", "copying", 5, (0, 1)).to_json())
    return json.dumps({**right, **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        pytest.param("[" * 100_000, id="deep"),
        _report(schema=2),
        _report(job="another"),
        _report(state="rm -rf"),
        _report(state=None),
        pytest.param(_report(text="x" * MOST_CHARACTERS), id="long"),
    ],
)
def test_what_is_no_report_is_none(text: str) -> None:
    """Whoever is root on the machine writes it: it is parsed, bounded, and of this job."""
    assert read_report(text, job="job", files=2, total=10) is None


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"done_bytes": 10**30}, "done_bytes", 10),
        ({"done_bytes": -1}, "done_bytes", 0),
        ({"done_bytes": True}, "done_bytes", 0),
        ({"done_bytes": "5"}, "done_bytes", 0),
        ({"kept": [1, 7, -1, "0", None, True]}, "kept", (1,)),
        ({"kept": {"0": 1}}, "kept", ()),
        ({"manifest_sha256": "0" * 63}, "manifest_sha256", ""),
        ({"manifest_sha256": ["0" * 64]}, "manifest_sha256", ""),
        ({"code": "made-up"}, "code", ""),
        ({"code": ["token"]}, "code", ""),
        ({"text": "\x1b[2Jgone\u202e\n"}, "text", "\ufffd[2Jgone\ufffd\ufffd"),
        ({"text": 5}, "text", ""),
    ],
)
def test_hostile_reports_are_cut_to_what_they_may_say(
    changes: dict[str, Any], field: str, value: object
) -> None:
    """Numbers stay within the job, places within its files, and text is short and printable."""
    report = read_report(_report(**changes), job="job", files=2, total=10)
    assert report is not None
    assert getattr(report, field) == value


def test_a_report_is_read_as_it_was_written() -> None:
    """Of a right one nothing is lost."""
    told = Report("job", "failed", 5, (0, 1), "a" * 64, "token", "no token")
    assert read_report(told.to_json(), job="job", files=2, total=10) == told


def test_a_job_is_read_as_it_was_written() -> None:
    """And is told from another by its id."""
    assert Job.from_json(JOB.to_json()) == JOB
    assert replace(JOB, again=True).id != JOB.id
