"""What `tpuflex doctor` reads of the stack's cloud; `up` asks for the decisive part of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tpuflex.doctor import account, capacity, enabled_apis, image, machine, policies
from tpuflex.doctor.account_reading import account_checks
from tpuflex.doctor.check import Check, Group, Standing, Subject
from tpuflex.doctor.encryption_key_reading import key_checks
from tpuflex.doctor.image import ImageState
from tpuflex.doctor.rights_reading import caller_checks
from tpuflex.doctor.side_by_side import Examination
from tpuflex.doctor.weights_reading import stored_weights_check
from tpuflex.errors import (
    ApiError,
    EmulatorError,
    TpuflexError,
    UnauthenticatedError,
)
from tpuflex.gcloud_commands import describe_project, show_policy
from tpuflex.google.api_states import api_states, enabled_services
from tpuflex.google.apis import apis
from tpuflex.google.credentials import FILE_VARIABLE, Kind
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.reading import RESOURCE_MANAGER, Unread, attempt
from tpuflex.google.required_apis import needed_apis
from tpuflex.google.session import authorized_session
from tpuflex.google.transport import Transport
from tpuflex.settings.image import registry_project
from tpuflex.stack.connection import google_cloud

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuflex.cli.invocation import Invocation
    from tpuflex.google.transport import Api
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

T = TypeVar("T")
#: Connect and read timeouts of a call, in seconds.
_TIMEOUT = (5.0, 10.0)


def cloud_to_examine(invocation: Invocation, stack: Stack) -> Connection | Check:
    """The cloud of ``stack``, or why it cannot be asked; an embedded cloud that is stopped stays
    so."""
    try:
        if stack.embedded:
            return invocation.connect(stack, start=False)
        return google_cloud(stack, invocation.environ, invocation.output.progress)
    except EmulatorError as error:
        hint = error.hint.replace("\n", " ")
        return Subject(Group.ACCOUNT, "cloud").skipped(f"{error.message} {hint}".strip())
    except TpuflexError as error:
        return machine.engine_check(error)


def credential_examination(cloud: Connection) -> Examination:
    """Whether the credential of ``cloud`` is good for anything: the other answers hang on that."""
    reads = _Reads(cloud)
    return Examination(Group.ACCOUNT, "credential", reads.credential)


def cloud_examinations(cloud: Connection) -> list[Examination]:
    """What to examine of ``cloud``."""
    reads = _Reads(cloud)
    return [
        Examination(Group.ACCOUNT, "project", reads.project),
        Examination(Group.ACCOUNT, "billing", reads.billing),
        Examination(Group.APIS, "APIs", reads.apis),
        Examination(Group.PERMISSIONS, "permissions", reads.permissions),
        Examination(Group.PERMISSIONS, "account", reads.account),
        Examination(Group.PERMISSIONS, "key", reads.key),
        Examination(Group.POLICIES, "policies", reads.policies),
        Examination(Group.CAPACITY, "offers", reads.offers),
        Examination(Group.CAPACITY, "quota", reads.quota),
        Examination(Group.SERVED, "image", reads.image),
        Examination(Group.SERVED, "weights", reads.weights),
    ]


def credential_check(environ: Mapping[str, str], project: str = "") -> Check:
    """Which credential ``environ`` gives, if any, after a token has been got."""
    try:
        endpoints = Endpoints.from_environ(environ)
        with authorized_session(endpoints, environ, project) as session:
            credential = session.credential()
    except TpuflexError as error:
        return account.credential_check(error, project)
    except OSError as error:  # of which those of requests are
        why = f"the token server cannot be reached ({type(error).__name__})"
        return account.CREDENTIAL.unknown(Unread(why))
    if endpoints.embedded and credential.kind is Kind.ACCESS_TOKEN:
        return account.CREDENTIAL.ok("the embedded cloud's own token")
    named = bool(environ.get(FILE_VARIABLE))
    return account.credential_check(credential, project, named=named)


def short_beside(cloud: Connection, accelerator: str, zone: str) -> str:
    """What is wrong with the quota if the slice of ``cloud``'s stack is asked for while one of
    ``accelerator`` goes on in ``zone``; empty if there is enough for both.

    Raises:
        ApiError: it cannot be read.
    """
    return _Reads(cloud).short_beside(accelerator, zone)


class _Reads:
    """Reads for one stack; each method is an examination."""

    def __init__(self, cloud: Connection) -> None:
        self._cloud = cloud
        self._settings = cloud.stack.settings
        self._project = cloud.stack.settings.project
        self._endpoints = Endpoints.from_environ(cloud.environ)

    def credential(self) -> list[Check]:
        """Which credential is used, and whether it is accepted at all."""
        found = credential_check(self._cloud.environ, self._project)
        if found.standing is not Standing.FAILED:
            try:
                self._manager.call("GET", f"/v1/projects/{self._project}")
            except UnauthenticatedError as error:
                return [account.credential_check(error, self._project)]
            except TpuflexError:
                pass  # the project's own check says so
        return [found]

    def project(self) -> list[Check]:
        """Whether the project is there."""

        def read() -> account.ProjectState:
            answer = self._manager.call("GET", f"/v1/projects/{self._project}", budget=0)
            return account.ProjectState(
                str(answer.get("projectNumber") or ""), str(answer.get("lifecycleState") or "")
            )

        look = str(describe_project(self._project))
        return [account.project_check(self._project, self._attempt(RESOURCE_MANAGER, read, look))]

    def billing(self) -> list[Check]:
        """Whether it can be charged."""
        api = self._api(self._endpoints.cloudbilling)
        found = self._attempt(
            "cloudbilling.googleapis.com", lambda: account.project_billing(api, self._project)
        )
        refused = ""
        if isinstance(found, Unread):
            refused = account.refused_unpaid(apis(self._endpoints, self._api), self._project)
        return [account.billing_check(self._project, found, refused)]

    def apis(self) -> tuple[Check, ...]:
        """Whether every API is enabled, and answers."""
        needed = needed_apis(self._settings)
        states = api_states(apis(self._endpoints, self._api), self._project, needed)
        return enabled_apis.api_checks(self._project, states, managed=self._settings.manage_apis)

    def permissions(self) -> tuple[Check, ...]:
        """What the caller may do."""
        return caller_checks(self._cloud, self._endpoints, self._api)

    def account(self) -> list[Check]:
        """Whether hosts can run as an account of the user's."""
        return account_checks(self._cloud, apis(self._endpoints, self._api))

    def key(self) -> list[Check]:
        """Whether a key of the user's can be used."""
        return key_checks(self._cloud, apis(self._endpoints, self._api))

    def policies(self) -> list[Check]:
        """Which organisation policies are in force."""
        found = {
            constraint.name: self._attempt(
                RESOURCE_MANAGER,
                partial(policies.effective_policy, self._manager, self._project, constraint.name),
                str(show_policy(constraint.name, self._project)),
            )
            for constraint in policies.ALL
            if constraint.matters(self._settings)
        }
        return list(policies.policy_checks(self._settings, found))

    def offers(self) -> tuple[Check, ...]:
        """What the zones offer."""
        wanted = self._wanted
        api = self._api(self._endpoints.tpu)
        found = {
            zone: self._attempt(
                "tpu.googleapis.com",
                partial(
                    capacity.zone_offer,
                    api,
                    wanted.project,
                    zone,
                    wanted.accelerator,
                    wanted.runtime,
                ),
            )
            for zone in wanted.zones
        }
        return capacity.offer_checks(wanted, found)

    def quota(self) -> tuple[Check, ...]:
        """What the project's quota is."""
        return capacity.quota_checks(self._wanted, self._quota())

    def short_beside(self, accelerator: str, zone: str) -> str:
        """What the quota lacks for another slice beside one that goes on."""
        row = self._settings.catalog.accelerators.get(accelerator)
        if row is None:
            return ""  # nobody can tell what it takes
        found = self._quota()
        if isinstance(found, Unread):
            raise ApiError(found.why, hint=found.remedy)
        return capacity.short_beside(self._wanted, found, row, zone)

    def _quota(self) -> capacity.TpuQuota | Unread:
        api = self._api(self._endpoints.serviceusage)
        return self._attempt(
            "serviceusage.googleapis.com", lambda: capacity.tpu_quota(api, self._project)
        )

    def image(self) -> list[Check]:
        """Whether the image is there. Of a registry that is no project's nothing is asked."""
        name = self._settings.serving.image
        project = registry_project(name)
        if project is None:
            where = name.partition("@")[0]
            if self._cloud.stack.embedded:
                return [image.IMAGE.skipped(f"{where} comes with the embedded cloud")]
            return [image.IMAGE.skipped(f"{where} is in no project's registry")]
        session = authorized_session(self._endpoints, self._cloud.environ, self._project)
        found = attempt(lambda: image.image_state(session, self._endpoints, name))
        return [image.image_check(name, found, off_in=self._registry_off(project, found))]

    def _registry_off(self, project: str, found: ImageState | Unread) -> str:
        """``project`` if its API for images has to be enabled before a repository is made."""
        if found is not ImageState.NO_REPOSITORY:
            return ""
        clients = apis(self._endpoints, self._api)
        enabled = attempt(lambda: enabled_services(clients, project))
        known_off = not isinstance(enabled, Unread) and image.SERVICE not in enabled
        return project if known_off else ""

    def weights(self) -> list[Check]:
        """Whether the weights are there."""
        return [
            stored_weights_check(self._cloud, self._manager, self._api(self._endpoints.storage))
        ]

    def _attempt(self, service: str, read: Callable[[], T], remedy: str = "") -> T | Unread:
        return attempt(read, remedy, service=service, project=self._project)

    def _api(self, base_url: str) -> Api:
        """A client that keeps nobody waiting, also for an API that was just enabled."""
        session = authorized_session(self._endpoints, self._cloud.environ, self._project)
        timing = self._cloud.timing
        return Transport(session, base_url, timing, timeout=_TIMEOUT, retries=False)

    @property
    def _manager(self) -> Api:
        return self._api(self._endpoints.resourcemanager)

    @property
    def _wanted(self) -> capacity.Wanted:
        asked = self._settings.slice
        row = self._settings.catalog.accelerators[asked.accelerator_type]
        return capacity.Wanted(
            self._project,
            row.name,
            row.generation,
            row.chips,
            asked.runtime_version or row.runtime_version or "",
            asked.zones,
            hands_over=asked.replace == "create_first",
        )
