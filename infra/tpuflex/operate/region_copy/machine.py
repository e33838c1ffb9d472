"""The machine and all that is made with it: found, made if it is not there, and removed.

All of it has names that follow from the stack and carries the stack's marks, so that a command that
was killed at any point is continued by the same command, and `down` and `sweep` find the rest.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.copier.__main__ import JOB_KEY
from tpuflex.copier.job import Job
from tpuflex.copier.report import KEY, NAMESPACE, Report, read_report
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    CapacityError,
    ConflictError,
    NotFoundError,
)
from tpuflex.gcp.aggregated import listed_everywhere
from tpuflex.gcp.cloud_resource import CloudResource, account_resource, described, short_name
from tpuflex.gcp.compute_operations import finish
from tpuflex.gcp.kinds import ACCOUNT, INSTANCE, NETWORK, SUBNETWORK, Kind
from tpuflex.gcp.ownership import Maker, differences, reason
from tpuflex.gcp.paging import objects
from tpuflex.operate.region_copy import bodies

if TYPE_CHECKING:
    from tpuflex.gcp.listing import Apis
    from tpuflex.gcp.timing import Timing
    from tpuflex.gcp.transport import JsonObject
    from tpuflex.operate.region_copy.bodies import Place

#: Attempts while a service account that was just made is not known everywhere yet, which takes up
#: to a minute (https://cloud.google.com/iam/docs/service-accounts-create).
_SETTLING_ATTEMPTS, _SETTLING_PAUSE = 12, 5.0


@dataclass(frozen=True, slots=True)
class Running:
    """The machine as it is.

    Attributes:
        resource: the machine.
        zone: where it is.
        status: Compute Engine's word for its state.
        job: text of its job.
    """

    resource: CloudResource
    zone: str
    status: str
    job: str

    @property
    def over(self) -> bool:
        """Whether it does not work any more, and will not again."""
        return self.status in ("STOPPING", "STOPPED", "TERMINATED", "SUSPENDED", "SUSPENDING")


class CopyMachine:
    """The machine of one stack.

    Args:
        place: whose it is, and where.
        maker: by which marks it is ours.
        apis: clients.
        timing: clock and pauses.
    """

    def __init__(self, place: Place, maker: Maker, apis: Apis, timing: Timing) -> None:
        self._place = place
        self._maker = maker
        self._apis = apis
        self._timing = timing

    def find(self) -> Running | None:
        """The machine, wherever it is; None if there is none.

        Raises:
            AlreadyExistsError: one has its name that is not ours.
            AccessError, ApiError: it cannot be told.
        """
        named, unseen = self._named()
        for found in named:
            self._require_ours(found)
            running = self.look(found)
            if running is not None:
                return running
        if unseen:
            raise ApiError(f"{'; '.join(unseen)}: a machine may be there already")
        return None

    def look(self, resource: CloudResource) -> Running | None:
        """``resource`` as it is now; None if it is gone."""
        try:
            answer = self._apis.compute.call("GET", resource.path)
        except NotFoundError:
            return None
        now = described(
            INSTANCE, answer, name=resource.name, place=resource.location, id_=resource.id
        )
        if resource.made_anew(now):
            return None
        status = str(answer.get("status") or "")
        return Running(now, resource.location, status, _metadata(answer, JOB_KEY))

    def report(self, running: Running, job: Job) -> Report | None:
        """What it last said of ``job``; None if it has said nothing yet."""
        path = f"{running.resource.path}/getGuestAttributes"
        try:
            answer = self._apis.compute.call("GET", path, query={"queryPath": f"{NAMESPACE}/"})
        except (NotFoundError, ConflictError):
            return None
        value = answer.get("queryValue")
        for item in objects(value if isinstance(value, dict) else {}, "items"):
            if item.get("key") == KEY:
                text = str(item.get("value") or "")
                return read_report(text, job=job.id, files=len(job.files), total=job.total_bytes)
        return None

    def make_account(self) -> None:
        """Make the service account, unless it is there.

        Raises:
            AlreadyExistsError: it is not ours.
            AccessError, ApiError: it cannot be made.
        """
        there = account_resource(self._place.account, self._place.project)
        self._make(there, f"/v1/projects/{self._place.project}/serviceAccounts", bodies.account)

    def make_network(self) -> None:
        """Make the network and its subnetwork, unless they are there; raises as
        :meth:`make_account`."""
        for kind, body in ((NETWORK, bodies.network), (SUBNETWORK, bodies.subnetwork)):
            there = self._resource(kind)
            self._make(there, there.path.rpartition("/")[0], body)

    def make(self, zones: tuple[str, ...], job: Job, limit_seconds: int) -> Running:
        """Make the machine, in the first of ``zones`` that has one to give.

        Raises:
            AlreadyExistsError: one has its name that is not ours.
            CapacityError: no zone has one to give.
            AccessError, ApiError: it cannot be made.
        """
        full: list[str] = []
        for zone in zones:
            try:
                self._insert(zone, job, limit_seconds)
            except CapacityError:
                full.append(zone)
                continue
            found = self.look(self._resource(INSTANCE, zone))
            if found is None:
                raise ApiError(f"the machine in {zone} was deleted as soon as it was made")
            self._require_ours(found.resource)
            return found
        raise CapacityError(
            f"No zone has a machine to give: {', '.join(full)}.",
            hint="Run it again later, or push from here: tpuflex weights push",
        )

    def resources(self) -> tuple[tuple[CloudResource, ...], tuple[str, ...]]:
        """Everything of ours that is there, in the order of deletion; and a line for each thing
        that cannot be looked at, and for a machine that has our name and is not ours.

        Raises:
            AccessError, ApiError: it cannot be told whether there is a machine.
        """
        machines, problems = self._named()
        problems += [self._not_ours(each) for each in machines if not self._ours(each)]
        found = machines

        def look(kind: Kind, read: Callable[[], Iterable[CloudResource]]) -> None:
            # A machine is deleted also where what was made with it may not be looked at.
            try:
                found.extend(read())
            except NotFoundError:
                pass
            except (AccessError, ApiError) as error:
                problems.append(f"{kind.plural}: {error.message}")

        account = account_resource(self._place.account, self._place.project)
        look(SUBNETWORK, lambda: self._named(SUBNETWORK)[0])
        look(NETWORK, lambda: (self._read(self._resource(NETWORK)),))
        look(ACCOUNT, lambda: (self._read(account),))
        return tuple(filter(self._ours, found)), tuple(problems)

    def is_foreign(self) -> bool:
        """Whether the machine, or the account, that has our name is somebody else's: what it was
        granted is theirs, too.

        Raises:
            AccessError, ApiError: it cannot be told.
        """
        found, _ = self._named()
        with suppress(NotFoundError):
            found.append(self._read(account_resource(self._place.account, self._place.project)))
        return not all(map(self._ours, found))

    def _named(self, kind: Kind = INSTANCE) -> tuple[list[CloudResource], list[str]]:
        """What has our name, and a line for each zone of the region that could not be looked
        into."""
        pages = [*listed_everywhere(self._apis.compute, kind, self._place.project)]
        found = [each for page, _ in pages for each in page if each.name == self._place.name]
        unseen = [place for _, places in pages for place in places]
        ours = filter(lambda place: place.startswith(f"{self._place.region}-"), unseen)
        return found, [f"{place} could not be looked into" for place in ours]

    def _insert(self, zone: str, job: Job, limit_seconds: int) -> None:
        resource = self._resource(INSTANCE, zone)
        body = bodies.machine(self._place, zone, job, limit_seconds)
        path = resource.path.rpartition("/")[0]

        def insert() -> None:
            # A new id each time: the same one would be answered with the operation that failed.
            query = {"requestId": str(uuid.uuid4())}
            self._finish(self._apis.compute.call("POST", path, query=query, body=body))

        try:
            self._settled(insert)
        except AlreadyExistsError:
            return  # ours, if an earlier answer was lost: it is read next
        except (AccessError, ApiError) as error:
            if "constraints/compute." not in error.message:
                raise
            raise AccessError(
                f"A policy of the organisation forbids the machine: {error.message}",
                hint="It needs an external address, to reach what it copies. Push from here"
                " instead: tpuflex weights push",
            ) from error

    def _make(
        self, resource: CloudResource, path: str, body: Callable[[Place], JsonObject]
    ) -> None:
        """Make ``resource`` by a POST to ``path``, unless it is there and ours."""
        api = self._apis.of(resource.kind)
        try:
            self._require_ours(self._read(resource))
        except NotFoundError:
            with suppress(AlreadyExistsError):
                answer = api.call("POST", path, body=body(self._place))
                if resource.kind != ACCOUNT:
                    self._finish(answer)
            self._settled(lambda: self._require_ours(self._read(resource)))

    def _settled(self, call: Callable[[], None]) -> None:
        """``call``, again while something that was just made is not known yet."""
        for _ in range(_SETTLING_ATTEMPTS - 1):
            try:
                return call()
            except NotFoundError:
                pass
            except ApiError as error:
                if error.status != 404:
                    raise
            self._timing.pause(_SETTLING_PAUSE)
        return call()

    def _finish(self, operation: JsonObject) -> None:
        finish(
            operation,
            self._apis.compute,
            now=self._timing.monotonic,
            sleep=self._timing.pause,
        )

    def _read(self, resource: CloudResource) -> CloudResource:
        answer = self._apis.of(resource.kind).call("GET", resource.path)
        return described(
            resource.kind,
            answer,
            name=short_name(answer),
            place=resource.location,
            id_=resource.id,
        )

    def _resource(self, kind: Kind, zone: str = "") -> CloudResource:
        place = self._place
        values = {"project": place.project, "region": place.region, "zone": zone}
        id_ = kind.id.format(name=place.name, **values)
        where = "global" if kind.location == "project" else values[kind.location]
        return CloudResource(kind, place.name, where, id_, kind.root + id_)

    def _ours(self, resource: CloudResource) -> bool:
        return not differences(resource, self._maker)

    def _not_ours(self, resource: CloudResource) -> str:
        why = reason(differences(resource, self._maker))
        return f"{resource.title} is there, and not this stack's: {why}"

    def _require_ours(self, resource: CloudResource) -> None:
        if differences(resource, self._maker):
            raise AlreadyExistsError(
                self._not_ours(resource),
                status=409,
                hint="Whose it is: tpuflex sweep",
            )


def _metadata(answer: JsonObject, key: str) -> str:
    metadata = answer.get("metadata")
    items = objects(metadata if isinstance(metadata, dict) else {}, "items")
    return next((str(item.get("value") or "") for item in items if item.get("key") == key), "")
