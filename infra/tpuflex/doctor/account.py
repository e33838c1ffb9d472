"""With which credential Google is asked, and what the project is: there, and paid for."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.doctor.check import Check, Group, Standing, Subject
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import AccessError, TpuflexError, UnauthenticatedError
from tpuflex.gcloud_commands import (
    describe_project,
    link_billing,
    set_quota_project,
    undelete_project,
)
from tpuflex.google.api_states import ask_api
from tpuflex.google.credentials import (
    FILE_VARIABLE,
    QUOTA_PROJECT_VARIABLE,
    Credential,
    Kind,
)
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.reading import RESOURCE_MANAGER, Unread
from tpuflex.google.required_apis import APIS, GoogleApi
from tpuflex.google.session import authorized_session
from tpuflex.queued_resource.causes import Cause, remedy, unpaid

if TYPE_CHECKING:
    from tpuflex.doctor.cloud import ExaminedCloud
    from tpuflex.google.apis import Apis
    from tpuflex.google.transport import Api

CREDENTIAL = Subject(Group.ACCOUNT, "credential")
PROJECT = Subject(Group.ACCOUNT, "project")
BILLING = Subject(Group.ACCOUNT, "billing")

#: APIs that serve nobody without billing, and that every endpoint needs.
_CHARGED = ("compute", "tpu")
_KINDS = {
    Kind.ACCESS_TOKEN: "an access token, which nobody renews",
    Kind.USER: "the login",
    Kind.SERVICE_ACCOUNT: "a key",
    Kind.IMPERSONATED: "impersonation",
    Kind.EXTERNAL_ACCOUNT: "a federated identity",
    Kind.METADATA: "the machine's service account",
}


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of the project, beside :func:`credential_examination`."""
    return [
        Examination(Group.ACCOUNT, "project", partial(_examine_project, cloud)),
        Examination(Group.ACCOUNT, "billing", partial(_examine_billing, cloud)),
    ]


def credential_examination(cloud: ExaminedCloud) -> Examination:
    """Whether the credential of ``cloud`` is good for anything: the other answers hang on that."""
    return Examination(Group.ACCOUNT, "credential", partial(_examine_credential, cloud))


def found_credential(environ: Mapping[str, str], project: str = "") -> Check:
    """Which credential ``environ`` gives, if any, after a token has been got."""
    try:
        endpoints = Endpoints.from_environ(environ)
        with authorized_session(endpoints, environ, project) as session:
            credential = session.credential()
    except TpuflexError as error:
        return credential_check(error, project)
    except OSError as error:  # of which those of requests are
        why = f"the token server cannot be reached ({type(error).__name__})"
        return CREDENTIAL.unknown(Unread(why))
    if endpoints.embedded and credential.kind is Kind.ACCESS_TOKEN:
        return CREDENTIAL.ok("the embedded cloud's own token")
    return credential_check(credential, project, named=bool(environ.get(FILE_VARIABLE)))


def _examine_credential(cloud: ExaminedCloud) -> list[Check]:
    """Which credential is used, and whether it is accepted at all."""
    found = found_credential(cloud.connection.environ, cloud.project)
    if found.standing is not Standing.FAILED:
        try:
            cloud.manager.call("GET", f"/v1/projects/{cloud.project}")
        except UnauthenticatedError as error:
            return [credential_check(error, cloud.project)]
        except TpuflexError:
            pass  # the project's own check says so
    return [found]


def _examine_project(cloud: ExaminedCloud) -> list[Check]:
    """Whether the project is there."""
    manager = cloud.manager

    def read() -> ProjectState:
        answer = manager.call("GET", f"/v1/projects/{cloud.project}", budget=0)
        return ProjectState(
            str(answer.get("projectNumber") or ""), str(answer.get("lifecycleState") or "")
        )

    look = str(describe_project(cloud.project))
    return [project_check(cloud.project, cloud.attempt(RESOURCE_MANAGER, read, look))]


def _examine_billing(cloud: ExaminedCloud) -> list[Check]:
    """Whether it can be charged."""
    api = cloud.api(cloud.endpoints.cloudbilling)
    found = cloud.attempt(
        "cloudbilling.googleapis.com", lambda: project_billing(api, cloud.project)
    )
    refused = refused_unpaid(cloud.apis, cloud.project) if isinstance(found, Unread) else ""
    return [billing_check(cloud.project, found, refused)]


@dataclass(frozen=True, slots=True)
class ProjectState:
    """A project as Resource Manager tells it.

    Attributes:
        number: its number.
        lifecycle: ``ACTIVE``, or another word for one that is being deleted.
    """

    number: str
    lifecycle: str


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

    https://cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo

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


def credential_check(
    credential: Credential | TpuflexError, project: str, *, named: bool = False
) -> Check:
    """With which credential Google is asked.

    Args:
        credential: the credential; or why there is none that can be used.
        project: a project to take quota from; empty if none is known.
        named: whether a variable names its file, which gcloud does not edit: it edits its own.
    """
    if isinstance(credential, TpuflexError):
        return CREDENTIAL.failed(type(credential), credential.message, credential.hint)
    account = f" of {credential.account}" if credential.account else ""
    text = f"{_KINDS[credential.kind]}{account}, from {credential.source}"
    if credential.lacks_quota_project:
        wanted = project or "PROJECT"
        return CREDENTIAL.warning(
            f"{text}; without a quota project, which some APIs demand",
            f"export {QUOTA_PROJECT_VARIABLE}={wanted}\nor add quota_project_id to the file"
            if named
            else str(set_quota_project(wanted)),
        )
    if credential.quota_project:
        return CREDENTIAL.ok(f"{text}; quota project {credential.quota_project}")
    return CREDENTIAL.ok(text)


def project_check(project: str, state: ProjectState | Unread) -> Check:
    """Whether the project can be used. Google tells who may not see it the same as if there were
    none, so that is no failure by itself."""
    if isinstance(state, Unread):
        return PROJECT.unknown(replace(state, why=f"{project}: {state.why}"))
    if state.lifecycle != "ACTIVE":
        return PROJECT.failed(
            AccessError, f"{project} is {state.lifecycle}", str(undelete_project(project))
        )
    return PROJECT.ok(f"{project}, number {state.number}")


def billing_check(project: str, billing: Billing | Unread, refused: str = "") -> Check:
    """Whether the project can be charged; nothing that costs can be made in one that cannot.

    Args:
        project: Google Cloud project id.
        billing: what the Cloud Billing API says, which no endpoint needs: mostly it is off.
        refused: an API that refuses the project for want of billing; empty if none does.
    """
    if isinstance(billing, Unread):
        if refused:
            return BILLING.failed(
                AccessError,
                f"{project} has no open billing account: {refused} refuses it",
                remedy(Cause.BILLING, project=project),
            )
        return BILLING.unknown(billing)
    if billing.enabled:
        return BILLING.ok("enabled")
    if billing.account:
        return BILLING.failed(
            AccessError,
            f"the billing account {billing.account} of {project} is closed or suspended",
            f"https://console.cloud.google.com/billing/{billing.account}",
        )
    return BILLING.failed(
        AccessError,
        f"{project} has no billing account",
        str(link_billing(project, "ACCOUNT_ID")),
    )
