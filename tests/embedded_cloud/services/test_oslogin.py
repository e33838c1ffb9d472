"""OS Login: profiles, and whose keys a host takes."""

from __future__ import annotations

import pytest

from embedded_cloud.machines.hosts.ssh_server import host_key, public_text
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.services.oslogin import LoginProfiles, posix_name
from tests.embedded_cloud.api import PROJECT, Api

USER = "ada.l@example.com"


def key(secret: str) -> str:
    return f"ssh-ed25519 {public_text(host_key(secret))}"


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_a_profile_grows_by_an_imported_key(api: Api, version: str) -> None:
    """As gcloud asks: a profile, then a key for it, with the account to log in by."""
    assert api.call("GET", f"/{version}/users/{USER}/loginProfile").json() == {"name": USER}

    imported = api.call(
        "POST",
        f"/{version}/users/{USER}:importSshPublicKey",
        body={"key": key("a")},
        projectId=PROJECT,
    ).json()["loginProfile"]

    (account,) = imported["posixAccounts"]
    assert account["username"] == "ada_l_example_com"
    assert account["accountId"] == PROJECT
    ((fingerprint, entry),) = imported["sshPublicKeys"].items()
    assert entry == {
        "name": f"users/{USER}/sshPublicKeys/{fingerprint}",
        "key": key("a"),
        "fingerprint": fingerprint,
    }
    assert api.call("GET", f"/{version}/users/{USER}/loginProfile").json() == imported


def test_what_is_no_key_is_refused(api: Api) -> None:
    """400, and the profile stays as it was."""
    path = f"/v1/users/{USER}:importSshPublicKey"
    assert api.call("POST", path, body={"key": "ssh-rsa AAAA\nssh-rsa BBBB"}).status_code == 400
    assert api.call("GET", f"/v1/users/{USER}/loginProfile").json() == {"name": USER}


async def test_a_host_takes_the_keys_of_the_user_alone(cloud: EmbeddedCloud) -> None:
    """Another's name, another key and a name without keys are refused."""
    import asyncssh

    from embedded_cloud.machines.hosts.ssh_server import HostSsh

    profiles = LoginProfiles(cloud.store)
    profiles.import_key(USER, PROJECT, key("a"))
    profiles.import_key("eve@example.com", PROJECT, key("e"))
    host = HostSsh.__new__(HostSsh)
    host._keys_of, host._missing = profiles.keys_of, frozenset({"compute.instances.osLogin"})

    def takes(username: str, secret: str) -> bool:
        return host.validate_public_key(username, asyncssh.import_public_key(key(secret)))

    assert takes(posix_name(USER), "a")
    assert not takes(posix_name(USER), "e")
    assert not takes("eve_example_com", "a")
    assert not takes("root", "a")
    # Administrators may log in, too; without either permission nobody does.
    host._missing |= {"compute.instances.osAdminLogin"}
    assert not takes(posix_name(USER), "a")
