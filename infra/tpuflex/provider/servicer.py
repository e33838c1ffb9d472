"""The provider's gRPC service: the engine's requests in, replies out."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import grpc
from google.protobuf.empty_pb2 import Empty

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
from pulumi_plugin.wire import decode, encode, secret_keys
from tpuflex import __version__
from tpuflex.codes import with_code
from tpuflex.errors import TpuflexError
from tpuflex.gcp.queued_resources import TpuClient
from tpuflex.gcp.timing import Timing
from tpuflex.provider import configuration
from tpuflex.provider.call import Call, Waits
from tpuflex.provider.generations import Generations
from tpuflex.provider.marshalling import (
    failure_text,
    inputs_of,
    kept,
    previewed_creation,
    previewed_update,
    properties,
    require_known_type,
)
from tpuflex.provider.operations import create, delete_resource, read, update
from tpuflex.provider.planning import plan
from tpuflex.provider.schema import package_schema
from tpuflex.request.check import failures, with_defaults

Context = grpc.ServicerContext
Connect = Callable[[configuration.Configuration, Timing], TpuClient]


def _describe(error: Exception) -> Failure:
    if isinstance(error, TpuflexError):
        return grpc.StatusCode.UNKNOWN, failure_text(error)
    return grpc.StatusCode.UNKNOWN, internal_error("the tpuflex provider", error)


reported = reporting(_describe)


class Servicer(Plugin):
    """Serves `tpuflex:tpu:QueuedResource`.

    Every call has a thread of its own, and a create may take days.
    """

    def __init__(
        self,
        log: EngineLog,
        connect: Connect,
        timing: Callable[[threading.Event], Timing] = Timing.real,
    ) -> None:
        super().__init__(__version__, package_schema, log)
        self._connect = connect
        self._make_timing = timing
        self._lock = threading.Lock()
        self._waits = Waits()
        self._configure(configuration.Configuration())

    def _configure(self, configured: configuration.Configuration) -> None:
        with self._lock:
            self._stop = threading.Event()
            self._configuration = configured
            self._timing = self._make_timing(self._stop)
            self._client: TpuClient | None = None
            self._generations = Generations()
            self._planned: set[str] = set()  # URNs checked since they were last read

    def _call(self, urn: str) -> Call:
        """What one call works with. The connection is made when it is first needed: checking and
        comparing inputs needs none."""
        with self._lock:
            if self._client is None:
                self._client = self._connect(self._configuration, self._timing)
            report = functools.partial(self.log.write, urn)
            return Call(self._client, self._timing, report, waits=self._waits)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._timing.wall(), UTC)

    def stop(self) -> None:
        """End all waits at once."""
        self._stop.set()

    @reported
    def Cancel(self, request: Empty, context: Context) -> Empty:
        self.stop()
        return Empty()

    # -- the provider's own configuration -----------------------------------------------------

    @reported
    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: Context
    ) -> provider_pb2.CheckResponse:
        answer = provider_pb2.CheckResponse(
            failures=check_failures(configuration.failures(decode(request.news)))
        )
        for key in (*configuration.KEYS, "version"):
            if key in request.news.fields:
                answer.inputs.fields[key].CopyFrom(request.news.fields[key])
        return answer

    @reported
    def DiffConfig(
        self, request: provider_pb2.DiffRequest, context: Context
    ) -> provider_pb2.DiffResponse:
        # Another endpoint or default project never replaces a resource: each has its own project.
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    @reported
    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: Context
    ) -> provider_pb2.ConfigureResponse:
        configured = configuration.configuration(decode(request.args))
        # A process that engines attach to serves several instances of one provider: configuring
        # the second must not make the first one's run forget what it has read.
        if configured != self._configuration or self._stop.is_set():
            self._configure(configured)
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    # -- the resource -------------------------------------------------------------------------

    @reported
    def Check(
        self, request: provider_pb2.CheckRequest, context: Context
    ) -> provider_pb2.CheckResponse:
        require_known_type(request.urn)
        given, before = decode(request.news), inputs_of(decode(request.olds))
        present = before.get("queuedResourceId")
        filled = with_defaults(
            given,
            urn=request.urn,
            project=self._configuration.project,
            id_for=lambda prefix: self._generations.id_for(request.urn, prefix, present),
        )
        secret = secret_keys(request.news)
        refused = failures(filled, before=before, now=self._now(), secrets=secret)
        self._planned.add(request.urn)
        answer = provider_pb2.CheckResponse(failures=check_failures(refused))
        # The inputs are returned unchanged, secrets and unknowns included; only defaults are added.
        answer.inputs.CopyFrom(request.news)
        added = {key: value for key, value in filled.items() if given.get(key) != value}
        for key, value in encode(added, secrets=secret).fields.items():
            answer.inputs.fields[key].CopyFrom(value)
        return answer

    @reported
    def Diff(
        self, request: provider_pb2.DiffRequest, context: Context
    ) -> provider_pb2.DiffResponse:
        require_known_type(request.urn)
        olds = decode(request.olds)
        old = inputs_of(decode(request.old_inputs) or olds)
        planned = plan(old, decode(request.news), olds, self._timing.wall())
        # Refresh and destroy ask for a diff, too, but plan nothing.
        for note in planned.notes if request.urn in self._planned else ():
            self.log.write(request.urn, with_code(note.text, note.code))
        return diff_response(planned.diff)

    @reported
    def Create(
        self, request: provider_pb2.CreateRequest, context: Context
    ) -> provider_pb2.CreateResponse:
        require_known_type(request.urn)
        if request.preview:
            return provider_pb2.CreateResponse(properties=previewed_creation(request.properties))
        inputs = decode(request.properties)
        self._generations.refuse_own(request.urn, inputs)
        with kept(request.properties):
            seen = create(self._call(request.urn), inputs, timeout=request.timeout)
        return provider_pb2.CreateResponse(
            id=str(seen.name),
            properties=properties(request.properties, seen),
            refresh_before_update=True,
        )

    @reported
    def Read(
        self, request: provider_pb2.ReadRequest, context: Context
    ) -> provider_pb2.ReadResponse:
        require_known_type(request.urn)
        self._planned.discard(request.urn)
        old = inputs_of(decode(request.inputs))
        refreshed = read(self._call(request.urn), request.id, old, decode(request.properties))
        if refreshed is None:
            return provider_pb2.ReadResponse()
        if not refreshed.seen.gone:
            self._generations.hold(request.urn, refreshed.seen.name)
        secrets = secret_keys(request.inputs, request.properties)
        inputs = encode(refreshed.inputs, secrets=secrets)
        return provider_pb2.ReadResponse(
            id=str(refreshed.seen.name),
            inputs=inputs,
            properties=encode(refreshed.outputs, secrets=secrets),
            refresh_before_update=True,
        )

    @reported
    def Update(
        self, request: provider_pb2.UpdateRequest, context: Context
    ) -> provider_pb2.UpdateResponse:
        require_known_type(request.urn)
        olds = decode(request.olds)
        if request.preview:
            return provider_pb2.UpdateResponse(
                properties=previewed_update(request.olds, request.news)
            )
        old = inputs_of(decode(request.old_inputs) or olds)
        with kept(request.news):
            seen = update(
                self._call(request.urn),
                request.id,
                old,
                decode(request.news),
                olds,
                timeout=request.timeout,
            )
        return provider_pb2.UpdateResponse(
            properties=properties(request.news, seen), refresh_before_update=True
        )

    @reported
    def Delete(self, request: provider_pb2.DeleteRequest, context: Context) -> Empty:
        require_known_type(request.urn)
        outputs = decode(request.properties)
        inputs = inputs_of(decode(request.old_inputs) or outputs)
        call = self._call(request.urn)
        delete_resource(call, request.id, inputs, outputs, timeout=request.timeout)
        self._generations.release(request.urn, request.id)
        return Empty()
