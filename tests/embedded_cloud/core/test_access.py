"""Who has access: the owner of the state directory, and a host to what it needs."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

import pytest
import requests

from embedded_cloud.core.access import read_token
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import TOKEN, Api, error_of, flex_start
from tpuflex.errors import EmulatorError

_METADATA = "/computeMetadata/v1/instance"


def test_every_start_has_a_token_of_its_own(tmp_path: Path) -> None:
    """S8: random, readable by its owner only, and another one after a restart."""
    with EmbeddedCloud(tmp_path / "a") as first, EmbeddedCloud(tmp_path / "b") as second:
        assert first.token.startswith("ya29.tpuflex-embedded.")
        assert len(first.token) > 60
        assert first.token != second.token
        before = first.token
        path = tmp_path / "a" / "token"
        environ = first.environ()
        assert environ["GOOGLE_OAUTH_ACCESS_TOKEN"] == path.read_text() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert environ["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"] == str(path)
    with EmbeddedCloud(tmp_path / "a") as again:
        assert again.token == path.read_text() != before
        assert Api(again.url, token=before).tpu("GET", "nodes").status_code == 401


def test_there_is_no_token_where_no_cloud_ever_ran(tmp_path: Path) -> None:
    """The error says how to start one."""
    with pytest.raises(EmulatorError, match="token") as caught:
        read_token(tmp_path)
    assert "tpuflex emulator start" in str(caught.value.hint)


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
        timeout=60,
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
    prefix, payload, signature = token.rsplit(".", 2)
    claims = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    other = base64.urlsafe_b64encode(claims.replace(b'"n1"', b'"n2"')).decode().rstrip("=")
    assert other != payload
    forged = Api(cloud.url, token=".".join((prefix, other, signature)))
    assert forged.call("GET", "storage/v1/b/weights/o").status_code == 401
    assert cloud.token not in token


def test_a_hosts_token_expires(cloud: EmbeddedCloud, api: Api) -> None:
    """On the cloud's clock, after the lifetime that its metadata server told."""
    api.call("POST", "storage/v1/b", body={"name": "weights"}, project=api.project)
    host = Api(cloud.url, token=cloud.cloud.access.host_token("n1", 60))
    cloud.advance(59)
    assert host.call("GET", "storage/v1/b/weights/o").status_code == 200
    cloud.advance(1)
    assert error_of(host.call("GET", "storage/v1/b/weights/o"))[:2] == (401, "UNAUTHENTICATED")
