"""The engine's protocol: requests in, table lookups in the middle, answers out.

No rule about any resource type lives here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import grpc

from embedded_cloud.gcp_plugin import check as checking
from embedded_cloud.gcp_plugin import settings as provider_settings
from embedded_cloud.gcp_plugin.answers import (
    diff_response,
    failures,
    foreseen,
    inputs_now,
    inputs_seen,
    outputs,
    type_of,
)
from embedded_cloud.gcp_plugin.changes import known_after, named
from embedded_cloud.gcp_plugin.diff import diff
from embedded_cloud.gcp_plugin.errors import NotFullyMadeError, guarded
from embedded_cloud.gcp_plugin.protocol import (
    empty_pb2,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
)
from embedded_cloud.gcp_plugin.resource_type import IncompleteCreateError, Made, Work
from embedded_cloud.gcp_plugin.rest import Rest
from embedded_cloud.gcp_plugin.schema import package_schema
from embedded_cloud.gcp_plugin.sessions import Session, Sessions
from embedded_cloud.gcp_plugin.types import VERSION, not_served, row_of
from embedded_cloud.gcp_plugin.values import decode, encode
from embedded_cloud.gcp_plugin.waiting import Waiter
from tpuflex.errors import ConflictError

#: What a call may take when the program sets no custom timeout (the published plugin's).
DEFAULT_TIMEOUT_S = 20 * 60.0


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock and the pause of waiting calls; tests bring their own.

    Attributes:
        now: a monotonic clock, in seconds.
        pause: waits for a session that many seconds; answers whether it was cancelled.
    """

    now: Callable[[], float] = time.monotonic
    pause: Callable[[Session, float], bool] = lambda session, s: session.cancelled.wait(s)


class GcpStandIn(provider_pb2_grpc.ResourceProviderServicer):
    """Serves the ``gcp`` package against the embedded cloud."""

    def __init__(
        self, rest: Rest, environ: Mapping[str, str], timing: Timing | None = None
    ) -> None:
        self._rest = rest
        self._environ = environ
        self._timing = timing or Timing()
        self._sessions = Sessions()

    @guarded
    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ProviderHandshakeResponse:
        """What this plugin understands: secrets, and nothing else that is optional."""
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    @guarded
    def Attach(
        self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """The engine introduces itself; nothing is called back, so nothing is kept."""
        return empty_pb2.Empty()

    @guarded
    def GetPluginInfo(
        self, request: empty_pb2.Empty, context: grpc.ServicerContext
    ) -> plugin_pb2.PluginInfo:
        """The version of the plugin that this one stands in for."""
        return plugin_pb2.PluginInfo(version=VERSION)

    @guarded
    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        """The schema of what is served."""
        return provider_pb2.GetSchemaResponse(schema=package_schema())

    @guarded
    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Refuse provider settings that the stand-in would have to ignore."""
        news = decode(request.news)
        inputs, misfits = provider_settings.check(news.values, self._environ)
        return provider_pb2.CheckResponse(
            inputs=encode(inputs, news.secrets), failures=failures(misfits)
        )

    @guarded
    def DiffConfig(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """A changed provider never replaces what it provided."""
        olds, news = decode(request.olds).values, decode(request.news).values
        changed = sorted(name for name in {*olds, *news} if olds.get(name) != news.get(name))
        changed = [name for name in changed if name != "version"]
        kind = (
            provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        )
        return provider_pb2.DiffResponse(changes=kind, diffs=changed)

    @guarded
    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        """Remember the settings of the provider behind this connection."""
        settings = provider_settings.configure(decode(request.args).values)
        self._sessions.configure(context.peer(), settings)
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    @guarded
    def Invoke(
        self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.InvokeResponse:
        """Functions are all refused, by name."""
        raise not_served(f"the function {request.tok}")

    @guarded
    def Call(
        self, request: provider_pb2.CallRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CallResponse:
        """Methods are all refused, by name."""
        raise not_served(f"the method {request.tok}")

    @guarded
    def Construct(
        self, request: provider_pb2.ConstructRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConstructResponse:
        """Components are all refused, by name."""
        raise not_served(f"the component {request.type}")

    @guarded
    def Check(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Inputs with defaults, or everything that is wrong with them."""
        row = row_of(type_of(request))
        news = decode(request.news)
        inputs, misfits = checking.check(
            row,
            news.values,
            decode(request.olds).values,
            request.urn.rsplit("::", 1)[-1],
            request.randomSeed or request.urn.encode(),
        )
        return provider_pb2.CheckResponse(
            inputs=encode(inputs, news.secrets), failures=failures(misfits)
        )

    @guarded
    def Diff(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """What changes, property by property, and what replaces."""
        row = row_of(type_of(request))
        settings = self._sessions.of(context.peer()).settings
        state, news = decode(request.olds).values, decode(request.news).values
        return diff_response(diff(row, state, news, settings, tuple(request.ignoreChanges)))

    @guarded
    def Create(
        self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CreateResponse:
        """Make the resource; in a preview, say what is known of it."""
        row = row_of(type_of(request))
        inputs = decode(request.properties)
        work = self._work(context, request.timeout)
        if request.preview:
            state = foreseen(row, inputs.values, work)
            return provider_pb2.CreateResponse(properties=outputs(state, inputs))
        try:
            made = row.behaviour.create(row, inputs.values, work)
        except IncompleteCreateError as error:
            known = outputs(error.made.state, inputs)
            raise NotFullyMadeError(error, known, request.properties) from error
        return provider_pb2.CreateResponse(id=made.id, properties=outputs(made.state, inputs))

    @guarded
    def Read(
        self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ReadResponse:
        """The present state: for a refresh, or for an import by id alone."""
        row = row_of(type_of(request))
        known, inputs = decode(request.properties), decode(request.inputs)
        work = self._work(context, request.timeout)
        imported = not known.values
        made = named(row, request.id, work.settings) if imported else Made(request.id, known.values)
        present = row.behaviour.read(row, made, work)
        if present is None:
            return provider_pb2.ReadResponse()
        state = present.state
        seen = inputs_seen(row, state) if imported else inputs_now(row, state, inputs.values)
        return provider_pb2.ReadResponse(
            id=present.id,
            properties=outputs(state, known),
            inputs=encode(seen, inputs.secrets),
        )

    @guarded
    def Update(
        self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.UpdateResponse:
        """Change what can be changed in place."""
        row = row_of(type_of(request))
        olds, news = decode(request.olds), decode(request.news)
        work = self._work(context, request.timeout)
        if request.preview:
            state = known_after(row, olds.values | news.values, news.values, work.settings)
        else:
            state = row.behaviour.update(row, Made(request.id, olds.values), news.values, work)
        return provider_pb2.UpdateResponse(properties=outputs(state, news))

    @guarded
    def Delete(
        self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """Remove the resource, as far as its deletion policy allows."""
        row = row_of(type_of(request))
        state = decode(request.properties).values
        policy = state.get("deletionPolicy")
        if policy == "PREVENT":
            raise ConflictError(
                f"cannot destroy {row.title} {request.id!r}: its deletionPolicy is PREVENT",
                hint='set deletionPolicy="DELETE" and run `pulumi up` first',
            )
        if policy != "ABANDON":
            work = self._work(context, request.timeout)
            row.behaviour.delete(row, Made(request.id, state), work)
        return empty_pb2.Empty()

    @guarded
    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """Stop waiting, for the provider behind this connection."""
        self._sessions.cancel(context.peer())
        return empty_pb2.Empty()

    def _work(self, context: grpc.ServicerContext, timeout_s: float) -> Work:
        session = self._sessions.of(context.peer())
        deadline = self._timing.now() + (timeout_s or DEFAULT_TIMEOUT_S)
        waiter = Waiter(
            lambda seconds: self._timing.pause(session, seconds), self._timing.now, deadline
        )
        return Work(self._rest, session.settings, waiter)
