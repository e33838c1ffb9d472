"""HTTP calls on secrets turned into calls on the state, and answers into JSON."""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.clock import Clock, parse_duration, parse_rfc3339, rfc3339
from embedded_cloud.contract_schema import snake
from embedded_cloud.errors import failed_precondition, invalid_argument
from embedded_cloud.iam.policies import Policies, tested
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.paging import Paging
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Reply, Rights
from embedded_cloud.secretmanager.filters import matches
from embedded_cloud.secretmanager.records import Secret
from embedded_cloud.secretmanager.state import Secrets

PAGING = Paging(default=25_000, maximum=25_000)

#: Fields of the Secret resource that updateMask may name, and that are kept as sent.
SETTABLE = (
    "annotations",
    "labels",
    "replication",
    "rotation",
    "topics",
    "versionAliases",
    "versionDestroyTtl",
)
_EXPIRY = frozenset({"ttl", "expireTime"})


class SecretHandlers:
    """Handlers of ``projects.secrets``."""

    def __init__(
        self,
        secrets: Secrets,
        policies: Policies,
        rights: Rights,
        clock: Clock,
        project_number: Callable[[str], str],
    ) -> None:
        self._secrets = secrets
        self._policies = policies
        self._rights = rights
        self._clock = clock
        self._number_of = project_number

    def create(self, call: Call) -> Reply:
        """POST /v1/projects/{project}/secrets."""
        body = call.body or {}
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
        project = call.params["project"]
        return project if project.isdecimal() else self._number_of(require(project))

    def _expiry(self, body: JsonObject) -> float | None:
        if ttl := text(body, "ttl"):
            return self._clock.now() + parse_duration(ttl)
        expires = text(body, "expireTime")
        return parse_rfc3339(expires) if expires else None


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
