"""An API answers only where it is enabled, and only some time after that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.admission.consumer import Consumers
from embedded_cloud.errors import CloudError, error_info, help_link, localized_message
from embedded_cloud.inbound_request import InboundRequest
from embedded_cloud.json_types import JsonObject
from embedded_cloud.routing import Match
from embedded_cloud.serviceusage.state import KNOWN, ProjectServices
from embedded_cloud.strictness import Strictness


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
