"""Where a project keeps its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuflex.errors import SettingsError, UsageError
from tpuflex.project import home, open_project, project_root


def write_project(root: Path, text: str = "name: demo\nstackConfigDir: stacks\n") -> Path:
    (root / "stacks").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text(text)
    return root


class TestRoot:
    def test_nearest_above(self, tmp_path: Path) -> None:
        """The root is the nearest directory above that holds Pulumi.yaml."""
        root = write_project(tmp_path / "project")
        inside = root / "a" / "b"
        inside.mkdir(parents=True)

        assert root == project_root(inside)

    def test_without_a_project(self, tmp_path: Path) -> None:
        """Without a Pulumi.yaml anywhere above, the start itself is the root."""
        assert tmp_path.resolve() == project_root(tmp_path)


class TestHome:
    @pytest.mark.parametrize(("environ", "place"), [({}, ".tpuflex"), ({"TPUFLEX_HOME": "x"}, "x")])
    def test_place(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        environ: dict[str, str],
        place: str,
    ) -> None:
        """The state directory is in the project root, unless TPUFLEX_HOME moves it."""
        monkeypatch.chdir(tmp_path)

        assert home(tmp_path, environ) == tmp_path / place


class TestProject:
    def test_reads_name_and_stack_directory(self, tmp_path: Path) -> None:
        """The project's name and the directory of its stack files come from Pulumi.yaml."""
        project = open_project(write_project(tmp_path), {})

        assert ("demo", tmp_path / "stacks") == (project.name, project.stacks)

    @pytest.mark.parametrize(
        "name", ["a b", "a\ngroups: []\n---\n#", "dev\u200b", "d\u0435v", "-x"]
    )
    def test_a_file_of_a_name_that_no_stack_can_have(self, tmp_path: Path, name: str) -> None:
        """It is no stack's, and is listed as such; the name is refused where it is asked for."""
        project = open_project(write_project(tmp_path), {})
        for each in ("dev", name):
            (project.stacks / f"Pulumi.{each}.yaml").write_text("config: {}\n")

        assert project.stack_names() == ("dev",)
        assert project.misnamed() == (f"Pulumi.{name}.yaml",)
        with pytest.raises(UsageError, match="no stack's name"):
            project.stack_file(name)

    @pytest.mark.parametrize("text", ["- a\n", "runtime: python\n", "a: [\n", "name: 3\n"])
    def test_unreadable_project_file(self, tmp_path: Path, text: str) -> None:
        """A Pulumi.yaml that is no project file is a settings error, not a traceback."""
        with pytest.raises(SettingsError):
            open_project(write_project(tmp_path, text), {})

    def test_stack_file(self, tmp_path: Path) -> None:
        """A stack's file is found in the stack directory."""
        project = open_project(write_project(tmp_path), {})
        (project.stacks / "Pulumi.dev.yaml").touch()

        assert project.stacks / "Pulumi.dev.yaml" == project.stack_file("dev")
