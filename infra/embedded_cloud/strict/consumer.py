"""Which project a call is about, and which it is charged to; and the checks that this decides: API
enabled, billing enabled, quota project named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.core.access import Access, Principal
from embedded_cloud.core.errors import CloudError, error_info, help_link, localized_message
from embedded_cloud.core.inbound_request import InboundRequest
from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.core.projects import project_number
from embedded_cloud.core.routing import Match
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.services.iam.state import project_of
from embedded_cloud.services.serviceusage.state import CHARGED, KNOWN, ProjectServices
from embedded_cloud.services.tokens.identities import CLIENT_PROJECT_NUMBER

QUOTA_PROJECT_HEADER = "X-Goog-User-Project"

#: Path parameters that name a project by id or number, per service; ``project`` everywhere else.
_PARAMETERS = {
    "cloudresourcemanager": ("projectId", "project", "resource"),
    "serviceusage": ("v1Id1", "v1beta1Id1"),
    "storage": ("projectId",),
}
_BUCKETS = ("bucket", "destinationBucket")

#: Calls of these APIs are charged to the project of the credential, which the embedded cloud does
#: not know, unless they name another (https://cloud.google.com/docs/quotas/quota-project). Enabling
#: the first API of a project would be impossible otherwise.
_CHARGED_TO_CREDENTIAL = frozenset({"serviceusage"})


@dataclass(frozen=True, slots=True)
class Consumers:
    """Finds the projects of calls.

    Attributes:
        store: where buckets are, whose names do not say their project.
    """

    store: Store

    def resource_project(self, match: Match, inbound: InboundRequest) -> str:
        """Id or number of the project that the call is about; empty if it is about none."""
        params = match.params
        for name in _PARAMETERS.get(match.service.name, ("project",)):
            if (project := params.get(name, "")) and project != "-":
                return project
        for name in _BUCKETS:
            if name in params:
                bucket = self.store.get("storage/buckets", params[name])
                return text(bucket or {}, "project")
        if match.service.name == "iam":
            return project_of(params.get("serviceAccount", ""))
        return inbound.query.get("project", "")

    def number(self, match: Match, inbound: InboundRequest) -> str:
        """Number of the project that the call is charged to; empty if that is not known."""
        project = inbound.headers.get(QUOTA_PROJECT_HEADER, "")
        if not project and match.service.name not in _CHARGED_TO_CREDENTIAL:
            project = self.resource_project(match, inbound)
        return self.number_of_project(project)

    def number_of_project(self, project: str) -> str:
        """The number of a project that is named by id or number; empty stays empty."""
        return project if not project or project.isdecimal() else project_number(project)


@dataclass(frozen=True, slots=True)
class EnabledApis:
    """Refuses calls of APIs that do not answer in the project that is charged.

    Attributes:
        services: which APIs are enabled where.
        consumers: which project a call is charged to.
        strictness: whether this is enforced.
    """

    services: ProjectServices
    consumers: Consumers
    strictness: Callable[[], Strictness]

    def check(self, match: Match, inbound: InboundRequest) -> None:
        """Check a call.

        Raises:
            CloudError: 403 SERVICE_DISABLED.
        """
        if not self.strictness().apis.enforced:
            return
        number = self.consumers.number(match, inbound)
        service = f"{match.service.name}.googleapis.com"
        if number and service in KNOWN and not self.services.answers(number, service):
            raise service_disabled(number, service)


def service_disabled(number: str, service: str) -> CloudError:
    """403 for an API that is not enabled in the project, or has been for too short a time.

    Text and details are those seen in https://github.com/google-gemini/gemini-cli/issues/1343.
    """
    url = f"https://console.developers.google.com/apis/api/{service}/overview?project={number}"
    message = (
        f"{KNOWN[service]} has not been used in project {number} before or it is disabled. Enable"
        f" it by visiting {url} then retry. If you enabled this API recently, wait a few minutes"
        " for the action to propagate to our systems and retry."
    )
    details = (
        error_info(
            "SERVICE_DISABLED",
            "googleapis.com",
            service=service,
            serviceTitle=KNOWN[service],
            consumer=f"projects/{number}",
            containerInfo=number,
            activationUrl=url,
        ),
        localized_message(message),
        help_link("Google developers console API activation", url),
    )
    legacy: JsonObject = {
        "message": message,
        "domain": "usageLimits",
        "reason": "accessNotConfigured",
        "extendedHelp": url,
    }
    return CloudError(403, "PERMISSION_DENIED", message, details, legacy_errors=(legacy,))


#: Methods of Cloud Storage: it checks the bucket's project, in words of its own.
_STORAGE = "storage.objects.", "storage.buckets.insert"


@dataclass(frozen=True, slots=True)
class OpenBilling:
    """Refuses calls on projects whose billing is not enabled.

    Attributes:
        consumers: which project a call is about.
        strictness: whether projects have a billing account.
    """

    consumers: Consumers
    strictness: Callable[[], Strictness]

    def check(self, match: Match, inbound: InboundRequest) -> None:
        """Check a call.

        Raises:
            CloudError: 403 BILLING_DISABLED, or what Cloud Storage answers.
        """
        if self.strictness().billing.enabled:
            return
        if match.route.method_id.startswith(_STORAGE):
            raise CloudError(
                403,
                "PERMISSION_DENIED",
                "The billing account for the owning project is disabled in state absent",
                legacy_reason="accountDisabled",
            )
        service = f"{match.service.name}.googleapis.com"
        if service in CHARGED:
            project = self.consumers.resource_project(match, inbound)
            raise billing_disabled(self.consumers.number_of_project(project), service)


def billing_disabled(number: str, service: str) -> CloudError:
    """403: seen of Vision, Firestore and Cloud Scheduler in 2026."""
    url = f"https://console.developers.google.com/billing/enable?project={number}"
    message = (
        "This API method requires billing to be enabled. Please enable billing on project"
        f" #{number} by visiting {url} then retry. If you enabled billing for this project"
        " recently, wait a few minutes for the action to propagate to our systems and retry."
    )
    details = (
        error_info(
            "BILLING_DISABLED",
            "googleapis.com",
            service=service,
            consumer=f"projects/{number}",
            containerInfo=number,
        ),
        help_link("Google developers console billing", url),
    )
    return CloudError(403, "PERMISSION_DENIED", message, details)


#: Google has no list of them (https://cloud.google.com/docs/quotas/quota-project). gcloud names a
#: quota project for secrets; Organization Policy: terraform-provider-google's documentation of
#: `user_project_override`.
_CLIENT_BASED = frozenset({"secretmanager", "orgpolicy"})


@dataclass(frozen=True, slots=True)
class QuotaProject:
    """Refuses a user's calls of client-based APIs that name no project to take quota from.

    Attributes:
        access: tells whose call it is.
        strictness: whether this is enforced.
    """

    access: Access
    strictness: Callable[[], Strictness]

    def check(self, match: Match, inbound: InboundRequest) -> None:
        """Check a call.

        Raises:
            CloudError: 403 SERVICE_DISABLED, in the words for missing quota projects.
        """
        if not self.strictness().tokens.quota_project_required:
            return
        if match.service.name not in _CLIENT_BASED or inbound.headers.get(QUOTA_PROJECT_HEADER):
            return
        authorization = inbound.headers.get("Authorization", "")
        if authorization and self.access.caller(authorization).kind is Principal.USER:
            raise quota_project_missing(f"{match.service.name}.googleapis.com")


def quota_project_missing(service: str) -> CloudError:
    """403 for a user's credential without a quota project.

    Text and details are those seen in https://github.com/pulumi/pulumi-gcp/issues/2896.
    """
    message = (
        "Your application is authenticating by using local Application Default Credentials. The"
        f" {service} API requires a quota project, which is not set by default. To learn how to set"
        " your quota project, see https://cloud.google.com/docs/authentication/adc-troubleshooting/"
        "user-creds ."
    )
    details = (
        error_info(
            "SERVICE_DISABLED",
            "googleapis.com",
            consumer=f"projects/{CLIENT_PROJECT_NUMBER}",
            service=service,
        ),
        localized_message(message),
    )
    return CloudError(403, "PERMISSION_DENIED", message, details)
