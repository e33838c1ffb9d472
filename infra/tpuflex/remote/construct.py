"""Makes a component for a program in another language, with the SDK's own machinery.

Every call has an event loop of its own. The SDK keeps the project, the stack and the engine's
address in context variables, and the task of a loop has a context of its own: calls that run at the
same time see nothing of each other. What the SDK logs goes to the engine that attached last: where
several share one provider, the lines of one may appear at another.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulumi
from google.rpc import status_pb2

from pulumi_plugin.protocol import provider_pb2
from tpuflex import __version__
from tpuflex.components.endpoint import VllmEndpoint
from tpuflex.components.endpoint_args import VllmEndpointArgs
from tpuflex.errors import TpuflexError
from tpuflex.program import load
from tpuflex.remote.sections import EndpointSections, endpoint_sections

# The SDK's server of components brings a `google.rpc.Status` of its own, which protobuf refuses in
# a process that has the published one (googleapis-common-protos), as failed calls of the provider
# do. They are one message.
sys.modules.setdefault("pulumi.runtime.proto.status_pb2", status_pb2)
from pulumi.provider import ConstructResult, Provider  # noqa: E402 - not before the line above
from pulumi.provider.server import ProviderServicer  # noqa: E402

#: Registrations of one component that may wait for the engine at the same time: more than it has
#: parts, so that one that waits for capacity holds up nothing.
_REGISTRATIONS = 64
_loading = threading.Lock()


class _Endpoint(Provider):
    """What the SDK's servicer asks to make the component."""

    def __init__(self, given: EndpointSections) -> None:
        super().__init__(__version__)
        self._given = given

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: pulumi.Inputs,
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        del resource_type, inputs  # read before, from the wire
        sections: dict[str, Any] = dict(self._given.sections)
        endpoint = VllmEndpoint(
            name, VllmEndpointArgs(**sections, names=self._given.names), options
        )
        return ConstructResult(endpoint.urn, endpoint.state_outputs())


def construct(
    request: provider_pb2.ConstructRequest, engine_address: str
) -> provider_pb2.ConstructResponse:
    """Register the endpoint that ``request`` asks for, and everything that it is made of.

    Args:
        request: the engine's.
        engine_address: where the engine takes lines for its log.

    Raises:
        SettingsError: inputs are refused; holds every finding, with the path of its property.
        TpuflexError: it cannot be made as it is asked for, or the engine has ended.
    """
    given = endpoint_sections(request.inputs)
    with _loading:
        _load_once()
    try:
        return asyncio.run(
            _construct(request, ProviderServicer(_Endpoint(given), [], engine_address))
        )
    except pulumi.RunError as error:
        raise TpuflexError(str(error)) from error


@functools.cache
def _load_once() -> None:
    load()


async def _construct(
    request: provider_pb2.ConstructRequest, servicer: ProviderServicer
) -> provider_pb2.ConstructResponse:
    loop = asyncio.get_running_loop()
    # The SDK looks at one failure of a part, and asyncio would print a traceback for each other
    # future that has it: megabytes, in the user's terminal. Pulumi's own host silences it, too.
    loop.set_exception_handler(lambda _loop, _context: None)
    loop.set_default_executor(ThreadPoolExecutor(_REGISTRATIONS))
    try:
        return await servicer.Construct(request, None)
    except pulumi.RunError:
        raise
    except Exception as error:
        # What the SDK raises instead has a traceback in its text.
        cause = error.__context__ or error
        if type(cause) is Exception:  # what it makes of a refusal of the engine
            raise TpuflexError(str(cause)) from error
        raise cause from None
