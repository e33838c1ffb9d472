"""Where a project keeps its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuflex.errors import NotFoundError, SettingsError
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
    def test_default(self, tmp_path: Path) -> None:
        """The state directory lies in the project root."""
        assert tmp_path / ".tpuflex" == home(tmp_path, {})

    def test_chosen(self, tmp_path: Path) -> None:
        """TPUFLEX_HOME moves the state directory."""
        assert tmp_path / "elsewhere" == home(
            tmp_path, {"TPUFLEX_HOME": str(tmp_path / "elsewhere")}
        )


class TestProject:
    def test_reads_name_and_stack_directory(self, tmp_path: Path) -> None:
        """The project's name and the directory of its stack files come from Pulumi.yaml."""
        project = open_project(write_project(tmp_path), {})

        assert ("demo", tmp_path / "stacks") == (project.name, project.stacks)

    def test_no_project(self, tmp_path: Path) -> None:
        """Outside of a project the error names the option that names one."""
        with pytest.raises(NotFoundError) as caught:
            open_project(tmp_path, {})

        assert "tpuflex -C DIRECTORY" in caught.value.hint

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

    def test_unknown_stack_suggests_the_nearest(self, tmp_path: Path) -> None:
        """An unknown stack name is answered with the nearest and with all there are."""
        project = open_project(write_project(tmp_path), {})
        for name in ("dev", "gemma-v6e"):
            (project.stacks / f"Pulumi.{name}.yaml").touch()

        with pytest.raises(NotFoundError) as caught:
            project.stack_file("gemma-v6")

        assert caught.value.hint == (
            "Did you mean --stack gemma-v6e? Stacks of this project: dev, gemma-v6e."
        )

    def test_no_stack_file_at_all(self, tmp_path: Path) -> None:
        """Without any stack file the error says which one to write."""
        project = open_project(write_project(tmp_path), {})

        with pytest.raises(NotFoundError) as caught:
            project.stack_file("dev")

        assert "Write stacks/Pulumi.dev.yaml" in caught.value.hint
