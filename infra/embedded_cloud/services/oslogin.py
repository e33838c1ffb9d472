"""OS Login: whose SSH keys the hosts of a project take."""

from __future__ import annotations

import hashlib
import re

from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.core.routing import Call, Context, Handler, Reply, Service
from embedded_cloud.core.store import Store

_COLLECTION = "_oslogin/profiles"
#: Types of key and base64, then perhaps a comment (authorized_keys(5)).
_KEY = re.compile(r"(ssh-(?:rsa|ed25519)|ecdsa-sha2-nistp\d+) ([A-Za-z0-9+/]+=*)( .*)?")


class LoginProfiles:
    """The login profiles of all users."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, user: str) -> JsonObject:
        """The profile of ``user``; one without keys where they have imported none."""
        found = self._store.get(_COLLECTION, user)
        return found if found is not None else {"name": user}

    def import_key(self, user: str, project: str, key: str) -> JsonObject:
        """Add a key, and the account with which ``user`` logs in; the profile with both.

        Raises:
            CloudError: 400 for what is no SSH public key.
        """
        if key and not _KEY.fullmatch(key.strip()):
            raise invalid_argument("Invalid SSH public key.")
        profile = self.get(user)
        keys = child(profile, "sshPublicKeys")
        if key:
            fingerprint = hashlib.sha256(key.strip().encode()).hexdigest()
            keys[fingerprint] = {
                "name": f"users/{user}/sshPublicKeys/{fingerprint}",
                "key": key.strip(),
                "fingerprint": fingerprint,
            }
        profile = {**profile, "sshPublicKeys": keys, "posixAccounts": [_account(user, project)]}
        self._store.put(_COLLECTION, user, profile)
        return profile

    def keys_of(self, username: str) -> list[str]:
        """The keys with which ``username`` logs in to a host."""
        return [
            text(child(child(profile, "sshPublicKeys"), fingerprint), "key")
            for user, profile in self._store.list(_COLLECTION)
            if posix_name(user) == username
            for fingerprint in child(profile, "sshPublicKeys")
        ]


def posix_name(user: str) -> str:
    """The account's name: ``ada_example_com`` of ``ada@example.com``
    (https://cloud.google.com/compute/docs/oslogin#configure_users)."""
    return re.sub(r"[^a-z0-9_]", "_", user.lower())[:32]


def _account(user: str, project: str) -> JsonObject:
    number = 1_000_000 + int.from_bytes(hashlib.sha256(user.encode()).digest()[:4]) % 1_000_000_000
    name = posix_name(user)
    return {
        "primary": True,
        "username": name,
        "uid": str(number),
        "gid": str(number),
        "homeDirectory": f"/home/{name}",
        "shell": "/bin/bash",
        "operatingSystemType": "LINUX",
        "accountId": project,
        "name": f"users/{user}/projects/{project}",
    }


#: gcloud's alpha track calls v1alpha (its `api_lib/oslogin/client.py`).
VERSIONS = ("v1", "v1beta", "v1alpha")


def services(context: Context) -> tuple[Service, ...]:
    """OS Login in all its versions, over one state."""
    profiles = LoginProfiles(context.store)

    def get(call: Call) -> Reply:
        """``users.getLoginProfile``."""
        return Reply(body=profiles.get(call.id))

    def import_key(call: Call) -> Reply:
        """``users.importSshPublicKey``."""
        project = call.query.get("projectId", "")
        profile = profiles.import_key(call.id, project, text(call.body or {}, "key"))
        return Reply(body={"loginProfile": profile})

    handlers: dict[str, Handler] = {
        "oslogin.users.getLoginProfile": get,
        "oslogin.users.importSshPublicKey": import_key,
    }
    return tuple(Service("oslogin", version, handlers) for version in VERSIONS)
