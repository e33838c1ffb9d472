"""One embedded cloud: its state, its clock, its services and its hosts."""

from __future__ import annotations

import importlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from embedded_cloud.core.access import Access, issue_token
from embedded_cloud.core.clock import MovableClock, OffsetClock, SystemClock
from embedded_cloud.core.history import History
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    child,
    children,
    number,
    string_map,
)
from embedded_cloud.core.pipeline import Admission, Pipeline
from embedded_cloud.core.routing import Context, Service
from embedded_cloud.core.store import Store
from embedded_cloud.machines.hosts.spec import HostSpec
from embedded_cloud.machines.hosts.supervisor import HostSupervisor
from embedded_cloud.services.compute.routes import service as compute_service
from embedded_cloud.services.iam.policies import Policies
from embedded_cloud.services.iamcredentials import service as iamcredentials
from embedded_cloud.services.logging import Entries
from embedded_cloud.services.oslogin import services as oslogin_services
from embedded_cloud.services.serviceusage.state import ProjectServices
from embedded_cloud.services.tokens.credentials import Credentials
from embedded_cloud.services.tokens.identities import Identities
from embedded_cloud.services.tpu.capacity import CapacityBook
from embedded_cloud.services.tpu.routes import services as tpu_services
from embedded_cloud.services.tpu.state import TpuState
from embedded_cloud.strict.admin_activity import AdminActivity
from embedded_cloud.strict.book import StrictnessBook
from embedded_cloud.strict.consumer import Consumers, EnabledApis, OpenBilling, QuotaProject
from embedded_cloud.strict.permissions import Permissions
from embedded_cloud.strict.required_permissions import RequiredPermissions
from embedded_cloud.strict.rights import Hierarchy, Rights
from tpuflex.files.trusted import own_directory

if TYPE_CHECKING:
    from embedded_cloud.faults.injector import FaultInjector
    from embedded_cloud.services.iap.iap import Iap

#: Modules that have a ``service(context)``.
SERVICE_MODULES = (
    "storage.routes",
    "secretmanager.routes",
    "iam.routes",
    "cloudkms",
    "resourcemanager",
    "serviceusage.routes",
    "serviceusage.quotas",
    "cloudbilling",
    "orgpolicy",
    "dns.routes",
    "logging",
    "monitoring.routes",
    "monitoring.dashboards",
    "artifactregistry.routes",
)

_SETTINGS = "_emulator"


class Cloud:
    """One embedded cloud: its state directory, its clock and its services.

    Args:
        state_dir: where its state is kept.
        clock: its time; by default the system's time plus the offset that was reached
            through the control API in this state directory.
        launch_hosts: whether nodes that are READY get an emulated host.
        stub_hosts: whether hosts of TPU nodes run nothing and are READY at once (for tests).
        store: its memory; by default a file in ``state_dir``.
        token: its access token; by default a new one; kept in ``state_dir``.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        clock: MovableClock | None = None,
        launch_hosts: bool = True,
        stub_hosts: bool = False,
        store: Store | None = None,
        token: str = "",
    ) -> None:
        own_directory(state_dir)
        state_dir.chmod(0o700)  # also one that was there: payloads of secrets are in it
        self.state_dir = state_dir
        self.base_url = ""
        self.store = store or Store(state_dir / "store.sqlite")
        self.clock: MovableClock = clock or self._stored_clock()
        self.access = Access(issue_token(state_dir, token), self.clock.now)
        self.identities = Identities(self.access)
        self.credentials = Credentials(
            state_dir / "credentials",
            self.identities,
            self.store,
            lambda: self.base_url,
        )
        self.history = History(state_dir / "history.jsonl", self.clock)
        self.capacity = CapacityBook(self.store, self.clock)
        self.strictness = StrictnessBook(self.store)
        self.hosts = HostSupervisor(
            state_dir,
            self.store,
            base_url=lambda: self.base_url,
            issue=self.access.host_token,
            clock=self.clock,
            strictness=self.strictness.current,
            enabled=launch_hosts,
            stubs=stub_hosts,
        )
        policies = Policies(self.store, self.clock, self.strictness.current)
        self.rights = Rights(
            self.store,
            policies,
            Hierarchy(self.store),
            self.access,
            self.strictness.current,
            lambda key: self.host_account(key),
        )
        self.context = context = Context(
            store=self.store,
            clock=self.clock,
            objects_dir=state_dir / "objects",
            base_url=lambda: self.base_url,
            hosts=self.hosts,
            rights=self.rights,
            strictness=self.strictness.current,
            change_strictness=self.strictness.change,
        )
        self.tpu = TpuState(context, self.capacity)
        self.services: tuple[Service, ...] = (
            *tpu_services(context, self.tpu),
            iamcredentials(context, self.access),
            *_other_services(context),
            *oslogin_services(context),
            # The last to be asked for a path: reading its discovery document takes longer than all
            # others together.
            compute_service(context),
        )
        self.pipeline = Pipeline(
            self.services,
            self.history,
            self.access,
            admission=self._admission(policies),
            audit=AdminActivity(
                Entries(self.store, self.clock), self.rights, Consumers(self.store)
            ),
        )

    def _admission(self, policies: Policies) -> tuple[Admission, ...]:
        """What is checked of a call before its service sees it, in Google's order."""
        strictness = self.strictness.current
        consumers = Consumers(self.store)
        enabled = ProjectServices(self.store, self.clock, strictness)
        required = RequiredPermissions(self.store, consumers)
        return (
            QuotaProject(self.access, strictness),
            EnabledApis(enabled, consumers, strictness),
            OpenBilling(consumers, strictness),
            Permissions(self.rights, required, policies, strictness),
        )

    @cached_property
    def iap(self) -> Iap:
        """The way in to hosts with private addresses, made when it is first used."""
        from embedded_cloud.services.compute.state import Resources
        from embedded_cloud.services.iap.iap import Iap

        resources = Resources(self.store, self.strictness.current)
        return Iap(self.state_dir, self.access, self.tpu, resources)

    @cached_property
    def faults(self) -> FaultInjector:
        """Fault injection, added to the pipeline when it is first used."""
        from embedded_cloud.faults.injector import FaultInjector

        injector = FaultInjector(self.clock, self.history)
        self.pipeline.inject(injector)
        return injector

    def serve_at(self, base_url: str) -> None:
        """Clients find this cloud at ``base_url`` from now on, without trailing slash."""
        self.base_url = base_url
        self.credentials.renew()

    def desired_hosts(self) -> list[HostSpec]:
        """The hosts that should be running now."""
        return [*self.tpu.desired_hosts()]

    def host_account(self, key: str) -> str:
        """The service account of the host with ``key``; empty if there is none."""
        specs = self.desired_hosts()
        return next((spec.service_account for spec in specs if spec.key == key), "")

    def tick(self) -> None:
        """Bring every service up to the present time."""
        for service in self.services:
            if service.tick is not None:
                service.tick()

    async def settle(self) -> None:
        """Tick, and bring the hosts in line with the nodes."""
        self.tick()
        await self.hosts.reconcile(self.desired_hosts)
        if self.strictness.current().network.private_addresses:
            self.iap.publish(self.tpu.desired_hosts())

    async def close_ways_in(self) -> None:
        """End what goes through the tunnel."""
        if "iap" in self.__dict__:
            await self.iap.close()

    def advance(self, seconds: float) -> None:
        """Move the clock forward; the offset survives a restart."""
        self.clock.advance(seconds)
        self._store_clock()

    def run_at(self, speed: float) -> None:
        """Run the clock at ``speed`` times real time; survives a restart.

        Raises:
            TypeError: this clock only moves by :meth:`advance`.
            ValueError: below 1.
        """
        if not isinstance(self.clock, OffsetClock):
            raise TypeError("this embedded cloud's clock stands still until it is advanced")
        self.tick()
        self.clock.run_at(speed)
        self._store_clock()

    async def reset(self) -> None:
        """Forget everything but the clock and whether the cloud is strict."""
        preset = self.strictness.preset
        # The nodes first, so that no host is launched while the hosts are being ended.
        self.store.clear()
        self.history.clear()
        if "faults" in self.__dict__:
            self.faults.forget()
        self._store_clock()
        self.strictness.use(preset)
        await self.hosts.forget()

    def inventory(self) -> dict[str, dict[str, list[JsonObject]]]:
        """Everything that exists now: service -> kind -> resources."""
        self.tick()
        return _inventory(self.store)

    def close(self) -> None:
        """Release the files."""
        self.history.close()
        self.store.close()

    def _stored_clock(self) -> OffsetClock:
        settings = self.store.get(_SETTINGS, "clock") or {}
        base = SystemClock()
        return OffsetClock(
            base,
            number(settings, "offset"),
            since=number(settings, "since", base.now()),
            speed=number(settings, "speed", 1.0),
        )

    def _store_clock(self) -> None:
        if isinstance(self.clock, OffsetClock):
            self.store.put(_SETTINGS, "clock", dict[str, JsonValue](self.clock.settings()))


def _other_services(context: Context) -> list[Service]:
    services = []
    for name in SERVICE_MODULES:
        module = importlib.import_module(f"embedded_cloud.services.{name}")
        services.append(module.service(context))
    return services


def _inventory(store: Store) -> dict[str, dict[str, list[JsonObject]]]:
    """Service -> kind -> resources by name, each with its labels if it has any."""
    resources: dict[str, dict[str, list[JsonObject]]] = {}
    for collection in store.collections():
        if collection.startswith("_"):
            continue
        service, _, kind = collection.partition("/")
        resources.setdefault(service, {})[kind] = [
            {"name": key, **_labels(value), **_state(value)}
            for key, value in store.list(collection)
        ]
    return resources


def _labels(resource: JsonObject) -> JsonObject:
    """``{"labels": ...}``; those of a queued resource are its nodes' labels."""
    spec = child(resource, "spec")
    labels = string_map(resource, "labels") or string_map(resource, "userLabels")
    labels = labels or string_map(spec, "labels")
    for node_spec in children(child(spec, "tpu"), "nodeSpec"):
        labels |= string_map(child(node_spec, "node"), "labels")
    return {"labels": dict[str, JsonValue](labels)} if labels else {}


def _state(resource: JsonObject) -> JsonObject:
    """State and description, of resources that have them."""
    shown: JsonObject = {}
    for key in ("state", "description"):
        value = resource.get(key) or child(resource, "spec").get(key)
        if isinstance(value, str):
            shown[key] = value
    return shown
