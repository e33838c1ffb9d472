"""`tpuflex doctor` as it is typed: without a project, with a stack, with a wrong one, as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.loopback import overrides
from tpuflex.engine.find import Candidate, Engine, Search
from tpuflex.engine.gcp_plugin import GcpPlugin
from tpuflex.google.endpoints import REHEARSAL_VARIABLE
from tpuflex.operate.gcloud import Gcloud

ROOT = Path(__file__).parents[2]
#: No server is asked for a credential then.
TOKEN = {"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.of-a-test"}


@pytest.fixture(autouse=True)
def same_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine and a plugin that are found, whatever this machine has."""
    engine = Engine(Path("/opt/pulumi"), "3.256.0", "path")
    found = Search(engine, (Candidate("path", "/opt/pulumi", "3.256.0", True, "first"),))
    module = "tpuflex.doctor.machine"
    monkeypatch.setattr(f"{module}.search", lambda _home, _environ: found)
    monkeypatch.setattr(f"{module}.shutil.which", lambda name, **_: f"/bin/{name}")
    monkeypatch.setattr(
        f"{module}.find_gcp_plugin", lambda _environ: GcpPlugin(Path("/bin/gcp"), named=False)
    )
    monkeypatch.setattr(
        f"{module}.find_gcloud",
        lambda _environ, **_: Gcloud("/bin/gcloud", frozenset({"core", "alpha"})),
    )


@pytest.mark.parametrize("there", [True, False])
def test_the_gcp_plugin_is_installed_by_the_engine_that_is_there(
    type_in: TypeIn, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, there: bool
) -> None:
    """The remedy has the engine's own path, as an engine that was built here is not on PATH."""
    module = "tpuflex.doctor.machine"
    monkeypatch.setattr(f"{module}.find_gcp_plugin", lambda _environ: None)
    if not there:
        monkeypatch.setattr(f"{module}.search", lambda _home, _environ: Search(None, ()))
    for file in ("Pulumi.yaml", "stacks/Pulumi.dev.yaml"):
        (project / file).unlink()

    typed = type_in("doctor", "--json", PULUMI_HOME=str(tmp_path), **TOKEN)

    checks = {each["name"]: each for each in json.loads(typed.out)["checks"]}
    remedy = checks["plugin gcp"]["remedy"]
    if there:
        assert remedy.startswith("/opt/pulumi plugin install resource gcp ")
    else:
        assert remedy.startswith("tpuflex engine --install\n/")
        assert "/pulumi plugin install resource gcp " in remedy


def test_a_rehearsal_needs_no_gcp_plugin_even_for_a_file_that_is_wrong(
    type_in: TypeIn, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stack file with the placeholder cannot be opened, but the stand-in serves whatever it
    says: installing the plugin would be no step towards the rehearsal."""
    monkeypatch.setattr("tpuflex.doctor.machine.find_gcp_plugin", lambda _environ: None)
    text = (ROOT / "stacks" / "Pulumi.first-proof.yaml").read_text()
    (project / "stacks" / "Pulumi.tpu.yaml").write_text(text)
    shell = {
        REHEARSAL_VARIABLE: "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(tmp_path),
        **overrides("http://127.0.0.1:9"),
        **TOKEN,
    }

    typed = type_in("doctor", "-s", "tpu", "--json", **shell)

    checks = {each["name"]: each for each in typed.document["checks"]}
    assert checks["stack"]["standing"] == "failed"
    assert checks["plugin gcp"]["standing"] == "ok"
    assert checks["plugin gcp"]["text"] == "the embedded cloud's stand-in"


def test_without_a_project(type_in: TypeIn, project: Path) -> None:
    """Without a stack file it says what can be said, fails nothing, and leaves no file behind."""
    for file in ("Pulumi.yaml", "stacks/Pulumi.dev.yaml"):
        (project / file).unlink()
    (project / "stacks").rmdir()

    typed = type_in("doctor", **TOKEN)

    assert typed.out == (
        f"""\
In order
  engine, plugin tpuflex, plugin gcp, gcloud, credential

Skipped
  stack: There is no Pulumi.yaml in {project} or in any directory above it. \
The rest is what can be said without one.

None of 5 checks failed.
"""
    )
    assert typed.code == 0
    assert [*project.iterdir()] == []


def test_a_stack_on_an_embedded_cloud_that_is_stopped(type_in: TypeIn, project: Path) -> None:
    """Nothing is started: what the cloud would say is skipped, and the rest is said."""
    typed = type_in("doctor", "--json")

    assert typed.code == 0
    found = {(check["name"], check["standing"]): check for check in typed.document["checks"]}
    assert [*found] == [
        ("stack", "ok"),
        ("engine", "ok"),
        ("plugin tpuflex", "ok"),
        ("plugin gcp", "ok"),
        ("embedded cloud", "warning"),
        ("backend", "ok"),
        ("lock", "ok"),
        ("cloud", "skipped"),
    ]
    assert typed.document["stack"] == "dev"
    assert "tpuflex emulator start" in found["cloud", "skipped"]["text"]
    assert typed.document["failed"] == 0
    assert typed.document["summary"] == "None of 7 checks failed (1 warning)."
    assert not (project / ".tpuflex" / "emulator").exists()


@pytest.mark.parametrize(
    ("stack", "code", "text"),
    [("nowhere", 4, "There is no stack 'nowhere'"), ("broken", 5, "tpuflex:cloud")],
)
def test_a_stack_that_cannot_be_read(
    type_in: TypeIn, project: Path, stack: str, code: int, text: str
) -> None:
    """A stack that was asked for and is not there, or is wrong, fails with that error's code; the
    machine is looked at all the same."""
    (project / "stacks" / "Pulumi.broken.yaml").write_text("config:\n  tpuflex:cloud: moon\n")

    typed = type_in("doctor", "--stack", stack, **TOKEN)

    assert typed.code == code
    assert text in typed.out
    assert "\nIn order\n  engine, plugin tpuflex, " in typed.out
    assert typed.out.endswith("1 of 6 checks failed; mend first: stack.\n")


def test_a_held_lock(type_in: TypeIn, project: Path) -> None:
    """A lock that a process of another machine holds is a failure of the engine's kind."""
    held = project / ".tpuflex/backend/.pulumi/locks/organization/tpuflex/dev"
    held.mkdir(parents=True)
    (held / "1.json").write_text(
        '{"pid": 7, "username": "you", "hostname": "elsewhere",'
        ' "timestamp": "2026-11-21T12:00:00Z"}'
    )

    typed = type_in("doctor")

    assert typed.code == 8
    assert typed.out.startswith("Failed\n  lock: held by process 7 of you on elsewhere, since ")


def test_a_damaged_state(type_in: TypeIn, project: Path) -> None:
    """A state file that was cut short is a failure, with the way to repair it."""
    stacks = project / ".tpuflex/backend/.pulumi/stacks/tpuflex"
    stacks.mkdir(parents=True)
    (stacks / "dev.json").write_text('{"version"')

    typed = type_in("doctor")

    assert typed.code == 8
    assert "tpuflex recover --take-over" in typed.out


def test_google_without_a_credential(type_in: TypeIn, project: Path) -> None:
    """Without a credential that can be used, nobody is asked, and nothing is taken for well."""
    (project / "stacks" / "Pulumi.tpu.yaml").write_text(
        (ROOT / "stacks" / "Pulumi.first-proof.yaml")
        .read_text()
        .replace("my-project-id", "acme-tpu-1")
    )

    typed = type_in("doctor", "-s", "tpu", GOOGLE_APPLICATION_CREDENTIALS="/nowhere/adc.json")

    assert typed.code == 6
    assert typed.out.startswith(
        """\
Failed
  credential: GOOGLE_APPLICATION_CREDENTIALS names /nowhere/adc.json, which cannot be read: \
No such file or directory
    -> Run: gcloud auth application-default login, or name another file.
"""
    )
    assert typed.out.endswith(
        """\
Skipped
  project: nobody answers without a credential

1 of 8 checks failed; mend first: credential.
"""
    )
