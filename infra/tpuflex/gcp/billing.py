"""Whether a project has billing.

https://cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuflex.gcp.transport import Api


@dataclass(frozen=True, slots=True)
class Billing:
    """The billing of a project.

    Attributes:
        enabled: whether it can be charged.
        account: name of its billing account, which may be closed; empty if it has none.
    """

    enabled: bool
    account: str


def project_billing(cloudbilling: Api, project: str) -> Billing:
    """The billing of ``project``.

    Raises:
        AccessError: the caller may not see it, or the Cloud Billing API is not enabled in the
            project that the call counts for.
        ApiError: the API does not answer.
    """
    answer = cloudbilling.call("GET", f"/v1/projects/{project}/billingInfo", budget=0)
    return Billing(
        answer.get("billingEnabled") is True,
        str(answer.get("billingAccountName") or "").removeprefix("billingAccounts/"),
    )
