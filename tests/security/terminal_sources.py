"""Every way in which foreign text reaches the terminal, each as a program of its own.

``python -m tests.security.terminal_sources SOURCE`` shows :data:`HOSTILE` as that source would.
Run by test_text_terminal.py on a real terminal.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pulumi_plugin.credentials import scrub
from tests.security.answering import server
from tpuflex.cli.endpoint.status import show_status
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run
from tpuflex.engine.events import Note
from tpuflex.errors import EmulatorError, TpuflexError
from tpuflex.google.rpc_errors import as_exception, read_rpc_error
from tpuflex.host.boot_wait import BootDeadlines, BootWait
from tpuflex.host.report import HostReport, host_report
from tpuflex.operate.endpoint_status import EndpointStatus
from tpuflex.operate.question import Question, stream_answer
from tpuflex.operate.slice import SliceStatus
from tpuflex.project import open_project
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.stack import read_stack
from tpuflex.terminal.output import Output
from tpuflex.terminal.progress import EngineProgress, HostProgress

ROOT = Path(__file__).parents[2]

#: Window title, clipboard, link, clear, cursor, colour as C1, bidi, invisible, back over the line.
HOSTILE = (
    "A\x1b]0;owned\x07B\x1b]52;c;b3duZWQ=\x07C\x1b]8;;https://evil.example\x1b\\D\x1b[2J\x1b[1;1HE"
    "\x9b31mF\u202eG\u2066H\u200bI\U000e0041J\x7fK\x08L\rM[link=https://evil.example]N[/link]O:smile:P"
)
ATTRIBUTES = {"phase": "weights", "detail": HOSTILE, "error": f"server: {HOSTILE}"}

OUTPUT = Output(json=False, verbose=False)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _report(attributes: dict[str, str]) -> HostReport:
    report = host_report({"report": json.dumps(attributes)})
    assert report is not None
    return report


def _status(host: HostReport, error: str = "") -> None:
    status = SliceStatus(
        queued_resource="q",
        zone="us-east5-a",
        state="ACTIVE",
        lifecycle=Lifecycle.ACTIVE,
        sentence="the hosts run",
        error=error,
        node="projects/p/locations/z/nodes/n",
        node_state="READY",
        host=host,
    )
    stack = read_stack(open_project(ROOT, {}), "dev")
    show_status(Invocation(environ={}).output, EndpointStatus(stack, status, NOON))


def guest_attributes_in_status() -> None:
    _status(_report(ATTRIBUTES))


def failure_in_status() -> None:
    _status(_report({"phase": "READY"}), error=HOSTILE)


def guest_attributes_in_up() -> None:
    with HostProgress(OUTPUT) as progress:
        progress.changed(_report({"phase": "weights", "detail": HOSTILE}))
        progress.tick()


def end_of_the_log() -> None:
    try:
        BootWait(
            lambda: _report({"phase": HOSTILE, "error": f"server: the end:\n{HOSTILE}\nbye"}),
            look=lambda: None,
            deadlines=BootDeadlines(first_report=1.0, ready=1.0),
            now=lambda: 0.0,
            sleep=lambda _: None,
            changed=lambda _: None,
            refused=lambda _: None,
            log="serial.log",
        ).run()
    except TpuflexError as error:
        OUTPUT.failure(error)


def model_answer() -> None:
    """One letter at a time, so that no sequence arrives whole."""
    events: list[object] = [{"choices": [{"delta": {"content": letter}}]} for letter in HOSTILE]
    events.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    _asked(200, b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events))


def answer_of_an_endpoint() -> None:
    _asked(404, HOSTILE.encode())


def _asked(status: int, body: bytes) -> None:
    with server([body], status=status) as (url, _):
        try:
            stream_answer(
                Question(f"{url}/v1", "m", "?"), "key", show=OUTPUT.piece, now=lambda: 0.0
            )
        except TpuflexError as error:
            OUTPUT.failure(error)


def error_of_an_api() -> None:
    body = json.dumps({"error": {"message": HOSTILE, "status": "INTERNAL"}}).encode()
    error = as_exception(read_rpc_error(400, body), method="GET", url="https://tpu.googleapis.com")
    OUTPUT.failure(error)


def error_of_a_plugin() -> None:
    """The engine prints what a plugin reports as it is."""
    body = json.dumps({"error": {"message": HOSTILE, "status": "INTERNAL"}}).encode()
    error = as_exception(read_rpc_error(400, body), method="GET", url="https://tpu.googleapis.com")
    sys.stderr.write(scrub(f"{error}\n"))


def note_of_the_engine() -> None:
    with EngineProgress(OUTPUT, 1) as progress:
        progress.listen(Note("warning", HOSTILE, HOSTILE))
        progress.listen(Note("info", HOSTILE, "vllm", passing=True))


def names_in_a_listing() -> None:
    OUTPUT.table(("KIND", "NAME"), [("bucket", HOSTILE), ("account", f"a\n{HOSTILE}")])
    OUTPUT.facts((("description", HOSTILE),))
    OUTPUT.result(f"Not deleted: {HOSTILE}")
    OUTPUT.heading(HOSTILE)


def stack_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "Pulumi.yaml").write_text("name: tpuflex\nruntime: python\n")
        quoted = json.dumps(HOSTILE)
        text = (
            f"config:\n  tpuflex:cloud: {quoted}\n  {quoted}: 1\n  tpuflex:slice: {{{quoted}: 1}}\n"
        )
        (root / "Pulumi.dev.yaml").write_text(text)
        run(["-C", folder, "preview"], Invocation(environ={}))


def argument() -> None:
    run(["-C", str(ROOT), "--stack", HOSTILE, "preview"], Invocation(environ={}))
    run([HOSTILE], Invocation(environ={}))


def transfer() -> None:
    with OUTPUT.transfer(HOSTILE) as show:
        show(1, 1)


def docker() -> None:
    OUTPUT.failure(EmulatorError(f"docker: {HOSTILE}", hint=HOSTILE))


SOURCES: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        guest_attributes_in_status,
        failure_in_status,
        guest_attributes_in_up,
        end_of_the_log,
        model_answer,
        answer_of_an_endpoint,
        error_of_an_api,
        error_of_a_plugin,
        note_of_the_engine,
        names_in_a_listing,
        stack_file,
        argument,
        transfer,
        docker,
    )
}

#: On a line of its own before what each source shows.
BEGINS = "=== {} ==="

if __name__ == "__main__":
    for name, source in SOURCES.items():
        print(BEGINS.format(name), flush=True)
        with suppress(SystemExit):
            source()
