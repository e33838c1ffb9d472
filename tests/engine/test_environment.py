"""The provider of this installation comes first, and running it is no news."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpuflex.engine import environment
from tpuflex.engine.environment import (
    PROVIDER,
    is_own_provider_notice,
    provider_directory,
    with_own_provider,
)


def test_it_is_the_one_that_pip_recorded() -> None:
    """The directory holds the provider's executable."""
    directory = provider_directory()

    assert directory is not None
    assert os.access(directory / PROVIDER, os.X_OK)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/bin:/bin", "/own/bin:/usr/bin:/bin"),
        ("/own/bin:/usr/bin", "/own/bin:/usr/bin"),
        ("/other/bin:/own/bin", "/own/bin:/other/bin:/own/bin"),
        ("", "/own/bin"),
    ],
)
def test_it_comes_first(monkeypatch: pytest.MonkeyPatch, path: str, expected: str) -> None:
    """Another version on PATH does not run instead; the caller's variables are not changed."""
    monkeypatch.setattr(environment, "provider_directory", lambda: Path("/own/bin"))
    environ = {"PATH": path, "HOME": "/home/me"}

    assert with_own_provider(environ) == {"PATH": expected, "HOME": "/home/me"}
    assert environ["PATH"] == path


def test_without_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a source tree that nothing was installed from, PATH stays as it is."""
    monkeypatch.setattr(environment, "files", lambda _name: None)

    assert provider_directory() is None
    assert with_own_provider({"PATH": "/bin"}) == {"PATH": "/bin"}
    assert not is_own_provider_notice(f"using {PROVIDER} from $PATH at /bin/{PROVIDER}")


@pytest.mark.parametrize(("directory", "expected"), [("/own/bin", True), ("/other/bin", False)])
def test_only_its_own_is_no_news(
    monkeypatch: pytest.MonkeyPatch, directory: str, expected: bool
) -> None:
    """The engine's warning is dropped for the provider that is meant, and for no other."""
    monkeypatch.setattr(environment, "provider_directory", lambda: Path("/own/bin"))

    text = f"using {PROVIDER} from $PATH at {directory}/{PROVIDER}"

    assert is_own_provider_notice(text) is expected
