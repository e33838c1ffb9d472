"""Whether a project has billing.

https://cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.errors import TpuflexError
from tpuflex.gcp.api_states import ask_api
from tpuflex.gcp.required_apis import APIS, GoogleApi
from tpuflex.request.causes import unpaid

if TYPE_CHECKING:
    from tpuflex.gcp.listing import Apis
    from tpuflex.gcp.transport import Api


#: APIs that serve nobody without billing, and that every endpoint needs.
_CHARGED = ("compute", "tpu")


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


def refused_unpaid(clients: Apis, project: str) -> str:
    """An API that refuses ``project`` for want of an open billing account; empty if none does, as
    far as they answer. It tells where the Cloud Billing API is not enabled."""
    asked = [api for api in APIS if api.name in _CHARGED and api.question is not None]
    with ThreadPoolExecutor(len(asked)) as pool:
        refused = pool.map(lambda api: _unpaid(clients, project, api), asked)
        return next((api.service for api, no in zip(asked, refused, strict=True) if no), "")


def _unpaid(clients: Apis, project: str, api: GoogleApi) -> bool:
    try:
        if api.question is not None:
            ask_api(clients, project, api.question)
    except TpuflexError as error:
        return unpaid(error.message)
    return False
