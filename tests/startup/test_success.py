"""The startup script when all is well: what it starts and reports, and that it can run again."""

from __future__ import annotations

import ast
import hashlib
import json
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.startup.cloud import API_KEY, FILES, VERSION
from tests.startup.host import HOSTILE, StartupHost, StartupRun

Booted = tuple[StartupHost, StartupRun]

PHASES = [
    *("config", "capacity", "secrets", "fetch", "container", "health", "completion"),
    "READY",
]


def test_reports_every_phase_and_ends_ready(booted: Booted) -> None:
    """A boot reports each phase once, in order, with its time, and ends in READY without error."""
    host, run = booted
    assert run.status == 0, run.output
    assert host.cloud.phases() == PHASES
    assert host.cloud.last("error") == ""
    timeline = json.loads(host.cloud.last("timeline"))
    at = PHASES.index("fetch")
    assert list(timeline) == [*PHASES[:at], "image", "weights", *PHASES[at + 1 :]]
    assert timeline["image"] == timeline["weights"]
    assert list(timeline.values()) == sorted(timeline.values())


def test_the_script_is_kept_for_a_restart(booted: Booted) -> None:
    """A restart runs the script that the boot ran, which only root can read or change."""
    host, _ = booted
    kept = host.root / "run/tpuflex/startup-script"
    assert kept.read_text() == host.script.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_ready_means_that_a_completion_was_served(booted: Booted) -> None:
    """Before READY, the served model has answered a chat request with the key."""
    host, _ = booted
    completions = [line for line in host.cloud.requests if "POST /v1/chat/completions" in line]
    assert len(completions) == 1
    assert '"model": "tiny"' in completions[0]


def test_the_server_is_shown_no_clients_key(booted: Booted) -> None:
    """All that the host asks its server before READY, it asks with a key of its own, which a host
    has for one boot."""
    host, _ = booted
    own = host.memory("secrets", "host-key").read_text().strip()
    assert API_KEY not in host.cloud.shown
    # The others are those that no server may take.
    digests = json.loads((host.root / "run/tpuflex/guard/keys.json").read_text())["full"]
    taken = {key for key in host.cloud.shown if hashlib.sha256(key.encode()).hexdigest() in digests}
    assert taken == {own}
    assert len(own) >= 43
    assert stat.S_IMODE(host.memory("secrets", "host-key").stat().st_mode) == 0o600


def test_container_gets_every_value_as_one_word(booted: Booted) -> None:
    """Values of the configuration reach docker unchanged, whatever a shell would make of them."""
    host, _ = booted
    (call,) = host.docker_calls("run")
    words = shlex.split(call)
    assert {f"{name}={value}" for name, value in HOSTILE.items()} <= set(words)
    assert words[words.index("--speculative-config") + 1] == '{"a": "b c"}'
    assert words[words.index("--served-model-name") + 1] == "tiny"
    assert not list(host.directory.rglob("injected"))


def test_container_is_pinned_and_restarts(booted: Booted) -> None:
    """The container has the fixed name, the pinned image, a restart policy and bounded logs."""
    host, _ = booted
    words = shlex.split(host.docker_calls("run")[0])
    for option, value in {
        "--name": "vllm",
        "--restart": "unless-stopped",
        "--shm-size": "1g",
    }.items():
        assert words[words.index(option) + 1] == value
    assert "registry/vllm@sha256:" + "ab" * 32 in words
    assert "max-size=100m" in words
    assert "--ssl-certfile" not in words


def python_prints(code: str, *path: Path) -> str:
    """What a Python process prints that begins with these directories on its path."""
    environment = {"PYTHONPATH": ":".join(map(str, path))}
    return subprocess.check_output([sys.executable, "-B", "-c", code], env=environment, text=True)


def test_full_collections_are_rare_in_the_servers_processes(booted: Booted) -> None:
    """Every Python process that has the guard's directory on its path begins with rare full
    collections, and with the younger ones as ever."""
    host, _ = booted
    threshold = "import gc; print(gc.get_threshold())"
    young, middle, _full = ast.literal_eval(python_prints(threshold))

    found = ast.literal_eval(python_prints(threshold, host.root / "run" / "tpuflex" / "guard"))

    assert found == (young, middle, 1000)


#: A ``sitecustomize`` that looks for the one that it hides, as agents that watch programs do.
_HIDING = """
import os, runpy, sys
print("of the image")
here = os.path.dirname(os.path.abspath(__file__))
for each in sys.path:
    if each != here and os.path.exists(os.path.join(each, "sitecustomize.py")):
        runpy.run_path(os.path.join(each, "sitecustomize.py"), run_name="sitecustomize")
"""


@pytest.mark.parametrize("own", ["print('of the image')", _HIDING])
def test_the_images_own_sitecustomize_is_run_once(booted: Booted, tmp_path: Path, own: str) -> None:
    """Also where that one runs what it hides, which may be ours."""
    host, _ = booted
    (tmp_path / "sitecustomize.py").write_text(own)

    printed = python_prints("print('server')", host.root / "run" / "tpuflex" / "guard", tmp_path)

    assert printed == "of the image\nserver\n"


def test_mounts_keep_their_path_and_are_read_only(booted: Booted) -> None:
    """Weights and guard are bound read-only at the path they have on the host; no key is. All that
    the server can write is its compile cache."""
    host, _ = booted
    words = shlex.split(host.docker_calls("run")[0])
    mounts = [words[index + 1] for index, word in enumerate(words) if word == "--mount"]
    assert len(mounts) == 3
    assert "secrets" not in " ".join(mounts)
    written = []
    for mount in mounts:
        options = dict(part.partition("=")[::2] for part in mount.split(","))
        assert options["source"] == options["target"]
        if "readonly" not in options:
            written.append(options["source"])
    assert len(written) == 1
    assert "/var/lib/tpuflex/compile-cache/" in written[0]
    assert written[0].endswith("/programs")


def test_key_is_only_in_its_file(booted: Booted) -> None:
    """The API key is only in one file that only root can read: in no log, report or argument."""
    host, run = booted
    assert (host.directory / "curl.calls").stat().st_size > 0
    assert API_KEY not in run.output
    assert host.files_with(API_KEY) == ["root/run/tpuflex/memory/secrets/api-key"]
    file = host.memory("secrets", "api-key")
    assert stat.S_IMODE(file.stat().st_mode) == 0o400
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert all(API_KEY not in text for _, text in host.cloud.reports)


#: Fetches the keys, and gives the guard what it needs of them.
KEYS = "phase() { :; }\nread_config\nfetch_secrets\nmkdir -p $GUARD_DIR\nwrite_digests"


def test_container_gets_digests_of_the_keys(host: StartupHost) -> None:
    """Each client's key, and the metrics key, reaches the guard as its SHA-256 and as no more."""
    metrics = VERSION.replace("api-key", "metrics-key")
    host.cloud.secrets = {VERSION: f"{API_KEY}\n  second-key \n", metrics: "metrics-key-1"}
    host.cloud.config = host.config(
        secrets=[
            {"role": "api-key", "version": VERSION},
            {"role": "metrics-key", "version": metrics},
        ]
    )
    host.functions(KEYS)
    keys = json.loads((host.root / "run" / "tpuflex" / "guard" / "keys.json").read_text())
    own = host.memory("secrets", "host-key").read_text().strip()
    assert keys == {
        "full": [hashlib.sha256(key.encode()).hexdigest() for key in (API_KEY, "second-key", own)],
        "metrics": [hashlib.sha256(b"metrics-key-1").hexdigest()],
    }


def test_access_token_is_in_no_log(booted: Booted) -> None:
    """The host's access token is in a header file in memory, and in no output."""
    host, run = booted
    assert "ya29.host" not in run.output
    assert host.files_with("ya29.host") == ["root/run/tpuflex/memory/authorization"]


def test_weights_are_complete(booted: Booted) -> None:
    """The server finds exactly the manifest's files."""
    host, _ = booted
    assert host.weights() == FILES


def test_further_runs_keep_what_is_right(host: StartupHost) -> None:
    """Run again on a live host, the script restarts nothing and fetches nothing twice. Changed
    settings replace the container and keep the weights, and so does a key that is taken back, which
    ends to open the server."""
    host.cloud.secrets[VERSION] = f"{API_KEY}\nsecond-key"
    host.run()
    before = host.cloud.asked("safetensors")
    run = host.run()
    assert run.status == 0, run.output
    assert len(host.docker_calls("run")) == 1
    assert host.docker_calls("rm") == []
    assert host.cloud.asked("api-key") == 1
    # What the run before has reported is replaced before anything else.
    assert host.cloud.phases() == [*PHASES, "start", *PHASES]

    serving = host.config()["serving"] | {"args": ["--dtype", "float32"]}
    host.cloud.config = host.config(serving=serving)
    host.run()
    assert (len(host.docker_calls("rm")), len(host.docker_calls("run"))) == (1, 2)

    second = VERSION.replace("versions/1", "versions/2")
    host.cloud.secrets[second] = API_KEY
    secrets = [{"role": "api-key", "version": second}]
    host.cloud.config = host.config(serving=serving, secrets=secrets)
    assert host.run().status == 0
    assert len(host.docker_calls("run")) == 3
    assert host.cloud.asked("safetensors") == before


def test_base_model_is_asked_for_a_plain_completion(host: StartupHost) -> None:
    """A model without a chat template is checked with a text completion."""
    host.cloud.answers["/v1/chat/completions"] = [400]
    host.mark("container.json")
    told = host.functions(
        f"{KEYS}\nprintf 127.0.0.1 >$STATE_DIR/address\n"
        "write_key key.header\ncomplete_somehow answer key.header"
    )
    assert told == "200"
    assert host.cloud.asked("POST /v1/completions") == 1


def test_passing_trouble_is_waited_out(host: StartupHost) -> None:
    """Metadata, Secret Manager and Cloud Storage may all need a moment to come up; a host that
    waits for weights names the command to run."""
    host.cloud.answers = {
        "tpuflex-config": [503, 404],
        "default/token": [500],
        "secrets/api-key": [403, 429, 404],
        "MANIFEST.json": [404] * 5,
        "model-1.safetensors": [503, 429, 403, 500],
    }
    run = host.run()
    assert run.status == 0, run.output
    text = "waiting for MANIFEST.json; run: tpuflex weights push --stack dev"
    assert text in host.cloud.details()
    assert host.cloud.phases()[-1] == "READY"
    assert host.weights() == FILES


def test_tokens_that_expire_are_renewed(host: StartupHost) -> None:
    """A token that is refused during any phase is replaced by another one, and the boot goes on."""
    host.cloud.answers = {
        "api-key/versions": [401],
        "MANIFEST.json": [401, 401],
        "model-1": [401],
        "/v2/entries:write": [401],
    }
    run = host.run()
    assert run.status == 0, run.output
    assert host.cloud.phases()[-1] == "READY"
    assert host.weights() == FILES
    assert host.cloud.asked("service-accounts/default/token") >= 4
    assert not any(host.cloud.answers.values())
