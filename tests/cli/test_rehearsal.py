"""A stack for Google in a rehearsal: what is said of it, and what the engine reads in its place."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import ssl
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.checkpoints import tiny
from tests.cli.typing import Captured
from tests.loopback import overrides
from tpuflex.cli.emulator.shell_variables import past_proxies
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run
from tpuflex.deploy.known_stacks import known_stacks
from tpuflex.errors import AccessError, SettingsError, WeightsError
from tpuflex.google.endpoints import OVERRIDES, REHEARSAL_VARIABLE, Endpoints
from tpuflex.settings.weights_source import LocalDirectory
from tpuflex.stack.connection import connect
from tpuflex.stack.emulator import Daemon
from tpuflex.stack.rehearsal import NOTICE, Rehearsal
from tpuflex.stack.stack import Stack
from tpuflex.weights.source import check_source, model_in

ROOT = Path(__file__).parents[2]
STACK = "gemma-4-31b-v6e-4"
REHEARSING = {"PATH": os.environ["PATH"], REHEARSAL_VARIABLE: "1"}
#: What a real stack file may have at its end: the key of Cloud KMS that opens its secrets.
SEALED = """\
  monitoring:token:
    secure: AAABAKnYZK
secretsprovider: gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k
encryptedkey: CiQAn
"""


@pytest.fixture
def stack(project: Path) -> Stack:
    """A stack for Google whose secrets Cloud KMS has, opened in a rehearsal."""
    text = (ROOT / "stacks" / f"Pulumi.{STACK}.yaml").read_text()
    text = text.replace("my-project-id", "acme-prod-1")
    (project / "stacks" / f"Pulumi.{STACK}.yaml").write_text(text + SEALED)
    return Invocation(environ=REHEARSING, directory=project, chosen_stack=STACK).open_stack()


def test_it_runs_on_the_embedded_cloud_and_says_so(stack: Stack) -> None:
    """It stays a stack for Google, with other files; without the variable it is on Google; and a
    stack of the embedded cloud is no rehearsal."""
    real = replace(stack, rehearsing=False)
    dev = replace(stack, settings=stack.settings.model_copy(update={"cloud": "embedded"}))

    assert stack.settings.cloud == "google"
    assert (stack.embedded, stack.rehearsed) == (True, True)
    assert stack.cloud_text == "the embedded cloud: a rehearsal for Google Cloud acme-prod-1"
    assert stack.own_files == stack.engine_project == stack.project.home / "rehearsal"
    assert (real.embedded, real.rehearsed, real.cloud_text) == (
        False,
        False,
        "Google Cloud acme-prod-1",
    )
    assert (real.own_files, real.engine_project) == (stack.project.home, stack.project.root)
    assert (dev.embedded, dev.rehearsed, dev.cloud_text) == (True, False, "the embedded cloud")


def test_the_engine_reads_a_copy_without_what_the_real_key_opens(stack: Stack) -> None:
    """The engine would ask Cloud KMS for the key in the real file, which stays as it is."""
    before = stack.file.read_bytes()
    rehearsal = Rehearsal.below(stack.project.home)

    rehearsal.write_project(stack.project.name, stack.file)

    copy = rehearsal.directory / stack.file.name
    document = yaml.safe_load(copy.read_text())
    assert set(document) == {"config", "encryptionsalt"}
    assert set(document["config"]) == set(yaml.safe_load(before)["config"]) - {"monitoring:token"}
    assert yaml.safe_load((rehearsal.directory / "Pulumi.yaml").read_text()) == {
        "name": stack.project.name,
        "runtime": "python",
    }
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stack.file.read_bytes() == before
    assert rehearsal.variables() == {"PULUMI_BACKEND_URL": f"file://{rehearsal.backend}"}


@pytest.mark.usefixtures("stack")
def test_every_command_says_it_first_and_documents_say_it(project: Path, capsys: Captured) -> None:
    """The first line, even before an error, and in JSON; prices are those of Google."""
    for words in (["cost"], ["status"], ["catalog", "models"]):
        invocation = Invocation(environ=REHEARSING, directory=project)
        code = run(["-C", str(project), "--stack", STACK, "--json", *words], invocation)
        said = capsys.readouterr()
        assert said.err.splitlines()[0] == NOTICE
        assert (code == 0) == (words != ["status"])
        document = json.loads(said.out)
        assert isinstance(document, list) or document["rehearsal"] is True
        assert words != ["cost"] or document["free"] is False


def test_without_the_variable_nothing_says_so(project: Path, capsys: Captured) -> None:
    """A document has the key in a rehearsal only."""
    assert run(["-C", str(project), "--json", "cost"], Invocation(environ={})) == 0
    said = capsys.readouterr()

    assert "rehearsal" not in said.out
    assert said.err == ""


def test_the_shell_of_a_rehearsal(stack: Stack, capsys: Captured) -> None:
    """Every API is on this machine. What the shell had for Google is forgotten, requests to this
    machine take no proxy, gcloud trusts no server over TLS, and a plain `pulumi`, which would read
    and write the real stack file, has no backend."""
    root, home = stack.project.root, stack.project.home
    googles = ("GOOGLE_CREDENTIALS", "CLOUDSDK_PROXY_ADDRESS", "PULUMI_CONFIG_PASSPHRASE_FILE")
    shell = {
        "PATH": os.environ["PATH"],
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json",
        "CLOUDSDK_PYTHON": "/usr/bin/python3",
        "no_proxy": "intra.example",
        **dict.fromkeys(googles, "x"),
    }
    Daemon(home).start(0)
    try:
        words = ["-C", str(root), "--stack", STACK, "--json", "emulator", "env", "--rehearse"]
        assert run(words, Invocation(environ=shell)) == 0
        variables = json.loads(capsys.readouterr().out)
        assert run([w for w in words if w != "--json"], Invocation(environ=shell)) == 0
    finally:
        Daemon(home).stop()
    lines = capsys.readouterr().out.splitlines()

    assert variables[REHEARSAL_VARIABLE] == "1"
    assert variables["CLOUDSDK_CORE_PROJECT"] == "acme-prod-1"
    assert [name for name, value in variables.items() if value is None] == sorted(googles)
    assert lines[0] == f"unset {' '.join(sorted(googles))}"
    assert variables["GOOGLE_APPLICATION_CREDENTIALS"] == "/dev/null"
    assert "CLOUDSDK_PYTHON" not in variables
    assert variables["NO_PROXY"] == variables["no_proxy"]
    assert variables["NO_PROXY"].split(",") == ["intra.example", "localhost", "127.0.0.1", "::1"]
    trusted = Path(variables["CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"])
    ssl.create_default_context(cafile=str(trusted))
    assert trusted.parent == home / "rehearsal"
    assert variables["PULUMI_BACKEND_URL"].startswith("file:///dev/null/")
    assert not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_ACCESS_TOKEN"} & {
        name for name, value in variables.items() if value is not None
    }
    assert "HF_ENDPOINT" not in variables  # of no use to tpuflex there, and `hf download` works
    assert Endpoints.from_environ(variables).embedded


@pytest.mark.parametrize("fault", ["not running", "wrong stack file", "wrong option"])
def test_an_error_on_the_way_in_is_a_rehearsal_all_the_same(
    stack: Stack, capsys: Captured, fault: str
) -> None:
    """A shell that evaluates it does not go on behind `&&`; without that, what follows is a
    rehearsal, and gcloud and pulumi refuse to run."""
    if fault == "wrong stack file":
        stack.file.write_text("config: [")
    more = ["--credentials", "magic"] if fault == "wrong option" else []
    words = ["-C", str(stack.project.root), "--stack", STACK, "emulator", "env", *more]

    assert run([*words, "--rehearse"], Invocation(environ=REHEARSING)) != 0
    entering = capsys.readouterr().out
    assert run(words, Invocation(environ={"PATH": os.environ["PATH"]})) != 0
    plain = capsys.readouterr().out
    script = f"eval {shlex.quote(entering)} && echo on\nenv"
    done = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True, check=True)

    assert plain == "false\n"
    assert "on" not in done.stdout.splitlines()
    assert f"{REHEARSAL_VARIABLE}=1" in done.stdout.splitlines()
    assert "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE=/dev/null" in done.stdout.splitlines()
    assert done.stdout.count("PULUMI_BACKEND_URL=file:///dev/null/") == 1
    assert run([*words, "--rehearse", "--json"], Invocation(environ=REHEARSING)) != 0
    assert "export" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("listed", "merged"),
    [
        ({}, "localhost,127.0.0.1,::1"),
        ({"NO_PROXY": "a, 127.0.0.1"}, "a,127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "a", "no_proxy": "b"}, "b,localhost,127.0.0.1,::1"),
        ({"no_proxy": "*"}, None),
    ],
)
def test_requests_to_this_machine_take_no_proxy(listed: dict[str, str], merged: str | None) -> None:
    """What a shell excepts from its proxy stays excepted, and this machine is, too."""
    assert set(past_proxies(listed).values()) == ({merged} if merged else set())


@pytest.mark.parametrize(
    "part", ["", "backend", "backend/.pulumi", "backend/.pulumi/stacks", "weights"]
)
@pytest.mark.parametrize("to", ["backend", "rehearsal-2"])
def test_a_rehearsal_that_leads_elsewhere_is_refused(
    stack: Stack, capsys: Captured, part: str, to: str
) -> None:
    """A link to the real states would have the rehearsal change them: nothing is read or written
    through it, whether it is the directory or something in it."""
    home = stack.project.home
    shutil.rmtree(home / "rehearsal")
    (home / to).mkdir(parents=True)
    link = home / "rehearsal" / part
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(home / to)

    with pytest.raises(AccessError, match="symbolic link") as refused:
        Rehearsal.below(home).write_project(stack.project.name, stack.file)
    words = ["-C", str(stack.project.root), "--yes", "down", "--all"]

    assert str(refused.value.hint) == f"Remove the link: rm {link}"
    assert run(words, Invocation(environ=REHEARSING)) == AccessError.exit_code
    assert "symbolic link" in capsys.readouterr().err
    assert list((home / to).iterdir()) == []


def test_a_real_state_is_none_of_the_rehearsals(stack: Stack) -> None:
    """A stack that has a state on Google, and none in the rehearsal, is not up there: `down --all`
    would say of it that it is gone. Nor is one of the embedded cloud's states a state on Google."""
    project = stack.project
    other = project.home / "google"

    def keep(backend: Path) -> None:
        states = backend / ".pulumi" / "stacks" / project.name
        states.mkdir(parents=True)
        (states / f"{STACK}.json").write_text("{}")

    def up(environ: dict[str, str]) -> list[str]:
        typed = Invocation(environ=environ, directory=project.root)
        known, not_up = known_stacks(
            project, typed.open_named, environ, print, rehearsing=typed.rehearsing
        )
        assert {"dev", STACK} == {each.name for each in (*not_up, *known)}
        return [each.name for each in known]

    keep(project.home / "backend")
    other.mkdir()

    assert up(REHEARSING) == []
    assert up({"PATH": os.environ["PATH"], "PULUMI_BACKEND_URL": f"file://{other}"}) == []
    keep(Rehearsal.below(project.home).backend)
    assert up(REHEARSING) == [STACK]


def test_a_shell_is_not_pointed_at_the_placeholder(project: Path, capsys: Captured) -> None:
    """The shell would go on naming my-project-id to gcloud after the stack file was edited, so
    `eval` gets no project and ends with an error, which says to edit first."""
    text = (ROOT / "stacks" / f"Pulumi.{STACK}.yaml").read_text()
    (project / "stacks" / f"Pulumi.{STACK}.yaml").write_text(text)

    words = ["-C", str(project), "--stack", STACK, "emulator", "env", "--rehearse"]
    code = run(words, Invocation(environ={"PATH": os.environ["PATH"]}))

    said = capsys.readouterr()
    assert code == SettingsError.exit_code
    assert said.out.endswith("false\n")
    assert "CLOUDSDK_CORE_PROJECT" not in said.out
    assert "tpuflex:project: my-project-id is a placeholder" in said.err
    assert "then open the shell of the rehearsal" in said.err


@pytest.mark.parametrize("shell", [{REHEARSAL_VARIABLE: "1"}, {}])
def test_a_quota_project_counts_where_the_shell_rehearses(
    stack: Stack, shell: dict[str, str]
) -> None:
    """Doctor's remedy for a login without a quota project is a variable, which has to do the same
    as on Google; a shell of the dev stack may have one that is meant for Google."""
    opened = replace(stack, rehearsing=bool(shell))
    if not shell:
        opened = replace(opened, settings=stack.settings.model_copy(update={"cloud": "embedded"}))
    daemon = Daemon(stack.project.home)
    daemon.start(0)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(stack.project.home),
        "GOOGLE_CLOUD_QUOTA_PROJECT": "acme-prod-1",
        "GOOGLE_CREDENTIALS": "{}",
        **shell,
    }
    try:
        cloud = connect(opened, environ)
    finally:
        daemon.stop()

    kept = cloud.environ.get("GOOGLE_CLOUD_QUOTA_PROJECT")
    assert kept == ("acme-prod-1" if shell else None)
    assert "GOOGLE_CREDENTIALS" not in cloud.environ


@pytest.mark.parametrize("left_out", [*Endpoints.__slots__])
def test_one_endpoint_at_google_is_refused(left_out: str) -> None:
    """No half of a rehearsal goes to Google: every client and the provider begin with this."""
    environ = {**overrides("http://127.0.0.1:1"), **REHEARSING}
    assert Endpoints.from_environ(environ).embedded
    del environ[OVERRIDES[left_out]]

    with pytest.raises(SettingsError) as refused:
        Endpoints.from_environ(environ)

    (finding,) = refused.value.findings
    assert finding.key == OVERRIDES[left_out]
    assert "this is a rehearsal" in finding.problem


#: What a stack file may say of its model, and what its stand-in then has.
_SERVED = [
    ({}, {"config.json", "model.safetensors", "tokenizer.json"}),
    (
        {"load_format": "mistral"},
        {"config.json", "consolidated.safetensors", "tokenizer.json"},
    ),
    (
        {"chat_template": "chat.jinja"},
        {"chat.jinja", "config.json", "model.safetensors", "tokenizer.json"},
    ),
]


def _opened(project: Path, source: str, environ: dict[str, str], flags: str = "{}") -> Stack:
    (project / "stacks" / "Pulumi.weights.yaml").write_text(f"""\
config:
  tpuflex:cloud: google
  tpuflex:project: acme-prod-1
  tpuflex:slice: {{zones: [us-east5-a], accelerator_type: v6e-1, max_run_duration: 1h}}
  tpuflex:model:
    name: google/gemma-4-E4B-it
    weights: {{source: "{source}", manifest_sha256: {"a" * 64}}}
  tpuflex:serving:
    image: us-east5-docker.pkg.dev/acme-prod-1/dockerhub/vllm/vllm-tpu@sha256:{"a" * 64}
    flags: {flags}
""")
    return Invocation(environ=environ, directory=project, chosen_stack="weights").open_stack()


@pytest.mark.parametrize(("flags", "files"), _SERVED)
def test_a_rehearsal_makes_the_weights_that_are_not_here(
    project: Path, capsys: Captured, flags: dict[str, str], files: set[str]
) -> None:
    """Whatever the server reads of a model, the stand-in has it, in a few kB; it is planned by the
    model's name, and no hash of other weights is held against it."""
    stack = _opened(project, "models/e4b", REHEARSING, json.dumps(flags))

    source = stack.settings.model.weights.source
    assert isinstance(source, LocalDirectory)
    model = model_in(source, project, stack.needs)
    assert set(model.paths) == files
    assert model.total_bytes < 2000
    assert stack.settings.model.weights.manifest_sha256 is None
    assert stack.settings.served == stack.settings.catalog.model("google/gemma-4-E4B-it")
    assert "The weights are a stand-in for models/e4b, " in capsys.readouterr().err
    assert not (project / "models").exists()


@pytest.mark.parametrize(
    "source", [f"hf://google/gemma-4-E4B-it@{'1' * 40}", "gs://acme-models/gemma"]
)
def test_a_rehearsal_fetches_no_weights(project: Path, capsys: Captured, source: str) -> None:
    """What is elsewhere is not asked for."""
    stack = _opened(project, source, REHEARSING)

    assert str(stack.stand_in) == source
    assert f"a stand-in for {source}, " in capsys.readouterr().err


def test_weights_that_are_here_are_used_as_they_are(project: Path, capsys: Captured) -> None:
    """A directory needs no stand-in, and outside of a rehearsal nothing has one."""
    tiny(project / "models" / "e4b")

    here = _opened(project, "models/e4b", REHEARSING)
    real = _opened(project, f"hf://google/gemma-4-E4B-it@{'1' * 40}", {})

    assert str(here.settings.model.weights.source) == "models/e4b"
    assert here.settings.model.weights.manifest_sha256 == "a" * 64
    assert (here.stand_in, real.stand_in) == (None, None)
    assert "stand-in" not in capsys.readouterr().err


def test_a_stand_in_is_no_model_outside_of_a_rehearsal(project: Path) -> None:
    """It must not reach a host on Google, by whatever name or copy of its directory."""
    made = _opened(project, "models/e4b", REHEARSING).settings.model.weights.source
    shutil.copytree(project / str(made), project / "models" / "e4b")
    real = _opened(project, "models/e4b", {})

    with pytest.raises(WeightsError, match="is the stand-in of a rehearsal") as refused:
        check_source(real)

    assert "Name the directory of the model" in str(refused.value.hint)
