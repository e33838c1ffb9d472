"""A host whose image has no docker: it is installed, or the host says at once why it cannot be."""

from __future__ import annotations

from tests.startup.host import StartupHost
from tests.startup.test_failure import failed


def calls(host: StartupHost) -> list[str]:
    """What apt-get was asked for."""
    path = host.directory / "apt.calls"
    return path.read_text().splitlines() if path.exists() else []


def test_docker_that_is_there_is_left_alone(host: StartupHost) -> None:
    """Nothing is installed on a host that has docker."""
    assert host.run().status == 0
    assert calls(host) == []


def test_docker_is_installed(host: StartupHost) -> None:
    """A host without docker installs its distribution's, within bounds, and serves."""
    host.mark("no-docker")
    run = host.run()
    assert run.status == 0, run.output
    update, install = calls(host)
    assert update.endswith(" update")
    assert install.endswith(" install --yes --no-install-recommends docker.io")
    assert all("DPkg::Lock::Timeout" in call for call in (update, install))
    assert "installing docker" in host.cloud.details()


def test_docker_that_cannot_be_installed(host: StartupHost) -> None:
    """apt-get's own complaint is reported after four tries."""
    host.mark("no-docker")
    host.mark("no-mirror")
    error = failed(host)
    assert error.startswith("docker: the image of this runtime version has no docker, and apt-get")
    assert error.endswith("E: Unable to locate package docker.io")
    assert len(calls(host)) == 4


def test_a_host_that_reaches_only_google_does_not_try_for_long(host: StartupHost) -> None:
    """With `egress: google` there is no mirror to install from: the second refusal is the last, and
    the error names the settings that help."""
    host.mark("no-docker")
    host.mark("no-mirror").write_text(
        "E: Failed to fetch http://us-east5.gce.archive.ubuntu.com/ubuntu/dists/jammy/InRelease"
        "  Could not connect to us-east5.gce.archive.ubuntu.com:80, connection timed out\n"
    )
    error = failed(host)
    assert error.startswith("docker: the image of this runtime version has no docker")
    assert "`egress: internet` in tpuflex:network" in error
    assert "tpuflex:slice.runtime_version" in error
    assert "connection timed out" in error
    assert len(calls(host)) == 2
