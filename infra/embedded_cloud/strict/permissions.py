"""The check: a call is refused if :mod:`~embedded_cloud.strict.required_permissions` asks for what
:mod:`~embedded_cloud.strict.rights` does not grant its caller, in the words of its service.

Texts as they were seen in public issues until 2026-11; where none was seen, the common form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from embedded_cloud.core.access import HOST_METHODS_BY_BINDING, Caller, Principal
from embedded_cloud.core.errors import CloudError, error_info, precondition_failure
from embedded_cloud.core.inbound_request import InboundRequest, parse_object
from embedded_cloud.core.json_types import JsonObject, child
from embedded_cloud.core.projects import OWNER, initial_bindings, policy_resource
from embedded_cloud.core.routing import Match
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.services.iam.conditions import modified_roles
from embedded_cloud.services.iam.policies import Policies
from embedded_cloud.strict.consumer import QUOTA_PROJECT_HEADER
from embedded_cloud.strict.required_permissions import RequiredPermission, RequiredPermissions
from embedded_cloud.strict.rights import Rights

_DENIED = "PERMISSION_DENIED"
#: How the embedded cloud's owner is named.
OWNERS_EMAIL = OWNER.partition(":")[2]


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that is refused.

    Attributes:
        service: name of the API.
        method_id: the API method.
        resource: name of the resource, or of the collection that would hold it.
        permissions: those that are missing.
        caller: e-mail address of the caller.
    """

    service: str
    method_id: str
    resource: str
    permissions: tuple[str, ...]
    caller: str


def common(denial: Denial) -> CloudError:
    """What most services answer: ErrorInfo names permission and resource."""
    permission, where = denial.permissions[0], f"{denial.service}.googleapis.com"
    message = (
        f"Permission '{permission}' denied on resource '//{where}/{denial.resource}' "
        "(or it may not exist)."
    )
    return _refusal(message, permission, domain=where, resource=denial.resource)


def _iam(denial: Denial) -> CloudError:
    """IAM and Logging (skypilot-org/skypilot#7113): ErrorInfo names the permission only."""
    permission = denial.permissions[0]
    message = f"Permission '{permission}' denied on resource (or it may not exist)."
    return _refusal(message, permission, domain="iam.googleapis.com")


def _secrets(denial: Denial) -> CloudError:
    """Secret Manager (googleapis/python-secret-manager#389)."""
    permission = denial.permissions[0]
    message = (
        f"Permission '{permission}' denied for resource '{denial.resource}' (or it may not exist)."
    )
    domain = "secretmanager.googleapis.com"
    return _refusal(message, permission, domain=domain, resource=denial.resource)


def _storage(denial: Denial) -> CloudError:
    """Cloud Storage (ansible-collections/google.cloud#575): no status, no details."""
    permission = denial.permissions[0]
    kind = "object" if ".objects." in permission else "bucket"
    message = (
        f"{denial.caller} does not have {permission} access to the Google Cloud Storage {kind}."
        f" Permission '{permission}' denied on resource (or it may not exist)."
    )
    return CloudError(403, _DENIED, message)


def _compute(denial: Denial) -> CloudError:
    """Compute Engine (hashicorp/terraform#18873): one entry per missing permission."""
    messages = [
        f"Required '{name}' permission for '{denial.resource}'" for name in denial.permissions
    ]
    entries: list[JsonObject] = [
        {"message": message, "domain": "global", "reason": "forbidden"} for message in messages
    ]
    return CloudError(403, _DENIED, messages[0], legacy_errors=entries)


def _monitoring(denial: Denial) -> CloudError:
    """Cloud Monitoring (dynatrace-oss/dynatrace-gcp-monitor#25)."""
    permission = denial.permissions[0]
    message = f"Permission {permission} denied (or the resource may not exist)."
    return CloudError(403, _DENIED, message)


def _projects(denial: Denial) -> CloudError:
    """Resource Manager v1 and Cloud Billing (kubeflow/kubeflow#7140, tpg #10103)."""
    write = denial.method_id.endswith(".setIamPolicy")
    return CloudError(
        403,
        _DENIED,
        "Policy update access denied." if write else "The caller does not have permission",
    )


def _service_usage(denial: Denial) -> CloudError:
    """Service Usage (GoogleCloudPlatform/cloud-foundation-fabric#2985)."""
    what, _, name = denial.resource.rpartition("/services")
    doing = {
        "serviceusage.services.list": f"to list services for consumer container [{what}]",
        "serviceusage.services.get": f"to get service [{name.removeprefix('/')}]",
        "serviceusage.services.enable": f"to enable service [{name.removeprefix('/')}]",
        "serviceusage.services.disable": f"to disable service [{name.removeprefix('/')}]",
        "serviceusage.services.batchEnable": "to enable services",
        "serviceusage.services.batchGet": "to get services",
    }.get(denial.method_id, f"on resource [{denial.resource}]")
    details = (
        precondition_failure(type="googleapis.com", subject="110002"),
        error_info("AUTH_PERMISSION_DENIED", "serviceusage.googleapis.com"),
    )
    return CloudError(403, _DENIED, f"Permission denied {doing}", details)


def quota_project(service: str, project: str, number: str) -> CloudError:
    """403 for a caller that may not take quota from the project that the call names.

    Text and details are those seen in https://github.com/lbjlaq/Antigravity-Manager/issues/3050.
    """
    page = f"https://console.developers.google.com/iam-admin/iam/project?project={project}"
    message = (
        f"Caller does not have required permission to use project {project}. Grant the caller the"
        " roles/serviceusage.serviceUsageConsumer role, or a custom role with the"
        f" serviceusage.services.use permission, by visiting {page} and then retry. Propagation of"
        " the new permission may take a few minutes."
    )
    info = error_info(
        "USER_PROJECT_DENIED",
        "googleapis.com",
        service=f"{service}.googleapis.com",
        consumer=f"projects/{number}",
        containerInfo=project,
    )
    return CloudError(403, _DENIED, message, (info,))


def _refusal(message: str, permission: str, *, domain: str, **more: str) -> CloudError:
    info = error_info("IAM_PERMISSION_DENIED", domain, permission=permission, **more)
    return CloudError(403, _DENIED, message, (info,))


#: Services that do not answer in the common form.
BY_SERVICE: dict[str, Callable[[Denial], CloudError]] = {
    "storage": _storage,
    "secretmanager": _secrets,
    "compute": _compute,
    "iam": _iam,
    "iamcredentials": _iam,
    "logging": _iam,
    "monitoring": _monitoring,
    "cloudresourcemanager": _projects,
    "cloudbilling": _projects,
    "serviceusage": _service_usage,
}


#: What precedes the name of a resource in a path, and what may follow it.
_BEFORE = re.compile(
    r"^/(?:(?:download|upload|resumable/upload)/)?(?:(?:compute|storage|dns)/)?v\d\w*/"
)
_VERB = re.compile(r":\w+$")
_USE = "serviceusage.services.use"


@dataclass(frozen=True, slots=True)
class Permissions:
    """Refuses calls that ask for a permission that the caller does not have: one that no binding
    grants, where IAM is enforced, or one that the strictness takes away.

    Attributes:
        rights: what callers may do.
        required: what calls ask for.
        policies: the policies that calls change.
        strictness: whether any of this is enforced.
    """

    rights: Rights
    required: RequiredPermissions
    policies: Policies
    strictness: Callable[[], Strictness]

    async def check(self, match: Match, inbound: InboundRequest) -> None:
        """Check a call.

        Raises:
            CloudError: 403, in the words of the service.
        """
        strictness = self.strictness()
        by_binding = match.route.method_id in HOST_METHODS_BY_BINDING
        if not strictness.iam.enforced and not strictness.permissions.missing and not by_binding:
            return
        caller = self.rights.caller(inbound.headers.get("Authorization", ""))
        host = caller.kind is Principal.HOST
        if not strictness.iam.enforced and host and not by_binding:
            return
        may = self.rights.granted if host and by_binding else self.rights.may
        self._check_quota_project(match, inbound, caller)
        reads = self.required.needs_body(match.route.method_id)
        body = await _body(inbound) if reads else {}
        modified = self._modified(match, inbound, body)
        lacking = [
            each
            for each in self.required.of(match, inbound, body)
            if not may(caller, each.permission, each.resource, modified, each.name)
        ]
        if lacking:
            raise self._denied(match, inbound, caller, lacking)

    def _check_quota_project(self, match: Match, inbound: InboundRequest, caller: Caller) -> None:
        """Refuse a caller that may not take quota from the project it names."""
        project = inbound.headers.get(QUOTA_PROJECT_HEADER, "")
        if project and not self.rights.may(caller, _USE, policy_resource(project)):
            number = self.required.consumers.number_of_project(project)
            raise quota_project(match.service.name, project, number)

    def _modified(self, match: Match, inbound: InboundRequest, body: JsonObject) -> frozenset[str]:
        """The roles that a call on a project's policy grants or revokes."""
        if match.route.method_id != "cloudresourcemanager.projects.setIamPolicy":
            return frozenset()
        project = self.required.consumers.resource_project(match, inbound)
        before = self.policies.get(policy_resource(project), initial_bindings())
        return modified_roles(before, child(body, "policy"))

    def _denied(
        self,
        match: Match,
        inbound: InboundRequest,
        caller: Caller,
        lacking: list[RequiredPermission],
    ) -> CloudError:
        """The refusal of a call that lacks these permissions."""
        denial = Denial(
            match.service.name,
            match.route.method_id,
            resource_path(inbound.path),
            tuple(dict.fromkeys(each.permission for each in lacking)),
            self.rights.email(caller) or OWNERS_EMAIL,
        )
        return BY_SERVICE.get(match.service.name, common)(denial)


def resource_path(path: str) -> str:
    """The name of the resource, or of the collection, in the path of a call."""
    return _VERB.sub("", unquote(_BEFORE.sub("", path)))


async def _body(inbound: InboundRequest) -> JsonObject:
    """The body as far as it can be read: what is wrong with it, the contract says."""
    try:
        return parse_object(await inbound.read() or b"{}")
    except ValueError:
        return {}
