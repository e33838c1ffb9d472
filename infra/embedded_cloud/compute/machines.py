"""The life of instances: what each is at a time, which hosts they want, and when they are gone.

    PROVISIONING -> STAGING -> RUNNING -> STOPPING -> gone, or TERMINATED

An instance leaves RUNNING when it is deleted, or at the end of its run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import cast

from embedded_cloud.compute.instances import first, metadata_of, run_limit
from embedded_cloud.hosts.addresses import MACHINES, free_addresses
from embedded_cloud.hosts.guest_attributes import GuestAttributes
from embedded_cloud.hosts.spec import HostSpec
from embedded_cloud.json_types import JsonObject, child, flag, number, text, texts
from embedded_cloud.routing import Context

INSTANCES = "compute/instances"


class Status(StrEnum):
    """What an instance is; GONE is none of Google's."""

    PROVISIONING = "PROVISIONING"
    STAGING = "STAGING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    TERMINATED = "TERMINATED"
    GONE = "GONE"


@dataclass(frozen=True, slots=True)
class Machine:
    """What is kept of an instance beside the resource; times in epoch seconds.

    Attributes:
        address: its host's loopback address.
        created: when it was made.
        takes_s: how long it takes to start, and to stop.
        run_s: how long it may run; None for ever.
        deletes: whether it is deleted at the end of its run, and not only stopped.
        deleted: when it was deleted; None if it was not.
    """

    address: str
    created: float
    takes_s: float
    run_s: float | None = None
    deletes: bool = True
    deleted: float | None = None

    @property
    def started(self) -> float:
        """When it is RUNNING."""
        return self.created + self.takes_s

    @property
    def ends(self) -> float | None:
        """When its run is over; None if it is never."""
        return None if self.run_s is None else self.started + self.run_s

    def status(self, now: float) -> Status:
        """What it is at the time ``now``."""
        if self.deleted is not None and now >= self.deleted:
            return self._stopped(self.deleted, now, Status.GONE)
        if self.ends is not None and now >= self.ends:
            return self._stopped(self.ends, now, Status.GONE if self.deletes else Status.TERMINATED)
        if now >= self.started:
            return Status.RUNNING
        return Status.PROVISIONING if now < self.created + self.takes_s / 2 else Status.STAGING

    def _stopped(self, since: float, now: float, then: Status) -> Status:
        return then if now >= since + self.takes_s else Status.STOPPING


class Machines:
    """The machines of all instances, by the path of the resource."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self.guest = GuestAttributes(context.store)

    def add(self, resource: JsonObject) -> None:
        """Start the machine of a new instance, stored beside it."""
        path = text(resource, "selfLink")
        # A host that was being ended may have set some after its instance was removed.
        self.guest.clear(path)
        scheduling = child(resource, "scheduling")
        self._put(
            path,
            Machine(
                address=free_addresses(self._store, self._context.base_url(), 1)[0],
                created=self._context.clock.now(),
                takes_s=self._context.strictness().compute.operation_s,
                run_s=run_limit(resource),
                deletes=text(scheduling, "instanceTerminationAction") != "STOP",
            ),
        )
        self._store.put(INSTANCES, path, resource)
        self._context.hosts.wake()

    def get(self, path: str) -> Machine | None:
        """The machine of the instance at ``path``, or None."""
        document = self._store.get(MACHINES, path)
        return None if document is None else _read(document)

    def status(self, path: str) -> Status:
        """What the instance at ``path`` is now."""
        machine = self.get(path)
        return Status.GONE if machine is None else machine.status(self._context.clock.now())

    def delete(self, path: str) -> None:
        """Begin to delete the instance at ``path``, unless that is under way."""
        machine, now = self.get(path), self._context.clock.now()
        if machine is None or machine.deleted is not None:
            return
        ended = machine.ends is not None and now >= machine.ends
        since = machine.ends if ended and machine.deletes else now
        self._put(path, Machine(**{**asdict(machine), "deleted": since}))
        self.sync()
        self._context.hosts.wake()

    def sync(self) -> None:
        """Remove what is gone by now."""
        now = self._context.clock.now()
        for path, document in self._store.list(MACHINES):
            if _read(document).status(now) is Status.GONE:
                self._store.delete(INSTANCES, path)
                self._store.delete(MACHINES, path)
                self.guest.clear(path)
                self._context.hosts.wake()

    def desired_hosts(self) -> Iterator[HostSpec]:
        """The hosts that should be running now: one for each RUNNING instance."""
        now = self._context.clock.now()
        for path, document in self._store.list(MACHINES):
            machine, resource = _read(document), self._store.get(INSTANCES, path)
            if resource is not None and machine.status(now) is Status.RUNNING:
                yield self._spec(path, resource, machine)

    def _spec(self, path: str, resource: JsonObject, machine: Machine) -> HostSpec:
        _, project, _, zone, _, name = path.split("/")
        account = first(resource, "serviceAccounts")
        instance_id = text(resource, "id")
        return HostSpec(
            # Another instance of the same name has another disk.
            key=f"{name}.{instance_id}",
            owner=path,
            name=name,
            instance_id=instance_id,
            worker=0,
            address=machine.address,
            project=project,
            project_number=self._context.project_number(project),
            zone=zone,
            machine_type=text(resource, "machineType").rpartition("/")[2],
            service_account=text(account, "email"),
            scopes=tuple(texts(account, "scopes")),
            metadata=metadata_of(resource),
            description=text(resource, "description"),
            boot_id=str(machine.started),
            secure_boot=flag(child(resource, "shieldedInstanceConfig"), "enableSecureBoot"),
            ip=text(first(resource, "networkInterfaces"), "networkIP"),
        )

    def _put(self, path: str, machine: Machine) -> None:
        self._store.put(MACHINES, path, cast(JsonObject, asdict(machine)))


def _read(document: JsonObject) -> Machine:
    run_s, deleted = document.get("run_s"), document.get("deleted")
    return Machine(
        address=text(document, "address"),
        created=number(document, "created"),
        takes_s=number(document, "takes_s"),
        run_s=None if run_s is None else number(document, "run_s"),
        deletes=flag(document, "deletes"),
        deleted=None if deleted is None else number(document, "deleted"),
    )
