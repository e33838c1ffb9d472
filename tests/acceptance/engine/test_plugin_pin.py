"""The project's pin of the published gcp plugin, with the real engine and a release of our own."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.engine.embedded import pulumi_engine
from tpuflex.engine.find import Engine
from tpuflex.engine.gcp_plugin import PIN_FILE, archive_name, require_pinned_plugin
from tpuflex.errors import AccessError, EngineError, SettingsError

__all__ = ["pulumi_engine"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


class Quiet(SimpleHTTPRequestHandler):
    """Serves a directory."""

    def log_message(self, *_: object) -> None: ...


@dataclass
class Release:
    """A release of the plugin, and a project that may pin it.

    Attributes:
        root: the project.
        directory: what the server serves.
        engine: the engine.
        environ: its environment.
        source: address of the server.
        said: lines of progress.
    """

    root: Path
    directory: Path
    engine: Engine
    environ: dict[str, str]
    source: str
    said: list[str] = field(default_factory=list)

    def publish(self, text: str) -> str:
        """Publish a plugin with ``text`` in it; returns the SHA-256 of its archive."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            entry = tarfile.TarInfo("pulumi-resource-gcp")
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
        (self.directory / archive_name()).write_bytes(buffer.getvalue())
        return hashlib.sha256(buffer.getvalue()).hexdigest()

    def pin(self, sha256: str, name: str = "") -> None:
        """Write the pin, beside the line of another platform."""
        lines = f"{'0' * 64}  pulumi-resource-gcp-v1.0.0-plan9-mips.tar.gz\n"
        (self.root / PIN_FILE).write_text(f"{lines}{sha256}  {name or archive_name()}\n")

    def require(self) -> None:
        require_pinned_plugin(
            self.root,
            self.root / ".tpuflex",
            self.engine.path,
            self.environ,
            self.said.append,
            source=self.source,
        )

    @property
    def installed(self) -> Path:
        (file,) = (self.root / "pulumi" / "plugins").glob("resource-gcp-*/pulumi-resource-gcp")
        return file


@pytest.fixture
def release(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Release]:
    """A project without a pin, and an empty server."""
    served = tmp_path / "served"
    served.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served)))
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PULUMI_HOME": str(tmp_path / "pulumi"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    try:
        yield Release(tmp_path, served, pulumi_engine, environ, url)
    finally:
        server.shutdown()
        server.server_close()


def test_s15_without_a_pin_nothing_is_done(release: Release) -> None:
    """The engine fetches the plugin by itself, as before."""
    release.require()

    assert release.said == []
    assert not (release.root / "pulumi").exists()


def test_s15_the_pinned_plugin_is_installed_once_and_again_when_it_is_another(
    release: Release,
) -> None:
    """What lies there unchecked, or was changed since, is replaced by what is pinned."""
    release.pin(release.publish("#!/bin/sh\n# the pinned one\n"))

    release.require()
    release.require()
    assert len(release.said) == 1
    assert "the pinned one" in release.installed.read_text()

    release.installed.write_text("#!/bin/sh\n# another one\n")
    release.require()

    assert len(release.said) == 2
    assert "the pinned one" in release.installed.read_text()


def test_s15_what_is_not_pinned_is_not_run(release: Release) -> None:
    """A release whose archive is another one ends the command before the plugin is started."""
    release.publish("#!/bin/sh\n# somebody else's\n")
    release.pin("5a" * 32)

    with pytest.raises(EngineError, match=r"is not what gcp-plugin\.sha256 pins: its SHA-256 is"):
        release.require()

    assert not (release.root / "pulumi").exists()
    (release.directory / archive_name()).unlink()
    with pytest.raises(EngineError, match="cannot be fetched"):
        release.require()


@pytest.mark.parametrize("text", ["no checksum", "\xff", f"{'5a' * 32}  another.tar.gz"])
def test_s15_a_pin_that_says_nothing_is_refused(release: Release, text: str) -> None:
    """A file that cannot be read, or has no line for this machine, pins nothing."""
    (release.root / PIN_FILE).write_bytes(text.encode("latin-1"))

    with pytest.raises(SettingsError, match=r"gcp-plugin\.sha256"):
        release.require()


def test_s15_a_plugin_on_path_is_not_run_instead(release: Release) -> None:
    """The engine would take it before any that it has installed."""
    release.pin("5a" * 32)
    tools = release.root / "tools"
    tools.mkdir(mode=0o700)
    (tools / "pulumi-resource-gcp").write_text("#!/bin/sh\n")
    (tools / "pulumi-resource-gcp").chmod(0o700)
    release.environ["PATH"] = str(tools)

    with pytest.raises(AccessError, match=r"found on PATH.* would be run instead"):
        release.require()
