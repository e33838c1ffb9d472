"""A stack for Google in a rehearsal: what is said of it, and what the engine reads in its place."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.loopback import overrides
from tpuflex.cli.daemon import Daemon
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run
from tpuflex.cli.rehearsal import NOTICE, Rehearsal
from tpuflex.cli.stack import OpenStack
from tpuflex.errors import SettingsError
from tpuflex.gcp.endpoints import OVERRIDES, REHEARSAL_VARIABLE, Endpoints

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
def stack(project: Path) -> OpenStack:
    """A stack for Google whose secrets Cloud KMS has, opened in a rehearsal."""
    text = (ROOT / "stacks" / f"Pulumi.{STACK}.yaml").read_text()
    text = text.replace("my-project-id", "acme-prod-1")
    (project / "stacks" / f"Pulumi.{STACK}.yaml").write_text(text + SEALED)
    return Invocation(environ=REHEARSING, directory=project, chosen_stack=STACK).open_stack()


def test_it_runs_on_the_embedded_cloud_and_says_so(stack: OpenStack) -> None:
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


def test_the_engine_reads_a_copy_without_what_the_real_key_opens(stack: OpenStack) -> None:
    """The engine would ask Cloud KMS for the key in the real file, which stays as it is."""
    before = stack.file.read_bytes()
    rehearsal = Rehearsal.below(stack.project.home)

    rehearsal.write_project(stack)

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
def test_every_command_says_it_first_and_documents_say_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_without_the_variable_nothing_says_so(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A document has the key in a rehearsal only."""
    assert run(["-C", str(project), "--json", "cost"], Invocation(environ={})) == 0
    said = capsys.readouterr()

    assert "rehearsal" not in said.out
    assert said.err == ""


def test_the_shell_of_a_rehearsal(stack: OpenStack, capsys: pytest.CaptureFixture[str]) -> None:
    """Every API is on this machine and the state is elsewhere; for plain `pulumi`, which would
    write to the real stack file, there is no passphrase."""
    root, home = stack.project.root, stack.project.home
    Daemon(home).start(0)
    try:
        words = ["-C", str(root), "--stack", STACK, "--json", "emulator", "env", "--rehearse"]
        assert run(words, Invocation(environ={"PATH": os.environ["PATH"]})) == 0
    finally:
        Daemon(home).stop()
    variables = json.loads(capsys.readouterr().out)

    assert variables[REHEARSAL_VARIABLE] == "1"
    assert variables["CLOUDSDK_CORE_PROJECT"] == "acme-prod-1"
    assert variables["PULUMI_BACKEND_URL"] == f"file://{home / 'rehearsal' / 'backend'}"
    assert "PULUMI_CONFIG_PASSPHRASE" not in variables
    assert Endpoints.from_environ(variables).embedded


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
