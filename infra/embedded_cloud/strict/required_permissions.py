"""Which permissions one call asks for, and on which resource each: the row of its method in
:mod:`embedded_cloud.strict.permission_table`, with what path, query and body of the call add.

Who has them is not asked here, but in :mod:`embedded_cloud.strict.rights`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from embedded_cloud.core.inbound_request import InboundRequest
from embedded_cloud.core.json_types import JsonObject, child, children, text, texts
from embedded_cloud.core.projects import default_service_account, policy_resource
from embedded_cloud.core.routing import Match
from embedded_cloud.core.store import Store
from embedded_cloud.services.iam.state import named_account, project_of
from embedded_cloud.services.storage.objects import live_object
from embedded_cloud.services.storage.state import policy_resource as bucket_resource
from embedded_cloud.strict.consumer import Consumers
from embedded_cloud.strict.permission_table import needs_of

_ACT_AS = "iam.serviceAccounts.actAs"
#: https://cloud.google.com/dns/docs/access-control: what a change adds or deletes.
_RECORD_SETS = (
    ("additions", "dns.resourceRecordSets.create"),
    ("deletions", "dns.resourceRecordSets.delete"),
)
#: What writes an object, and deletes the one that it replaces
#: (https://cloud.google.com/storage/docs/access-control/iam-json).
_WRITES = tuple(f"storage.objects.{verb}" for verb in ("insert", "rewrite"))
#: Methods of which the body says what they need, or where.
_BY_BODY = frozenset(
    {
        "cloudresourcemanager.projects.setIamPolicy",
        "dns.changes.create",
        "logging.entries.list",
        "logging.entries.write",
        "tpu.projects.locations.nodes.create",
        "tpu.projects.locations.queuedResources.create",
    }
)


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """One permission that a call asks for.

    Attributes:
        permission: its name.
        resource: name of the resource whose policy is asked first.
        name: name of the resource that conditions are about, where it has no policy of its own.
    """

    permission: str
    resource: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class RequiredPermissions:
    """Finds what calls ask for.

    Attributes:
        store: where service accounts are.
        consumers: which project a call is about.
    """

    store: Store
    consumers: Consumers

    def needs_body(self, method_id: str) -> bool:
        """Whether :meth:`of` has to see the body of calls of this method."""
        return method_id in _BY_BODY

    def of(
        self, match: Match, inbound: InboundRequest, body: JsonObject
    ) -> tuple[RequiredPermission, ...]:
        """What a call asks for, in the order in which it is checked.

        Args:
            match: its method.
            inbound: the request.
            body: its body, where :meth:`needs_body` says so.
        """
        method_id = match.route.method_id
        project = self.consumers.resource_project(match, inbound)
        if match.service.name == "logging":
            project = _logged_project(body)
        if not project and match.service.name == "serviceusage":
            return ()  # an operation, whose name does not say its project
        found: list[RequiredPermission] = []
        for permission in needs_of(method_id) or ():
            if permission == _ACT_AS:
                found += [
                    RequiredPermission(permission, name) for name in self._accounts(project, body)
                ]
            else:
                resource = self._resource(match, permission, project)
                name = _object(match, inbound, resource) or _version(match, resource)
                found.append(RequiredPermission(permission, resource, name))
        if method_id in _WRITES and (replaced := self._replaced(match, inbound)):
            found.append(RequiredPermission("storage.objects.delete", *replaced))
        if method_id == "dns.changes.create":
            named = [permission for key, permission in _RECORD_SETS if body.get(key)]
            found += [
                RequiredPermission(permission, policy_resource(project)) for permission in named
            ]
        return tuple(found)

    def _resource(self, match: Match, permission: str, project: str) -> str:
        params, service = match.params, match.service.name
        if service == "storage" and permission.startswith("storage."):
            reads = permission == "storage.objects.get" and "sourceBucket" in params
            bucket = params.get("sourceBucket" if reads else "destinationBucket")
            if name := bucket or params.get("bucket", ""):
                return bucket_resource(name)
        if service == "secretmanager" and "secret" in params:
            number = self.consumers.number_of_project(project)
            return f"projects/{number}/secrets/{params['secret']}"
        if service == "cloudkms" and "keyRing" in params:
            return _key(params)
        if service in ("iam", "iamcredentials") and "serviceAccount" in params:
            return self._account(project, params["serviceAccount"])
        return policy_resource(project)

    def _replaced(self, match: Match, inbound: InboundRequest) -> tuple[str, str] | None:
        """Bucket and object that a call writes over; None where there is no such object, or the
        call forbids that."""
        if inbound.query.get("ifGenerationMatch") == "0":
            return None
        bucket = match.params.get("destinationBucket") or match.params.get("bucket", "")
        resource = bucket_resource(bucket)
        name = _object(match, inbound, resource)
        there = live_object(self.store, bucket, name.removeprefix(f"{resource}/objects/"))
        return (resource, name) if there is not None else None

    def _account(self, project: str, account: str) -> str:
        """Full name of a service account that may be named by its unique id, and without its
        project."""
        found = named_account(self.store, project or "-", account)
        if found is not None:
            return found.name
        where = project_of(account) or project
        return f"projects/{where}/serviceAccounts/{account}"

    def _accounts(self, project: str, body: JsonObject) -> Iterator[str]:
        """The service accounts of the nodes that ``body`` asks for; one that names none gets that
        of Compute Engine."""
        specs = children(child(body, "tpu"), "nodeSpec")
        nodes = [child(spec, "node") for spec in specs] or [body]
        for node in nodes:
            email = text(child(node, "serviceAccount"), "email")
            if email in ("", "default"):
                number = self.consumers.number_of_project(project)
                email = default_service_account(number)
            where = project_of(email) or project
            yield f"projects/{where}/serviceAccounts/{email}"


def _key(params: Mapping[str, str]) -> str:
    """Full name of a key, or of the ring where no key is named."""
    place = f"projects/{params['project']}/locations/{params['location']}"
    key = f"/cryptoKeys/{params['cryptoKey']}" if "cryptoKey" in params else ""
    return f"{place}/keyRings/{params['keyRing']}{key}"


def _object(match: Match, inbound: InboundRequest, bucket: str) -> str:
    """Full name of the object in ``bucket`` that a call is about; empty where the call names none,
    or only in its body (https://cloud.google.com/storage/docs/access-control/iam#conditions)."""
    if match.service.name != "storage":
        return ""
    params = match.params
    name = params.get("destinationObject") or params.get("object") or inbound.query.get("name", "")
    return f"{bucket}/objects/{name}" if name else ""


def _version(match: Match, secret: str) -> str:
    """Full name of the version of ``secret`` that a call is about; empty for every other call
    (https://cloud.google.com/secret-manager/docs/access-control)."""
    if match.service.name != "secretmanager" or "version" not in match.params:
        return ""
    return f"{secret}/versions/{match.params['version']}"


def _logged_project(body: JsonObject) -> str:
    """The project of the logs that ``body`` names; the first of several decides."""
    names = [text(body, "logName"), *texts(body, "resourceNames")]
    names += [text(entry, "logName") for entry in children(body, "entries")]
    first = next((name for name in names if name.startswith("projects/")), "")
    return first.split("/")[1] if first else ""
