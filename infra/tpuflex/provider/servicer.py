"""The provider's gRPC service: the engine's requests in, replies out.

What takes time to import is imported when the API is needed: before that the engine only makes
contact, and waits for each answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

import grpc
from google.protobuf.empty_pb2 import Empty

from pulumi_plugin.changes import Change, ChangeKind, Diff
from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.replies import (
    Failure,
    check_failures,
    diff_response,
    internal_error,
    reporting,
)
from pulumi_plugin.serve import Plugin
from pulumi_plugin.values import type_of
from pulumi_plugin.wire import decode
from tpuflex import __version__
from tpuflex.codes import with_code
from tpuflex.errors import TpuflexError
from tpuflex.google.timing import Timing
from tpuflex.naming import QUEUED_RESOURCE, STATE_ID
from tpuflex.provider import configuration
from tpuflex.provider.state_id import StateIds
from tpuflex.provider.waits import Waits

if TYPE_CHECKING:
    from tpuflex.provider.resources import Connect, Resources


class ResourceType(Protocol):
    """The calls about the resources of one type, each with a thread of its own.

    Raises, from all of them:
        TpuflexError: for the console.
    """

    def check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:
        """The inputs with defaults, or what is wrong with them."""

    def diff(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:
        """What changed inputs mean."""

    def create(self, request: provider_pb2.CreateRequest) -> provider_pb2.CreateResponse:
        """Make it, or in a preview tell what is known of it beforehand."""

    def read(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:
        """What became of it; an answer without an id says that it is gone."""

    def update(self, request: provider_pb2.UpdateRequest) -> provider_pb2.UpdateResponse:
        """Change it in place."""

    def delete(self, request: provider_pb2.DeleteRequest) -> Empty:
        """Delete it."""


T = TypeVar("T")


def type_in(types: Mapping[str, T], urn: str) -> T:
    """The one of ``types``, by their tokens, that ``urn`` is of."""
    token = type_of(urn)
    if token not in types:
        raise TpuflexError(
            f"the tpuflex provider has no resource type {token!r}",
            hint=f"It has {' and '.join(types)}. Is another version of tpuflex installed?",
        )
    return types[token]


Context = grpc.ServicerContext
#: Makes the component that the engine asks for; also gets the address of the engine's log.
Construct = Callable[[provider_pb2.ConstructRequest, str], provider_pb2.ConstructResponse]


def _describe(error: Exception) -> Failure:
    if isinstance(error, ImportError):
        # Of what is imported late: the process that lacks what it starts with does not start.
        error = TpuflexError(
            f"the installation of tpuflex is not whole: {error}",
            hint="Install it again; in a checkout: rm -rf .venv && make setup",
        )
    if isinstance(error, TpuflexError):
        # The text is all that the engine hands on.
        return grpc.StatusCode.UNKNOWN, with_code(str(error), error.code)
    return grpc.StatusCode.UNKNOWN, internal_error("the tpuflex provider", error)


reported = reporting(_describe)


def _schema() -> str:
    from tpuflex.provider.schema import package_schema

    return package_schema()


class Servicer(Plugin):
    """Serves the types of the package `tpuflex`. Every call has a thread of its own."""

    def __init__(
        self,
        log: EngineLog,
        connect: Connect,
        timing: Callable[[threading.Event], Timing] = Timing.real,
        components: Mapping[str, Construct] | None = None,
        *,
        drains: bool = True,
        new_host: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(__version__, _schema, log)
        self._environ = environ
        self._connect = connect
        self._components = components or {}
        self._drains, self._new_host = drains, new_host
        self._make_timing = timing
        self._lock = threading.Lock()
        self._waits = Waits()
        self._configure(configuration.Configuration())

    def _configure(self, configured: configuration.Configuration) -> None:
        with self._lock:
            self._stop = threading.Event()
            self._configuration = configured
            self._made: Resources | None = None

    @property
    def _resources(self) -> Resources:
        with self._lock:
            if self._made is None:
                from tpuflex.provider.resources import Resources

                self._made = Resources(
                    self._configuration,
                    self._connect,
                    self._make_timing(self._stop),
                    self.log,
                    self._waits,
                    drains=self._drains,
                    new_host=self._new_host,
                )
            return self._made

    def _type(self, urn: str) -> ResourceType:
        types: Mapping[str, Callable[[], ResourceType]] = {
            QUEUED_RESOURCE: lambda: self._resources.slices,
            STATE_ID: StateIds,
        }
        return type_in(types, urn)()

    def stop(self) -> None:
        """End all waits at once."""
        self._stop.set()

    @reported
    def Cancel(self, request: Empty, context: Context) -> Empty:
        self.stop()
        return Empty()

    @reported
    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: Context
    ) -> provider_pb2.ProviderHandshakeResponse:
        answer = super().Handshake(request, context)
        answer.supports_autonaming_configuration = True
        return answer

    @reported
    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: Context
    ) -> provider_pb2.GetSchemaResponse:
        return super().GetSchema(request, context)

    # -- the provider's own configuration -----------------------------------------------------

    @reported
    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: Context
    ) -> provider_pb2.CheckResponse:
        given = decode(request.news)
        refused = configuration.failures(given) + configuration.unknown_keys(request.urn, given)
        if self._environ is not None:
            # Here, before the state has it: every later command would configure a provider with it.
            refused += configuration.wrong_cloud(given, self._environ)
        answer = provider_pb2.CheckResponse(failures=check_failures(refused))
        for key in (*configuration.KEYS, "version"):
            if key in request.news.fields:
                answer.inputs.fields[key].CopyFrom(request.news.fields[key])
        return answer

    @reported
    def DiffConfig(
        self, request: provider_pb2.DiffRequest, context: Context
    ) -> provider_pb2.DiffResponse:
        # A changed provider works with what it says now; it never replaces a resource by itself,
        # because each has its own project.
        before = decode(request.old_inputs) or decode(request.olds)
        changed = configuration.changed(before, decode(request.news))
        return diff_response(
            Diff({key: Change(ChangeKind.UPDATE, replaces=False) for key in changed})
        )

    @reported
    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: Context
    ) -> provider_pb2.ConfigureResponse:
        configured = configuration.configuration(decode(request.args))
        # A process that engines attach to serves several instances of one provider: configuring
        # the second must not make the first one's run forget what it has read.
        if configured != self._configuration or self._stop.is_set():
            self._configure(configured)
        with self._lock:
            if self._made is not None:
                self._made.slices.begin()
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, supports_autonaming_configuration=True
        )

    # -- the functions ------------------------------------------------------------------------

    @reported
    def Invoke(
        self, request: provider_pb2.InvokeRequest, context: Context
    ) -> provider_pb2.InvokeResponse:
        return self._resources.invoke(request)

    # -- the components -----------------------------------------------------------------------

    @reported
    def Construct(
        self, request: provider_pb2.ConstructRequest, context: Context
    ) -> provider_pb2.ConstructResponse:
        construct = self._components.get(request.type)
        if construct is None:
            raise TpuflexError(
                f"The package tpuflex has no component {request.type}.",
                hint=f"It has {', '.join(self._components)}.",
            )
        return construct(request, self.log.address)

    # -- the resources ------------------------------------------------------------------------

    @reported
    def Check(
        self, request: provider_pb2.CheckRequest, context: Context
    ) -> provider_pb2.CheckResponse:
        return self._type(request.urn).check(request)

    @reported
    def Diff(
        self, request: provider_pb2.DiffRequest, context: Context
    ) -> provider_pb2.DiffResponse:
        return self._type(request.urn).diff(request)

    @reported
    def Create(
        self, request: provider_pb2.CreateRequest, context: Context
    ) -> provider_pb2.CreateResponse:
        return self._type(request.urn).create(request)

    @reported
    def Read(
        self, request: provider_pb2.ReadRequest, context: Context
    ) -> provider_pb2.ReadResponse:
        return self._type(request.urn).read(request)

    @reported
    def Update(
        self, request: provider_pb2.UpdateRequest, context: Context
    ) -> provider_pb2.UpdateResponse:
        return self._type(request.urn).update(request)

    @reported
    def Delete(self, request: provider_pb2.DeleteRequest, context: Context) -> Empty:
        return self._type(request.urn).delete(request)
