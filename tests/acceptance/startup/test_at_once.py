"""Image and weights are brought at once: both are told, and the failure of one ends the other."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import NamedTuple

from tests.startup.cloud import FILES, PREFIX
from tests.startup.host import UNSET, StartupHost

GOOGLES = "us-east5-docker.pkg.dev/my-project/vllm@sha256:" + "ab" * 32
SHARD = "model-1.safetensors"


class Process(NamedTuple):
    """A process of a host."""

    pid: int
    parent: int
    command: str


def all_of(host: StartupHost) -> list[Process]:
    """The processes that work in the host's directory; not those that are at their very end, which
    have given back their memory, and with it their command."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").resolve() == host.directory.resolve():
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                command = (entry / "cmdline").read_text().replace("\0", " ")
                if command:
                    found.append(Process(int(entry.name), int(parent), command))
        except OSError:
            continue
    return found


def processes_of(host: StartupHost) -> list[str]:
    """Commands of processes that work in the host's directory, but for that of the test, and for
    what writes the log: it ends a moment after all that write to it."""
    commands = [each.command for each in all_of(host)]
    return [command for command in commands if not command.startswith("tee --append ")]


def test_neither_waits_for_the_other(host: StartupHost) -> None:
    """The pull ends only once weights are being fetched, these arrive only once the pull has begun,
    and both are told in one detail."""
    slow = host.mark("registry-slow")
    pulling = host.directory / "pulling"
    seen: list[str] = []

    def before_object(path: str) -> None:
        if path == SHARD:
            while not pulling.exists():
                threading.Event().wait(0.01)
            slow.unlink(missing_ok=True)

    def on_report(report: dict[str, str]) -> None:
        seen.append(report.get("detail", ""))

    host.cloud.before_object = before_object
    host.cloud.on_report = on_report
    run = host.run()
    assert run.status == 0, run.output
    assert host.weights() == FILES
    assert any("image: " in detail and "weights: " in detail for detail in seen)
    (both,) = {detail for detail in seen if "weights: 0 MB checked" in detail}
    assert both.startswith("image: the image is there; weights: 0 MB checked")


def test_parts_end_with_what_bash_ends(host: StartupHost) -> None:
    """Where bash ends the script by itself while a pull lasts, no process is left, and the report
    says in which phase."""
    host.mark("registry-slow")
    host.inject("await_parts() {", f"until [[ -e {host.directory}/pulling ]]; do :; done\n{UNSET}")
    assert host.run().status == 1
    assert host.cloud.last("error").startswith("phase-fetch: bash ended the script with status 1")
    assert processes_of(host) == []


def test_weights_that_fail_end_the_pull(host: StartupHost) -> None:
    """A pull that would last is ended at once, the report has the weights' phase and reason, no
    process and no token is left, and the next run serves."""
    host.cloud.config = host.config(container=host.config()["container"] | {"image": GOOGLES})
    slow = host.mark("registry-slow")
    pulling = host.directory / "pulling"
    host.cloud.answers[SHARD] = [500] * 5

    manifests = []

    def before_object(path: str) -> None:
        # The first time, phase `capacity` asks.
        manifests.extend([path] if path == "MANIFEST.json" else [])
        while len(manifests) > 1 and not pulling.exists():
            threading.Event().wait(0.01)

    host.cloud.before_object = before_object
    run = host.run()
    assert run.status == 1, run.output
    assert host.cloud.last("error").startswith(f"weights-download: {SHARD} ")
    assert host.cloud.last("phase") == "weights"
    assert processes_of(host) == []
    assert not host.memory("registry").exists()
    assert host.docker_calls("run") == []

    slow.unlink()
    host.cloud.answers.clear()
    again = host.run()
    assert again.status == 0, again.output
    assert host.cloud.last("error") == ""
    assert host.weights() == FILES


def test_an_image_that_fails_ends_the_download(host: StartupHost) -> None:
    """A download that would last is ended at once, the report has the image's phase and reason, no
    process is left, and the next run fetches what is missing, and serves."""
    host.mark("registry-down")
    may_answer = threading.Event()

    def before_object(path: str) -> None:
        if path == SHARD:
            may_answer.wait(60)

    host.cloud.before_object = before_object
    run = host.run()
    may_answer.set()
    assert run.status == 1, run.output
    assert host.cloud.last("error").startswith("image: docker cannot pull")
    assert host.cloud.last("phase") == "image"
    assert processes_of(host) == []
    assert host.docker_calls("run") == []

    (host.directory / "registry-down").unlink()
    again = host.run()
    assert again.status == 0, again.output
    assert host.weights() == FILES


def test_a_part_that_is_killed(host: StartupHost) -> None:
    """A part that ends without a word, as where the kernel has no memory left, ends the boot, and
    is named."""
    host.mark("pull-kills")
    run = host.run()
    assert run.status == 1, run.output
    assert host.cloud.last("error") == "phase-image: it ended with status 137"
    assert processes_of(host) == []


def test_a_download_that_is_killed_leaves_nobody_behind(host: StartupHost) -> None:
    """Where the process that fetches weights is killed, none that it began goes on for good: it
    would keep the lock, and the next run would wait for it without end."""
    fetchers: list[int] = []

    def before_object(path: str) -> None:
        if path == SHARD and not fetchers:
            downloads = [each for each in all_of(host) if "download.main" in each.command]
            begun = {each.pid for each in downloads}
            fetchers.extend({each.parent for each in downloads} - begun)
            os.kill(fetchers[0], signal.SIGKILL)

    host.cloud.before_object = before_object
    run = host.run()
    assert run.status == 1, run.output
    assert len(fetchers) == 1
    assert host.cloud.last("error") == "phase-weights: it ended with status 137"
    for _ in range(600):
        if not processes_of(host):
            break
        threading.Event().wait(0.05)
    assert processes_of(host) == []


def test_an_unexpected_failure_in_a_part(host: StartupHost) -> None:
    """A command that fails unexpectedly is reported with the part, its line and the command."""
    host.cloud.answers[f"{PREFIX}/MANIFEST.json"] = [404]
    host.command("sha256sum", "#!/bin/sh\nexit 3\n")
    run = host.run()
    assert run.status == 1, run.output
    error = host.cloud.last("error")
    assert error.startswith("phase-weights: line ")
    assert error.endswith(': found=$(sha256sum "$STATE_DIR/manifest.json") ended with status 3')


def test_a_run_that_is_told_to_end(host: StartupHost) -> None:
    """Who ends the script ends both parts: no process is left."""
    host.mark("registry-slow")
    reached, may_answer = threading.Event(), threading.Event()

    def before_object(path: str) -> None:
        if path == SHARD:
            reached.set()
            may_answer.wait(60)

    host.cloud.before_object = before_object
    process = host.start()
    try:
        assert reached.wait(60)
        process.terminate()
        process.communicate(timeout=60)
    finally:
        may_answer.set()
        host.kill(process)
    assert process.returncode != 0
    assert processes_of(host) == []


#: Nothing is heard for two seconds; before the look at who still runs, the pull ends and says so.
_LATE_WORD = r"""
read() {
    [[ $* != *' -u 7 '* || -e $STATE_DIR/looked ]] || return 1
    builtin read "$@"
}
is_running() {
    if [[ $1 == "${PARTS[image]:-}" ]]; then
        while [[ -e /proc/$1 ]]; do sleep 0.01; done
        : >"$STATE_DIR/looked"
    fi
    [[ $'\n'$(jobs -rp)$'\n' == *$'\n'"$1"$'\n'* ]]
}
main "$@"
"""


def test_a_part_that_ends_while_it_is_looked_at(host: StartupHost) -> None:
    """It is seen to have ended before its word is read: the boot goes on, and counts it once."""
    main = 'main "$@"\n\n'
    script = host.script.read_text()
    assert script.endswith(main)
    host.script.write_text(script.removesuffix(main) + _LATE_WORD)
    looked = host.root / "run" / "tpuflex" / "looked"

    def before_object(path: str) -> None:
        while path == SHARD and not looked.exists():
            threading.Event().wait(0.01)

    host.cloud.before_object = before_object
    run = host.run()
    assert run.status == 0, run.output
    assert list(json.loads(host.cloud.last("ended"))) == ["image", "weights"]
