"""Who has access: the owner of the state directory, and a host to what it needs."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests

from embedded_cloud.access import keep_token, read_token
from embedded_cloud.peer import owner
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import TOKEN, Api, error_of, flex_start
from tpuflex.errors import EmulatorError

_AT_ONCE = {"admission_s": 0, "grant_after_s": 0, "provisioning_s": 0}
_METADATA = "/computeMetadata/v1/instance"


def test_every_state_directory_has_a_token_of_its_own(tmp_path: Path) -> None:
    """Random, readable by its owner only, and the same after a restart."""
    with EmbeddedCloud(tmp_path / "a") as first, EmbeddedCloud(tmp_path / "b") as second:
        assert first.token.startswith("ya29.tpuflex-embedded.")
        assert len(first.token) > 60
        assert first.token != second.token
        kept = first.token
        environ = first.environ()
    path = tmp_path / "a" / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert environ["GOOGLE_OAUTH_ACCESS_TOKEN"] == path.read_text() == kept
    assert environ["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"] == str(path)
    with EmbeddedCloud(tmp_path / "a") as again:
        assert again.token == kept


@pytest.mark.parametrize(
    ("content", "mode"),
    [("ya29.tpuflex-embedded", 0o600), ("", 0o600), (TOKEN, 0o644), ("ya29.x", 0o600)],
)
def test_a_token_that_others_may_know_is_replaced(tmp_path: Path, content: str, mode: int) -> None:
    """One that was readable by others, or that is not one of ours."""
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    assert keep_token(tmp_path) not in (content, TOKEN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keep_token(tmp_path) == read_token(tmp_path)


def test_there_is_no_token_where_no_cloud_ever_ran(tmp_path: Path) -> None:
    """The error says how to start one."""
    with pytest.raises(EmulatorError, match="token") as caught:
        read_token(tmp_path)
    assert "tpuflex emulator start" in caught.value.hint


@pytest.mark.parametrize(
    "token", ["x", "ya29.tpuflex-embedded", TOKEN[:-1], TOKEN + "x", "ya29.tpuflex-embedded-host."]
)
def test_other_tokens_are_refused(cloud: EmbeddedCloud, token: str) -> None:
    """401 in Google's words. No node is made: its script would run as the emulator's user."""
    stranger = Api(cloud.url, token=token)
    status, code, message = error_of(stranger.create(body=flex_start()))
    assert (status, code) == (401, "UNAUTHENTICATED")
    assert message.startswith("Request had invalid authentication credentials.")
    assert token not in message or token == "x"
    refused = requests.get(
        f"{cloud.url}/storage/v1/b?project=p",
        headers={"Authorization": f"Bearer {token}"},
        timeout=10,
    )
    assert refused.status_code == 401
    assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]
    assert Api(cloud.url).get("queuedResources") == {}


def test_a_host_reads_weights_and_secrets_and_nothing_more(cloud: EmbeddedCloud, api: Api) -> None:
    """The token from its metadata server allows less than the owner's."""
    project = f"v1/projects/{api.project}"
    api.call("POST", "storage/v1/b", body={"name": "weights"}, project=api.project)
    secret: dict[str, Any] = {"replication": {"automatic": {}}}
    api.call("POST", f"{project}/secrets", body=secret, secretId="key")
    api.call("POST", f"{project}/secrets/key:addVersion", body={"payload": {"data": "eA=="}})
    host = Api(cloud.url, token=cloud.cloud.access.host_token("n1"))
    assert host.call("GET", "storage/v1/b/weights/o").status_code == 200
    assert host.call("GET", "storage/v1/b/weights/o/none").status_code == 404
    assert host.call("GET", f"{project}/secrets/key/versions/latest:access").status_code == 200
    for answer in (
        host.create(),
        host.tpu("GET", "nodes"),
        host.call("DELETE", "storage/v1/b/weights"),
        host.call("GET", f"{project}/secrets"),
        host.call("GET", "v9/nothing"),
    ):
        assert error_of(answer)[:2] == (403, "PERMISSION_DENIED")


def test_a_hosts_token_is_valid_for_one_cloud_and_one_host(cloud: EmbeddedCloud) -> None:
    """It cannot be derived from another host's."""
    token = cloud.cloud.access.host_token("n1")
    forged = Api(cloud.url, token=token.replace("n1", "n2"))
    assert forged.call("GET", "storage/v1/b/weights/o").status_code == 401
    assert cloud.token not in token


def test_the_kernel_knows_the_user_of_a_connection() -> None:
    """The table's line of a connection names the user of its other end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with client, accepted, Path("/proc/net/tcp").open(encoding="ascii") as table:
            ends = {"local": client.getsockname(), "remote": accepted.getsockname()}
            assert owner(table, **ends) == os.getuid()
    line = "  0: 0100007F:2116 0200007F:0050 01 0:0 0:0 0 4711 0 1 1"
    assert owner([line], local=("127.0.0.1", 8470), remote=("127.0.0.2", 80)) == 4711
    assert owner([line], local=("127.0.0.1", 8471), remote=("127.0.0.2", 80)) is None


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("curl") is None, reason="needs root, curl")
def test_other_users_get_neither_control_nor_a_hosts_token(
    tmp_path: Path, cloud: EmbeddedCloud
) -> None:
    """Endpoints that need no credential refuse every user but the emulator's."""
    with EmbeddedCloud(tmp_path / "hosts", capacity=dict(_AT_ONCE), launch_hosts=True) as hosting:
        assert Api(hosting.url, token=hosting.token).create().status_code == 200
        hosting.advance(1)
        (host,) = hosting.cloud.hosts.describe()
        token = f"{host['metadata_server']}{_METADATA}/service-accounts/default/token"
        assert _status(token, user=0) == "200"
        assert _status(token, user=65_534) == "403"
    assert _status(f"{cloud.url}/_emulator/history", user=0) == "200"
    assert _status(f"{cloud.url}/_emulator/history", user=65_534) == "403"


def _status(url: str, *, user: int) -> str:
    command = [
        "curl",
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-H",
        "Metadata-Flavor: Google",
    ]
    done = subprocess.run(
        [*command, url], user=user, cwd="/", capture_output=True, text=True, check=True
    )
    return done.stdout
