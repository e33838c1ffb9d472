"""Which cloud the commands reach, whose clock they read, and what `tpuflex demo` may touch."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.typing import Captured
from tpuflex.cli.demo import DemoError, require_embedded
from tpuflex.cli.invocation import Invocation
from tpuflex.project import open_project
from tpuflex.stack.emulator import Daemon
from tpuflex.stack.environment import google_environment
from tpuflex.stack.stack import read_stack


class TestEnvironment:
    def test_of_google_forgets_the_embedded_cloud(self, tmp_path: Path) -> None:
        """A stack on Google ignores the variables of a shell that points to the embedded cloud."""
        shell = {
            "PATH": "/bin",
            "TPUFLEX_EMULATOR": "http://127.0.0.1:1",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": "http://127.0.0.1:1/",
            "PULUMI_DEBUG_PROVIDERS": "gcp:1",
            "GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.tpuflex-embedded",
        }

        found = google_environment(shell, tmp_path)

        assert {"PATH", "PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE"} <= set(found)
        assert not {key for key in found if key.startswith(("CLOUDSDK", "GOOGLE", "TPUFLEX"))}
        assert "PULUMI_DEBUG_PROVIDERS" not in found

    def test_of_google_keeps_the_users_backend(self, tmp_path: Path) -> None:
        """A user's own Pulumi backend is kept."""
        shell = {"PULUMI_BACKEND_URL": "gs://state", "CLOUDSDK_CORE_PROJECT": "mine"}

        found = google_environment(shell, tmp_path)

        assert found["PULUMI_BACKEND_URL"] == "gs://state"
        assert found["CLOUDSDK_CORE_PROJECT"] == "mine"
        assert "PULUMI_CONFIG_PASSPHRASE" not in found

    def test_p19_of_google_leaves_the_projects_backend_to_the_engine(self, tmp_path: Path) -> None:
        """P19: `backend:` of Pulumi.yaml counts where nobody is logged in, unless the environment
        names another one; the directory that is used by default does not take its place."""
        text = "name: acme\nruntime: python\nbackend: {url: gs://states}\n"
        (tmp_path / "Pulumi.yaml").write_text(text)
        project = open_project(tmp_path, {"HOME": str(tmp_path)})

        found = google_environment({}, tmp_path, backend=project.backend)
        named = google_environment(
            {"PULUMI_BACKEND_URL": "gs://other"}, tmp_path, backend=project.backend
        )

        assert project.backend == "gs://states"
        assert "PULUMI_BACKEND_URL" not in found
        assert named["PULUMI_BACKEND_URL"] == "gs://other"
        assert not (tmp_path / "backend").exists()

    def test_of_the_embedded_cloud_says_that_it_has_a_backend_of_its_own(
        self, project: Path, capsys: Captured
    ) -> None:
        """A backend that the user names is not silently left out."""
        opened = open_project(project, {})
        stack = read_stack(opened, "dev")
        daemon = Daemon(opened.home)
        daemon.start(0)
        shell = {"PATH": os.environ["PATH"], "HOME": str(project)}
        try:
            Invocation(environ=shell).connect(stack)
            silent = capsys.readouterr().err
            elsewhere = {**shell, "PULUMI_BACKEND_URL": "gs://us"}
            cloud = Invocation(environ=elsewhere).connect(stack)
        finally:
            daemon.stop()

        assert "PULUMI_BACKEND_URL" not in silent
        assert "PULUMI_BACKEND_URL is not used" in capsys.readouterr().err
        assert cloud.environ["PULUMI_BACKEND_URL"] == f"file://{opened.home / 'backend'}"


def test_the_embedded_cloud_says_what_time_it_is(project: Path) -> None:
    """After the embedded cloud's clock was moved by two days, so is the connection's."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(project), "TPUFLEX_HOME": str(project)}
    invocation = Invocation(environ=environ, directory=project)
    daemon = Daemon(invocation.project.home)
    daemon.start(0)
    try:
        daemon.call("POST", "clock", {"advance": 48 * 3600})
        cloud = invocation.connect(invocation.open_stack(), start=False)

        ahead = cloud.now() - datetime.now(UTC)
    finally:
        daemon.stop()
    assert abs(ahead - timedelta(hours=48)) < timedelta(minutes=1)


STACKS = Path(__file__).parents[2] / "stacks"


def test_a_stack_for_google_is_no_demo() -> None:
    """It would be brought up and destroyed without a question."""
    with pytest.raises(DemoError, match="one for Google Cloud"):
        require_embedded(STACKS / "Pulumi.first-proof.yaml", "demo")


@pytest.mark.parametrize("stack", ["demo", "dev"])
def test_those_of_this_project_are(stack: str) -> None:
    """Both stacks that the tour may run are on the embedded cloud."""
    require_embedded(STACKS / f"Pulumi.{stack}.yaml", stack)
