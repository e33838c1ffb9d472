"""Which gcp plugin the engine runs: the user's published one, or the stand-in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpuflex.engine.environment import without_scheme
from tpuflex.engine.gcp_plugin import (
    PIN_FILE,
    VARIABLE,
    GcpPlugin,
    find_gcp_plugin,
    require_pinned_plugin,
    with_gcp_plugin,
)
from tpuflex.errors import SettingsError

NAME = "pulumi-resource-gcp"


def executable(directory: Path, text: str = "#!/bin/sh\n") -> Path:
    """A plugin in ``directory`` that only this user can change."""
    directory.mkdir(mode=0o700, parents=True)
    file = directory / NAME
    file.write_text(text)
    file.chmod(0o700)
    return file


def test_none_is_the_stand_in(tmp_path: Path) -> None:
    """Without a plugin on PATH, and with the variable that says so, it is the stand-in."""
    found = executable(tmp_path / "bin")

    assert find_gcp_plugin({"PATH": str(tmp_path)}) is None
    assert find_gcp_plugin({"PATH": str(found.parent), VARIABLE: "stand-in"}) is None
    ignoring = {"PATH": str(found.parent), "PULUMI_IGNORE_AMBIENT_PLUGINS": "1"}
    assert find_gcp_plugin(ignoring) is None


def test_the_one_that_is_named_goes_before_the_one_on_path(tmp_path: Path) -> None:
    """Each is said with how it was found."""
    on_path, named = executable(tmp_path / "bin"), executable(tmp_path / "other")
    environ = {"PATH": str(on_path.parent)}

    assert find_gcp_plugin(environ) == GcpPlugin(on_path, named=False)
    both = find_gcp_plugin({**environ, VARIABLE: str(named)})
    assert both == GcpPlugin(named, named=True)
    assert str(both) == f"{named} (named by TPUFLEX_GCP_PLUGIN)"


def test_the_engine_finds_it_first_and_nothing_beside_it(tmp_path: Path) -> None:
    """Other programs of its directory are not put before the user's own."""
    plugin = executable(tmp_path / "bin")
    before = {"PATH": "/usr/bin", "PULUMI_IGNORE_AMBIENT_PLUGINS": "1", "HOME": "/h"}

    once = with_gcp_plugin(before, GcpPlugin(plugin, named=True), tmp_path / "home")
    again = with_gcp_plugin(once, GcpPlugin(plugin, named=True), tmp_path / "home")

    first, _, rest = once["PATH"].partition(os.pathsep)
    assert [file.name for file in Path(first).iterdir()] == [NAME]
    assert (Path(first) / NAME).resolve() == plugin
    assert rest == "/usr/bin"
    assert again == once == {"PATH": once["PATH"], "HOME": "/h"}
    seen = find_gcp_plugin(once)
    assert seen is not None
    assert with_gcp_plugin(once, seen, tmp_path / "home") == once
    assert (Path(first) / NAME).resolve() == plugin


@pytest.mark.parametrize("name", ["missing", "bin", "bin/plain"])
def test_a_name_that_leads_nowhere_is_refused(tmp_path: Path, name: str) -> None:
    """The stand-in does not silently take the place of a plugin that was asked for."""
    executable(tmp_path / "bin")
    (tmp_path / "bin" / "plain").write_text("")

    with pytest.raises(SettingsError, match="is no executable file"):
        find_gcp_plugin({VARIABLE: str(tmp_path / name)})


@pytest.mark.parametrize("target", ["absent.sha256", PIN_FILE])
def test_a_pin_that_leads_to_no_file_is_refused(tmp_path: Path, target: str) -> None:
    """A pin file that is a dangling or looping link is refused: ignored, it would pin nothing."""
    (tmp_path / PIN_FILE).symlink_to(target)

    with pytest.raises(SettingsError, match="link that leads to no file"):
        require_pinned_plugin(tmp_path, tmp_path / "home", tmp_path / "pulumi", {}, print)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://127.0.0.1:8470", "127.0.0.1:8470"),
        ("127.0.0.1:8470", "127.0.0.1:8470"),
    ],
)
def test_p19_the_host_has_no_scheme(given: str, expected: str) -> None:
    """P19: Go CDK writes `http://` before it; the rest of the environment is as it was."""
    assert without_scheme({"STORAGE_EMULATOR_HOST": given, "A": "b"}) == {
        "STORAGE_EMULATOR_HOST": expected,
        "A": "b",
    }


def test_p19_on_google_there_is_none() -> None:
    """P19: an environment without the variable gets none."""
    assert without_scheme({"A": "b"}) == {"A": "b"}
