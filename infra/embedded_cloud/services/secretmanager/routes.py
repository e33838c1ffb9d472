"""The Secret Manager v1 methods that are emulated.

https://cloud.google.com/secret-manager/docs/filtering. A filter that is not
understood is refused, never ignored.
"""

from __future__ import annotations

import base64
import re

import google_crc32c

from embedded_cloud.core.clock import Clock, parse_duration, parse_rfc3339, rfc3339
from embedded_cloud.core.contract_schema import snake
from embedded_cloud.core.errors import failed_precondition, invalid_argument, unimplemented
from embedded_cloud.core.json_types import JsonObject, JsonValue, child, text
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import number_of
from embedded_cloud.core.routing import Call, Context, Reply, Rights, Service
from embedded_cloud.services.cloudkms import KeyUse
from embedded_cloud.services.iam.policies import Policies, tested
from embedded_cloud.services.secretmanager.records import Secret, SecretKeys, Version
from embedded_cloud.services.secretmanager.state import Secrets

_TERM = re.compile(r'(?P<field>[\w.-]+)\s*(?P<op>!=|=|:)\s*(?P<value>"[^"]*"|\S+)')


def matches(expression: str, resource: JsonObject) -> bool:
    """Whether ``resource`` (as answered) passes the filter.

    Raises:
        CloudError: 501 for a filter that is more than terms joined by AND.
    """
    return all(_holds(term, resource) for term in _terms(expression))


def _terms(expression: str) -> list[re.Match[str]]:
    parts = [part.strip() for part in re.split(r"\s+AND\s+|\s+(?=[\w.-]+\s*[:=!])", expression)]
    parsed = [_TERM.fullmatch(part) for part in parts if part]
    terms = [term for term in parsed if term]
    if len(terms) != len(parsed):
        raise unimplemented(f"the filter {expression!r}")
    return terms


def _holds(term: re.Match[str], resource: JsonObject) -> bool:
    value: JsonValue = resource
    for key in term["field"].split("."):
        value = value.get(key) if isinstance(value, dict) else None
    operand = term["value"].strip('"')
    if operand == "*":
        return value is not None
    if term["op"] == ":" and isinstance(value, dict):
        return operand in value
    shown = "" if value is None else str(value)
    if term["op"] == ":":
        return operand.lower() in shown.lower()
    return (shown == operand) == (term["op"] == "=")


PAGING = Paging(default=25_000, maximum=25_000)

#: Fields of the Secret resource that updateMask may name, and that are kept as sent.
SETTABLE = (
    "annotations",
    "labels",
    "replication",
    "rotation",
    "topics",
)
#: Fields that the emulator cannot honour and so refuses.
REFUSED = ("versionAliases", "versionDestroyTtl")
_EXPIRY = frozenset({"ttl", "expireTime"})


class SecretHandlers:
    """Handlers of ``projects.secrets``."""

    def __init__(
        self,
        secrets: Secrets,
        policies: Policies,
        rights: Rights,
        clock: Clock,
    ) -> None:
        self._secrets = secrets
        self._policies = policies
        self._rights = rights
        self._clock = clock

    def create(self, call: Call) -> Reply:
        """POST /v1/projects/{project}/secrets."""
        body = call.body or {}
        _refuse_unsupported(call, body)
        settings = {key: body[key] for key in SETTABLE if body.get(key)}
        if isinstance(body.get("replication"), dict):
            settings["replication"] = body["replication"]
        secret = self._secrets.create(
            self.number(call), call.query.get("secretId", ""), settings, self._expiry(body)
        )
        return Reply(body=secret_resource(secret))

    def get(self, call: Call) -> Reply:
        """GET …/secrets/{secret}."""
        return Reply(body=secret_resource(self.secret(call)))

    def list(self, call: Call) -> Reply:
        """GET /v1/projects/{project}/secrets."""
        expression = call.query.get("filter", "")
        secrets = [
            secret
            for secret in self._secrets.all(self.number(call))
            if matches(expression, secret_resource(secret))
        ]
        return PAGING.reply(
            call,
            "secrets",
            secrets,
            lambda secret: secret.name,
            secret_resource,
            head={"totalSize": len(secrets)},
        )

    def patch(self, call: Call) -> Reply:
        """PATCH …/secrets/{secret}: what updateMask names changes."""
        body, secret = call.body or {}, self.secret(call)
        _refuse_unsupported(call, body)
        check_etag(text(body, "etag"), secret_etag(secret))
        mask = [path.strip() for path in call.query.get("updateMask", "").split(",")]
        settings, expires = dict(secret.settings), secret.expires
        for path in mask:
            name = _camel(path)
            if name in _EXPIRY:
                expires = self._expiry(body)
            elif name in SETTABLE:
                settings.pop(name, None)
                if body.get(name):
                    settings[name] = body[name]
            elif name != "etag":
                raise invalid_argument(f"The field [{snake(path)}] in updateMask is not valid.")
        return Reply(body=secret_resource(self._secrets.amend(secret, settings, expires)))

    def delete(self, call: Call) -> Reply:
        """DELETE …/secrets/{secret}."""
        secret = self.secret(call)
        check_etag(call.query.get("etag", ""), secret_etag(secret))
        self._secrets.delete(secret)
        self._policies.forget(secret.name)
        return Reply(body={})

    def get_policy(self, call: Call) -> Reply:
        """GET …:getIamPolicy."""
        return Reply(body=self._policies.get(self.secret(call).name))

    def set_policy(self, call: Call) -> Reply:
        """POST …:setIamPolicy."""
        name = self.secret(call).name
        return Reply(body=self._policies.set(name, child(call.body or {}, "policy")))

    def test_permissions(self, call: Call) -> Reply:
        """POST …:testIamPermissions."""
        return Reply(body=tested(self._rights, call, self.secret(call).name))

    def secret(self, call: Call) -> Secret:
        """The secret that the path names. Raises CloudError 404."""
        return self._secrets.require(self.number(call), call.params["secret"])

    def number(self, call: Call) -> str:
        """The project's number; a path may name the project by id or by number."""
        return number_of(call.params["project"])

    def _expiry(self, body: JsonObject) -> float | None:
        if ttl := text(body, "ttl"):
            return self._clock.now() + parse_duration(ttl)
        expires = text(body, "expireTime")
        return parse_rfc3339(expires) if expires else None


def _refuse_unsupported(call: Call, body: JsonObject) -> None:
    for name in REFUSED:
        if body.get(name):
            raise unimplemented(f"{name} in {call.method_id}")


def secret_resource(secret: Secret) -> JsonObject:
    """The Secret resource."""
    resource: JsonObject = {
        "name": secret.name,
        "createTime": rfc3339(secret.created),
        "etag": secret_etag(secret),
        **secret.settings,
    }
    if secret.expires is not None:
        resource["expireTime"] = rfc3339(secret.expires)
    return resource


def secret_etag(secret: Secret) -> str:
    """Quoted, as Secret Manager's are."""
    return f'"{int(secret.created * 1_000_000) + secret.revision:x}"'


def check_etag(sent: str, present: str) -> None:
    """Raises CloudError 400 when ``sent`` is given and stale."""
    if sent and sent != present:
        raise failed_precondition(
            f"The etag provided in the request [{sent}] does not match the resource's current "
            f"etag [{present}]."
        )


def _camel(path: str) -> str:
    head, *rest = path.split("_")
    return head + "".join(part.capitalize() for part in rest)


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
        """POST …/versions/{version}:destroy."""
        secret, version = self._changeable(call)
        return Reply(body=_resource(secret, self._secrets.destroy(version)))

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


def service(context: Context) -> Service:
    """Secret Manager: global secrets."""
    state = Secrets(context.store, context.clock, SecretKeys(KeyUse(context)))
    policies = Policies(context.store, context.clock, context.strictness)
    secrets = SecretHandlers(state, policies, context.rights, context.clock)
    versions = VersionHandlers(state, secrets)
    return Service(
        name="secretmanager",
        version="v1",
        handlers={
            "secretmanager.projects.secrets.create": secrets.create,
            "secretmanager.projects.secrets.list": secrets.list,
            "secretmanager.projects.secrets.get": secrets.get,
            "secretmanager.projects.secrets.patch": secrets.patch,
            "secretmanager.projects.secrets.delete": secrets.delete,
            "secretmanager.projects.secrets.getIamPolicy": secrets.get_policy,
            "secretmanager.projects.secrets.setIamPolicy": secrets.set_policy,
            "secretmanager.projects.secrets.testIamPermissions": secrets.test_permissions,
            "secretmanager.projects.secrets.addVersion": versions.add,
            "secretmanager.projects.secrets.versions.list": versions.list,
            "secretmanager.projects.secrets.versions.get": versions.get,
            "secretmanager.projects.secrets.versions.access": versions.access,
            "secretmanager.projects.secrets.versions.enable": versions.enable,
            "secretmanager.projects.secrets.versions.disable": versions.disable,
            "secretmanager.projects.secrets.versions.destroy": versions.destroy,
        },
        tick=state.settle,
    )
