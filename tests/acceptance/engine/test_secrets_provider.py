"""A stack is made with the secrets provider that its stack file names (P14)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.acceptance.engine.vault import vault
from tpuflex.cli.invocation import Invocation
from tpuflex.engine.commands import Target
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.find import Engine
from tpuflex.engine.run import EngineRun
from tpuflex.errors import EngineError, SettingsError

pytestmark = [pytest.mark.engine, pytest.mark.timeout(120)]

KEY = "hashivault://states"


def project(directory: Path, stack_file: str) -> None:
    """A project whose stack files are in a directory of their own."""
    (directory / "Pulumi.yaml").write_text("name: acme\nruntime: python\nstackConfigDir: stacks\n")
    (directory / "stacks").mkdir()
    (directory / "stacks" / "Pulumi.dev.yaml").write_text(stack_file)
    (directory / "backend").mkdir()


def engine_run(directory: Path, engine: Engine, **environ: str) -> EngineRun:
    """The engine on the stack dev of ``directory``, in a backend of files."""
    own = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(directory),
        "PULUMI_BACKEND_URL": f"file://{directory}/backend",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    target = Target(directory, "dev", engine, {**own, **environ})
    return EngineRun(target, lambda: None, failures=ProgramFailures())


def test_p14_the_stack_files_secrets_provider_is_used(
    tmp_path: Path, pulumi_engine: Engine
) -> None:
    """P14: a stack made by a command of ours has its data key from the key that the file names,
    and no passphrase's salt takes its place."""
    project(tmp_path, f"secretsprovider: {KEY}\nconfig: {{}}\n")

    with vault() as environ:
        run = engine_run(tmp_path, pulumi_engine, **environ)
        run.create()
        run.up()
        state = run.deployment()

    written = yaml.safe_load((tmp_path / "stacks" / "Pulumi.dev.yaml").read_text())
    assert written["secretsprovider"] == KEY
    assert written["encryptedkey"]
    assert "encryptionsalt" not in written
    assert state["secrets_providers"]["type"] == "cloud"
    assert state["secrets_providers"]["state"]["url"] == KEY


@pytest.mark.parametrize("named", ["", "secretsprovider: passphrase\n", "secretsprovider:\n"])
def test_p14_without_one_it_is_the_passphrase(
    tmp_path: Path, pulumi_engine: Engine, named: str
) -> None:
    """P14: a file that names none, or the passphrase, gets a salt, as from Pulumi."""
    project(tmp_path, f"{named}config: {{}}\n")

    engine_run(tmp_path, pulumi_engine).create()

    written = yaml.safe_load((tmp_path / "stacks" / "Pulumi.dev.yaml").read_text())
    assert written["encryptionsalt"].startswith("v1:")
    assert "encryptedkey" not in written


def test_p14_one_that_pulumi_does_not_know_makes_no_stack(
    tmp_path: Path, pulumi_engine: Engine
) -> None:
    """P14: the engine refuses it, in its own words, and nothing is made."""
    project(tmp_path, "secretsprovider: gcpkm://projects/p\nconfig: {}\n")
    run = engine_run(tmp_path, pulumi_engine)

    with pytest.raises(EngineError, match="unknown secrets provider type 'gcpkm'"):
        run.create()

    assert not run.exists()


def test_p14_a_stack_on_the_embedded_cloud_asks_no_key_outside(tmp_path: Path) -> None:
    """P14: the engine reaches Cloud KMS at Google's own address only, so a stack on the embedded
    cloud that names a key there is refused before anything is asked."""
    dev = Path(__file__).parents[3] / "stacks" / "Pulumi.dev.yaml"
    key = "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k"
    project(tmp_path, f"secretsprovider: {key}\n{dev.read_text()}")

    with pytest.raises(SettingsError) as caught:
        Invocation(environ={"HOME": str(tmp_path)}, directory=tmp_path).open_stack()

    (finding,) = caught.value.findings
    assert finding.key == "secretsprovider"
    assert "Google's own address" in finding.problem
