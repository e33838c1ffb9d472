"""The cloud that a stack runs on: its environment, and clients for it.

For a stack on the embedded cloud, the emulator is started if it is not running.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_buckets
from tpuflex.engine.environment import plugins_own, with_own_provider, with_quota_project
from tpuflex.engine.gcp_plugin import (
    callers_stand_in,
    find_gcp_plugin,
    with_gcp_plugin,
)
from tpuflex.engine.state import Stored, known_ids
from tpuflex.engine.state_files import file_backend, state_in_file
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.google.apis import Apis, apis
from tpuflex.google.credentials import describe
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.project import project_number
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.secrets import SecretClient
from tpuflex.google.session import authorized_session, require_credentials
from tpuflex.google.timing import Settling, Timing
from tpuflex.google.transport import Transport
from tpuflex.inventory.inventory import Inventory, Scope, take_inventory
from tpuflex.inventory.resource_ids import zones_in
from tpuflex.stack.emulator import Daemon
from tpuflex.stack.environment import (
    HUB_TOKEN_VARIABLE,
    credentials_asked,
    embedded_environment,
    google_environment,
)
from tpuflex.stack.known_state_ids import KnownStateIds
from tpuflex.stack.rehearsal import NO_BACKEND, Rehearsal
from tpuflex.stack.stack import Stack

if TYPE_CHECKING:
    from tpuflex.naming import SecretRole

_REQUEST = re.compile(r"/locations/([^/]+)/queuedResources/([^/]+)$")
#: Takes a line of progress.


def _silent(_line: str) -> None:
    """For those who want no lines of progress."""


@dataclass(frozen=True)
class Connection:
    """How the cloud of one stack is reached.

    Attributes:
        stack: the stack.
        environ: the whole environment for the engine and for every client.
        hub_token: the token for the Hub that the caller's shell has; empty for none. Only the
            client of the Hub gets it.
        now: the time by the cloud's clock, in UTC: the embedded cloud's can be moved and sped up.
    """

    stack: Stack
    environ: Mapping[str, str] = field(repr=False)
    hub_token: str = field(default="", repr=False)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @cached_property
    def tpu(self) -> TpuClient:
        """Client of the Cloud TPU API."""
        return TpuClient(self.transport(Endpoints.from_environ(self.environ).tpu))

    @cached_property
    def secrets(self) -> SecretClient:
        """Client of Secret Manager."""
        return SecretClient(self.transport(Endpoints.from_environ(self.environ).secretmanager))

    @cached_property
    def logging(self) -> Transport:
        """Client of Cloud Logging."""
        return self.transport(Endpoints.from_environ(self.environ).logging)

    @property
    def bucket(self) -> str:
        """Name of the bucket that holds the stack's weights; of several, that in its home."""
        return self.buckets[self.stack.settings.region]

    @property
    def buckets(self) -> dict[str, str]:
        """Names of the buckets that hosts of the stack read weights from, by region."""
        return weights_buckets(self.stack.settings, self.stack.names)

    @property
    def made_bucket(self) -> str:
        """Name of the bucket that the stack itself makes: of its weights, unless they are
        elsewhere, and of compiled programs."""
        settings = self.stack.settings
        return self.stack.names.bucket(settings.project, settings.region)

    def is_there(self, bucket: str) -> bool:
        """Whether ``bucket`` exists in the stack's Google Cloud project.

        Raises:
            AlreadyExistsError: it exists in another project.
            AccessError, ApiError: its owner cannot be determined.
        """
        from tpuflex.google.bucket_owner import may_read_buckets, require_own_bucket

        project, apis = self.stack.settings.project, self.apis()
        return require_own_bucket(
            apis.storage,
            bucket,
            project,
            lambda: self.project_number,
            lambda: may_read_buckets(apis.resourcemanager, project),
            shared=bucket != self.made_bucket,
        )

    @cached_property
    def project_number(self) -> str:
        """Number of the stack's Google Cloud project; it tells whose a bucket is."""
        return project_number(self.apis().resourcemanager, self.stack.settings.project)

    def without_drain(self) -> Connection:
        """The same cloud, where a deletion does not wait for what servers have begun to answer."""
        from tpuflex.provider.configuration import DRAIN_VARIABLE

        return replace(self, environ={**self.environ, DRAIN_VARIABLE: "0"})

    def with_new_host(self) -> Connection:
        """The same cloud, where an `up` replaces a slice that has not changed."""
        from tpuflex.provider.configuration import NEW_HOST_VARIABLE

        return replace(self, environ={**self.environ, NEW_HOST_VARIABLE: "1"})

    def secret(self, role: str) -> str:
        """Resource name of the stack's own secret for ``role``."""
        return f"projects/{self.stack.settings.project}/secrets/{self.stack.names.secret(role)}"

    def missing_secret(self) -> str:
        """Name of a secret that the stack should have made, and that is not there; or empty.

        Raises:
            AccessError, ApiError: Secret Manager refused.
        """
        for role in self.stack.settings.secrets.versions:
            try:
                self.secrets.list_versions(self.secret(role))
            except NotFoundError:
                return self.stack.names.secret(role)
        return ""

    def secret_version(self, role: SecretRole) -> str:
        """Resource name of the version that the stack has for ``role``."""
        return self.stack.settings.secret_version(self.stack.names, role)

    def transport(self, base_url: str) -> Transport:
        """A client of the API at ``base_url``."""
        endpoints = Endpoints.from_environ(self.environ)
        session = authorized_session(endpoints, self.environ, self.stack.settings.project)
        return Transport(session, base_url, self.timing, self.settling)

    @cached_property
    def settling(self) -> Settling:
        """Until when APIs that this command has enabled may go on refusing."""
        return Settling()

    @cached_property
    def timing(self) -> Timing:
        """Clock and sleep for waits on this cloud."""
        return Timing.of_environment(self.environ, threading.Event())

    def sleep(self, seconds: float) -> None:
        """Wait ``seconds``, on the cloud's clock."""
        self.timing.pause(seconds)

    def inventory(
        self,
        states: Collection[str] = (),
        known: Collection[str] = (),
        kept: tuple[str, ...] | None = None,
    ) -> Inventory:
        """Everything in the cloud that belongs to the stack, or has its names.

        Args:
            states: ids of the states that are ours.
            known: ids of what the state knows, which is ours.
            kept: paths of what the stack only uses, as its state has them; as its file has them if
                there is no state.
        """
        settings = self.stack.settings
        if kept is None:
            kept = settings.existing_paths
        scope = Scope(
            settings.project,
            settings.slice.zones,
            self.stack.names,
            frozenset(states),
            frozenset(known),
            kept,
        )
        return take_inventory(scope, self.apis())

    @cached_property
    def known_state_ids(self) -> KnownStateIds:
        """The ids of the states that this home has seen."""
        return KnownStateIds(self.stack.own_files, self.stack.project.name)

    def recorded_zones(self) -> tuple[str, ...]:
        """The zones where the state of the stack has its slice, or has begun to ask for it: its
        stack file may have been changed since."""
        return zones_in(_recorded_ids(self))

    def recorded_requests(self) -> tuple[str, ...]:
        """Each request for a slice that the state has, or has begun, as ``ID in ZONE``."""
        found = (match for id_ in _recorded_ids(self) if (match := _REQUEST.search(id_)))
        return tuple(sorted({f"{match[2]} in {match[1]}" for match in found}))

    def apis(self) -> Apis:
        """A client of each service that a stack uses."""
        return apis(Endpoints.from_environ(self.environ), self.transport)


def _recorded_ids(cloud: Connection) -> frozenset[str]:
    """The ids in the state; none where there is no state, or none that can be read now."""
    try:
        return known_ids(_state(cloud))
    except TpuflexError:
        return frozenset()


def _state(cloud: Connection) -> Stored:
    """The state, read from its file without the engine where it is in one.

    Raises:
        TpuflexError: there is none, or it cannot be read.
    """
    project, stack = cloud.stack.project, cloud.stack.name
    backend = file_backend(cloud.environ.get("PULUMI_BACKEND_URL", ""))
    if backend is not None:
        return state_in_file(backend, project.name, stack)
    from tpuflex.engine.backend import stored_state
    from tpuflex.engine.commands import Target
    from tpuflex.engine.find import search

    engine = search(project.home, cloud.environ).engine
    if engine is None:
        return {}  # to build one would take minutes
    return stored_state(Target(cloud.stack.engine_project, stack, engine, cloud.environ), stack)


def connect(
    stack: Stack,
    environ: Mapping[str, str],
    say: Callable[[str], None] = _silent,
    *,
    start: bool = True,
) -> Connection:
    """Connect to the cloud of ``stack``.

    Args:
        stack: the stack.
        environ: the caller's environment.
        say: takes a line on what is used in place of the default.
        start: whether the embedded cloud is started if the stack runs there and it does not run.

    Raises:
        EmulatorError: the embedded cloud cannot start; or does not run, and is not to be started.
        AccessError: the stack is on Google, and there are no credentials.
    """
    if stack.embedded:
        return _embedded_cloud(stack, environ, say, start=start)
    cloud = google_cloud(stack, environ, say)
    # Checked here, before the engine fetches plugins and fails with a message of its own.
    require_credentials(Endpoints.from_environ(cloud.environ), cloud.environ)
    for variable in plugins_own(cloud.environ):
        source = describe(cloud.environ).source
        say(f"{variable} is read by Pulumi's gcp plugin only; tpuflex acts by {source}.")
    return replace(cloud, environ=with_quota_project(cloud.environ, stack.settings.project))


def google_cloud(
    stack: Stack, environ: Mapping[str, str], say: Callable[[str], None] = _silent
) -> Connection:
    """The cloud of ``stack``, which is on Google; whether there are credentials is not looked at.

    Raises:
        SettingsError: what should be the gcp plugin is none.
    """
    own = google_environment(environ, stack.project.home, backend=stack.project.backend)
    own = with_own_provider(own)
    if (plugin := find_gcp_plugin(own)) is not None:
        own = with_gcp_plugin(own, plugin, stack.project.home)
        say(f"gcp plugin: {plugin}.")
    return Connection(stack, own, environ.get(HUB_TOKEN_VARIABLE, ""))


def _embedded_cloud(
    stack: Stack, environ: Mapping[str, str], say: Callable[[str], None], *, start: bool
) -> Connection:
    daemon = Daemon(stack.project.home)
    if start:
        daemon.start()
    daemon.require_current()
    plugin = find_gcp_plugin(environ)
    kind = daemon.credentials_kind(credentials_asked(environ))
    stand_in = plugin is None
    if stand_in and daemon.acts_as_caller(kind):
        plugin = callers_stand_in(stack.project.home)
    own = embedded_environment(stack, environ, daemon, stand_in=plugin is None, kind=kind)
    if stack.rehearsed:
        rehearsal = Rehearsal.below(stack.project.home)
        if stack.recorded is None:
            rehearsal.write_project(stack.project.name, stack.file)
        own |= rehearsal.variables()
    asked, used = environ.get("PULUMI_BACKEND_URL"), own["PULUMI_BACKEND_URL"]
    if asked not in (None, used, NO_BACKEND):
        say(
            "PULUMI_BACKEND_URL is not used: the state of a stack on the embedded cloud is kept"
            f" with that cloud, in {used}."
        )
    own = with_own_provider(own)
    if plugin is not None:
        own = with_gcp_plugin(own, plugin, stack.project.home)
        own = with_quota_project(own, stack.settings.project)
        if start and not stand_in:
            say(f"gcp plugin: {plugin}, in place of the stand-in.")
    return Connection(stack, own, environ.get(HUB_TOKEN_VARIABLE, ""), now=daemon.now)
