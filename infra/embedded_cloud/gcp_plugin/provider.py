"""The stand-in's gRPC service: the engine's requests in, replies out.

There are no rules about resource types here.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct

from embedded_cloud.gcp_plugin import settings as provider_settings
from embedded_cloud.gcp_plugin.call import CloudCall
from embedded_cloud.gcp_plugin.diff import diff
from embedded_cloud.gcp_plugin.fields import accept
from embedded_cloud.gcp_plugin.resource_type import IncompleteCreateError, Made, ResourceType
from embedded_cloud.gcp_plugin.rest import FixedToken, Rest, Token, WaitCancelledError, Waiter
from embedded_cloud.gcp_plugin.settings import ConfiguredProvider, ConfiguredProviders
from embedded_cloud.gcp_plugin.states import (
    imported_inputs,
    known_after,
    named,
    predicted,
    refreshed_inputs,
)
from embedded_cloud.gcp_plugin.tables import VERSION, not_served, package_schema, row_of
from embedded_cloud.gcp_plugin.types import InvalidValueError
from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.replies import (
    Failure,
    InitFailedError,
    check_failures,
    diff_response,
    internal_error,
    reporting,
)
from pulumi_plugin.serve import Plugin, RunningPlugin, start
from pulumi_plugin.values import SIGNATURE_KEY, Properties, Value, type_of
from pulumi_plugin.wire import decode, encode, secret_keys
from tpuflex.errors import ConflictError, EmulatorError, TpuflexError

#: Where checked inputs list what the plugin has filled in (pulumi-terraform-bridge,
#: ``pkg/tfbridge/schema.go``, ``defaultsKey``).
DEFAULTS = "__defaults"


def check(
    row: ResourceType, news: Properties, olds: Properties, logical_name: str, seed: bytes
) -> tuple[Properties, list[InvalidValueError]]:
    """``news`` with defaults and, if needed, a generated name; and all that is wrong.

    A generated name is listed under :data:`DEFAULTS`, as the published plugin does it: a resource
    whose name the program gives is replaced in another order.

    Args:
        row: the type.
        news: the inputs of the program.
        olds: the inputs of the existing resource, if any: its generated name is kept.
        logical_name: the resource's name in the program.
        seed: the engine's randomness for generated names.
    """
    invalid = [_unknown_name(row, name) for name in news if not _is_input(row, name)]
    values = dict(news)
    generated = bool(row.autonamed) and values.get(row.autonamed) is None
    if generated:
        values[row.autonamed] = olds.get(row.autonamed) or _generated(logical_name, seed)
    inputs, wrong = accept(row.properties, values)
    invalid += wrong
    if not invalid:
        invalid += [error for error in (rule(inputs) for rule in row.rules) if error]
    return inputs | ({DEFAULTS: [row.autonamed]} if generated else {}), invalid


def _is_input(row: ResourceType, name: str) -> bool:
    item = row.property(name)
    return item is not None and item.is_input


def _unknown_name(row: ResourceType, name: str) -> InvalidValueError:
    if name in row.unserved:
        return InvalidValueError(
            name,
            "the embedded cloud's stand-in for the gcp plugin does not serve this property of "
            f"{row.token}; leave it out on the embedded cloud",
        )
    if row.property(name) is not None:
        return InvalidValueError(name, f"{row.token} computes this property; it cannot be set")
    return InvalidValueError(name, f"{row.token} has no such property")


def _generated(logical_name: str, seed: bytes) -> str:
    # The published plugin's form: the logical name and seven hexadecimal digits.
    letters = re.sub(r"[^a-z0-9-]", "-", logical_name.lower())
    return f"{letters}-{hashlib.sha256(seed).hexdigest()[:7]}"


_LOG = logging.getLogger(__name__)

#: Outputs that the published plugin marks secret, because other tools write into them.
_SECRET_OUTPUTS = frozenset({"effectiveLabels", "pulumiLabels"})

#: The timeout of a call when the program sets none, as in the published plugin.
DEFAULT_TIMEOUT_S = 20 * 60.0


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock and the pause of waiting calls; tests bring their own.

    Attributes:
        now: a monotonic clock, in seconds.
        pause: waits that many seconds for a provider; returns whether it was cancelled.
    """

    now: Callable[[], float] = time.monotonic
    pause: Callable[[ConfiguredProvider, float], bool] = lambda provider, s: (
        provider.cancelled.wait(s)
    )


class UnservedValueError(TpuflexError):
    """The engine sent a value that no ``gcp:`` resource here has."""


def _describe(error: Exception) -> Failure:
    if isinstance(error, WaitCancelledError):
        return grpc.StatusCode.CANCELLED, str(error)
    if isinstance(error, TpuflexError):
        return grpc.StatusCode.UNKNOWN, str(error)
    # A bug in the stand-in: the log gets the traceback, the user a sentence.
    _LOG.error("the gcp stand-in plugin failed", exc_info=error)
    return grpc.StatusCode.INTERNAL, internal_error("the gcp stand-in plugin", error)


reported = reporting(_describe)


class GcpStandIn(Plugin):
    """Serves the ``gcp`` package against the embedded cloud."""

    def __init__(
        self, rest: Rest, environ: Mapping[str, str], timing: Timing | None = None
    ) -> None:
        # The version of the plugin that this one stands in for.
        super().__init__(VERSION, package_schema, EngineLog())
        self._rest = rest
        self._environ = environ
        self._timing = timing or Timing()
        self._providers = ConfiguredProviders()

    @reported
    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Refuse provider settings that the stand-in would have to ignore."""
        news = _properties(request.news)
        inputs, invalid = provider_settings.check(news, self._environ)
        return provider_pb2.CheckResponse(
            inputs=encode(inputs, secrets=secret_keys(request.news)), failures=_failures(invalid)
        )

    @reported
    def DiffConfig(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """A changed provider never replaces what it provided."""
        olds, news = _properties(request.olds), _properties(request.news)
        changed = sorted(name for name in {*olds, *news} if olds.get(name) != news.get(name))
        changed = [name for name in changed if name != "version"]
        kind = (
            provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        )
        return provider_pb2.DiffResponse(changes=kind, diffs=changed)

    @reported
    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        """Remember the settings of the provider behind this connection."""
        settings = provider_settings.configure(_properties(request.args))
        self._providers.configure(context.peer(), settings)
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    @reported
    def Invoke(
        self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.InvokeResponse:
        """Functions are all refused, by name."""
        raise not_served(f"the function {request.tok}")

    @reported
    def Call(
        self, request: provider_pb2.CallRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CallResponse:
        """Methods are all refused, by name."""
        raise not_served(f"the method {request.tok}")

    @reported
    def Construct(
        self, request: provider_pb2.ConstructRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConstructResponse:
        """Components are all refused, by name."""
        raise not_served(f"the component {request.type}")

    @reported
    def Check(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Inputs with defaults, and all that is wrong with them."""
        row = row_of(type_of(request.urn))
        news = _properties(request.news)
        inputs, invalid = check(
            row,
            news,
            _properties(request.olds),
            request.urn.rsplit("::", 1)[-1],
            request.randomSeed or request.urn.encode(),
        )
        return provider_pb2.CheckResponse(
            inputs=encode(inputs, secrets=secret_keys(request.news)), failures=_failures(invalid)
        )

    @reported
    def Diff(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """What changes, property by property, and what replaces."""
        row = row_of(type_of(request.urn))
        settings = self._providers.of(context.peer()).settings
        state, news = _properties(request.olds), _properties(request.news)
        ignored = tuple(request.ignoreChanges)
        return diff_response(diff(row, state, news, settings, ignored, _defaults(request.news)))

    @reported
    def Create(
        self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CreateResponse:
        """Create the resource; in a preview, return what is known of it."""
        row = row_of(type_of(request.urn))
        inputs = _properties(request.properties)
        call = self._cloud_call(context, request.timeout)
        if request.preview:
            state = predicted(row, inputs, call.settings)
            return provider_pb2.CreateResponse(properties=_outputs(state, request.properties))
        try:
            made = row.behaviour.create(row, inputs, call)
        except IncompleteCreateError as error:
            raise InitFailedError(
                str(error),
                id_=error.made.id,
                properties=_outputs(error.made.state, request.properties),
                inputs=request.properties,
            ) from error
        return provider_pb2.CreateResponse(
            id=made.id, properties=_outputs(made.state, request.properties)
        )

    @reported
    def Read(
        self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ReadResponse:
        """The present state: for a refresh, or for an import by id alone."""
        row = row_of(type_of(request.urn))
        old, inputs = _properties(request.properties), _properties(request.inputs)
        call = self._cloud_call(context, request.timeout)
        imported = not old
        made = named(row, request.id, call.settings) if imported else Made(request.id, old)
        present = row.behaviour.read(row, made, call)
        if present is None:
            return provider_pb2.ReadResponse()
        if imported:
            inputs = imported_inputs(row, present.state)
        else:
            inputs = refreshed_inputs(row, present.state, inputs)
        return provider_pb2.ReadResponse(
            id=present.id,
            properties=_outputs(present.state, request.properties),
            inputs=encode(inputs, secrets=secret_keys(request.inputs)),
        )

    @reported
    def Update(
        self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.UpdateResponse:
        """Change what can be changed in place."""
        row = row_of(type_of(request.urn))
        olds, news = _properties(request.olds), _properties(request.news)
        call = self._cloud_call(context, request.timeout)
        if request.preview:
            state = known_after(row, olds | news, news, call.settings)
        else:
            state = row.behaviour.update(row, Made(request.id, olds), news, call)
        return provider_pb2.UpdateResponse(properties=_outputs(state, request.news))

    @reported
    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> Empty:
        """Delete the resource, as far as its deletion policy allows."""
        row = row_of(type_of(request.urn))
        state = _properties(request.properties)
        policy = state.get("deletionPolicy")
        if policy == "PREVENT":
            raise ConflictError(
                f"cannot destroy {row.title} {request.id!r}: its deletionPolicy is PREVENT",
                hint='set deletionPolicy="DELETE" and run `pulumi up` first',
            )
        if policy != "ABANDON":
            call = self._cloud_call(context, request.timeout)
            row.behaviour.delete(row, Made(request.id, state), call)
        return Empty()

    @reported
    def Cancel(self, request: Empty, context: grpc.ServicerContext) -> Empty:
        """End the waits of the provider behind this connection."""
        self._providers.cancel(context.peer())
        return Empty()

    def _cloud_call(self, context: grpc.ServicerContext, timeout_s: float) -> CloudCall:
        provider = self._providers.of(context.peer())
        deadline = self._timing.now() + (timeout_s or DEFAULT_TIMEOUT_S)
        waiter = Waiter(
            lambda seconds: self._timing.pause(provider, seconds), self._timing.now, deadline
        )
        return CloudCall(self._rest, provider.settings, waiter)


def _properties(struct: Struct) -> Properties:
    """Plain values, without bookkeeping keys such as ``__defaults``."""
    properties = {key: v for key, v in decode(struct).items() if not key.startswith("__")}
    if _has_signature(properties):
        raise UnservedValueError(
            "a property holds an asset or an archive; no gcp resource served here does"
        )
    return properties


def _defaults(news: Struct) -> frozenset[str]:
    """The inputs in ``news`` that the check has filled in."""
    listed = decode(news).get(DEFAULTS)
    return frozenset(map(str, listed)) if isinstance(listed, list) else frozenset()


def _has_signature(value: Value) -> bool:
    """Whether a special value is left that a decoded struct cannot make plain."""
    if isinstance(value, list):
        return any(map(_has_signature, value))
    if isinstance(value, dict):
        return SIGNATURE_KEY in value or any(map(_has_signature, value.values()))
    return False


def _outputs(state: Properties, source: Struct) -> Struct:
    """``state`` with what was secret in ``source`` as secrets."""
    return encode(state, secrets=secret_keys(source) | _SECRET_OUTPUTS)


def _failures(invalid: list[InvalidValueError]) -> list[provider_pb2.CheckFailure]:
    return check_failures((error.path, error.reason) for error in invalid)


#: Calls that can run at the same time.
_THREADS = 64


def serve(
    base_url: str,
    port: int = 0,
    *,
    token: str | Token,
    environ: Mapping[str, str] | None = None,
    timing: Timing | None = None,
) -> RunningPlugin:
    """Serve the stand-in in this process, on threads of its own.

    Args:
        base_url: where the embedded cloud listens; must be a loopback address.
        port: port on 127.0.0.1; 0 lets the system choose.
        token: the embedded cloud's access token, or what gives one; sent nowhere else.
        environ: where default project and region are looked up; by default this process's.
        timing: clock and pause of calls that wait.

    Raises:
        EmulatorError: ``base_url`` is not on loopback, or the port is taken.
    """
    given = FixedToken(token) if isinstance(token, str) else token
    plugin = GcpStandIn(Rest(base_url, given), os.environ if environ is None else environ, timing)
    try:
        return start(plugin, threads=_THREADS, port=port)
    except OSError as error:
        raise EmulatorError(
            f"the gcp stand-in plugin {error}", hint="let the system choose one: --port 0"
        ) from error
