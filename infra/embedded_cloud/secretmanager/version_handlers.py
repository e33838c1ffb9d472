"""HTTP calls on the versions of secrets."""

from __future__ import annotations

import base64

import google_crc32c

from embedded_cloud.clock import parse_duration, rfc3339
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.routing import Call, Reply
from embedded_cloud.secretmanager.filters import matches
from embedded_cloud.secretmanager.handlers import PAGING, SecretHandlers, check_etag
from embedded_cloud.secretmanager.records import Secret, Version
from embedded_cloud.secretmanager.state import Secrets


class VersionHandlers:
    """Handlers of ``projects.secrets.versions``, and of ``addVersion``."""

    def __init__(self, secrets: Secrets, parents: SecretHandlers) -> None:
        self._secrets = secrets
        self._parents = parents

    def add(self, call: Call) -> Reply:
        """POST …/secrets/{secret}:addVersion."""
        secret = self._parents.secret(call)
        payload = child(call.body or {}, "payload")
        data = text(payload, "data").replace("-", "+").replace("_", "/")
        checksum = text(payload, "dataCrc32c")
        version = self._secrets.add(
            secret,
            base64.b64decode(data + "=" * (-len(data) % 4)),
            int(checksum) if checksum else None,
        )
        return Reply(body=_resource(secret, version))

    def get(self, call: Call) -> Reply:
        """GET …/versions/{version}."""
        secret, version = self._version(call)
        return Reply(body=_resource(secret, version))

    def list(self, call: Call) -> Reply:
        """GET …/versions: the newest first."""
        secret = self._parents.secret(call)
        expression = call.query.get("filter", "")
        versions = [
            version
            for version in self._secrets.versions(secret)
            if matches(expression, _resource(secret, version))
        ]
        return PAGING.reply(
            call,
            "versions",
            versions,
            lambda version: version.key,
            lambda version: _resource(secret, version),
            descending=True,
            head={"totalSize": len(versions)},
        )

    def access(self, call: Call) -> Reply:
        """GET …/versions/{version}:access."""
        secret, version = self._version(call)
        data = self._secrets.access(secret, version)
        return Reply(
            body={
                "name": version.name,
                "payload": {
                    "data": base64.b64encode(data).decode(),
                    "dataCrc32c": str(google_crc32c.value(data)),
                },
            }
        )

    def enable(self, call: Call) -> Reply:
        """POST …/versions/{version}:enable."""
        secret, version = self._changeable(call)
        return Reply(body=_resource(secret, self._secrets.set_enabled(version, True)))

    def disable(self, call: Call) -> Reply:
        """POST …/versions/{version}:disable."""
        secret, version = self._changeable(call)
        return Reply(body=_resource(secret, self._secrets.set_enabled(version, False)))

    def destroy(self, call: Call) -> Reply:
        """POST …/versions/{version}:destroy: at once, or after the secret's delay."""
        secret, version = self._changeable(call)
        delay = text(secret.settings, "versionDestroyTtl", "0s")
        destroyed = self._secrets.destroy(version, parse_duration(delay))
        return Reply(body=_resource(secret, destroyed))

    def _version(self, call: Call) -> tuple[Secret, Version]:
        secret = self._parents.secret(call)
        return secret, self._secrets.require_version(secret, call.params["version"])

    def _changeable(self, call: Call) -> tuple[Secret, Version]:
        secret, version = self._version(call)
        check_etag(text(call.body or {}, "etag"), _etag(version))
        return secret, version


def _resource(secret: Secret, version: Version) -> JsonObject:
    resource: JsonObject = {
        "name": version.name,
        "createTime": rfc3339(version.created),
        "state": version.state.value,
        "etag": _etag(version),
        "replicationStatus": _replication_status(secret, version),
    }
    if version.checksummed:
        resource["clientSpecifiedPayloadChecksum"] = True
    if version.destroyed is not None:
        resource["destroyTime"] = rfc3339(version.destroyed)
    if version.destroy_at is not None:
        resource["scheduledDestroyTime"] = rfc3339(version.destroy_at)
    return resource


def _replication_status(secret: Secret, version: Version) -> JsonObject:
    def encrypted(place: str) -> JsonObject:
        key = version.keys.get(place)
        return {"customerManagedEncryption": {"kmsKeyVersionName": key}} if key else {}

    managed = child(child(secret.settings, "replication"), "userManaged")
    if not managed:
        return {"automatic": encrypted("global")}
    replicas = managed.get("replicas")
    listed = replicas if isinstance(replicas, list) else []
    return {
        "userManaged": {
            "replicas": [
                {"location": text(replica, "location"), **encrypted(text(replica, "location"))}
                for replica in listed
                if isinstance(replica, dict)
            ]
        }
    }


def _etag(version: Version) -> str:
    return f'"{int(version.created * 1_000_000) + version.revision:x}"'
