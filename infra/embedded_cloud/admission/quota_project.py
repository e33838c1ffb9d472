"""Client-based APIs charge the project of the credential; a user's credential has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.access import Access, Principal
from embedded_cloud.admission.consumer import QUOTA_PROJECT_HEADER
from embedded_cloud.errors import CloudError, error_info, localized_message
from embedded_cloud.inbound_request import InboundRequest
from embedded_cloud.routing import Match
from embedded_cloud.strictness import Strictness
from embedded_cloud.tokens.identities import CLIENT_PROJECT_NUMBER

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
