"""Services that cost money refuse projects without an open billing account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.admission.consumer import Consumers
from embedded_cloud.errors import CloudError, error_info, help_link
from embedded_cloud.inbound_request import InboundRequest
from embedded_cloud.routing import Match
from embedded_cloud.serviceusage.state import CHARGED
from embedded_cloud.strictness import Strictness

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
