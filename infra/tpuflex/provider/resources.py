"""What a configured provider asks the API with: queued resources, the functions, and the client of
both."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.replies import check_failures
from pulumi_plugin.wire import decode, encode, secret_keys
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.timing import Timing
from tpuflex.provider.call import EMBEDDED_HOST_POLL, HOST_POLL, Call
from tpuflex.provider.configuration import Configuration
from tpuflex.provider.functions import ArgumentsError, invoke
from tpuflex.provider.queued_resource import QueuedResources
from tpuflex.provider.waits import Waits

#: Connects to the Cloud TPU API, as the provider is configured.
Connect = Callable[[Configuration, Timing], TpuClient]


class Resources:
    """What of the package `tpuflex` asks the API, as one configuration has it.

    Args:
        configured: the provider's configuration.
        connect: makes the client. It is called when the first call needs one: checking and
            comparing inputs needs none.
        timing: clocks and pauses.
        log: the engine's log.
        waits: all waits of this process.
        drains: whether a deletion waits for what hosts have begun to answer.
        new_host: whether slices are replaced that have not changed.

    Attributes:
        slices: the type `tpuflex:tpu:QueuedResource`.
    """

    def __init__(
        self,
        configured: Configuration,
        connect: Connect,
        timing: Timing,
        log: EngineLog,
        waits: Waits,
        *,
        drains: bool,
        new_host: bool,
    ) -> None:
        self._configuration = configured
        self._connect = connect
        self._timing = timing
        self._log = log
        self._waits = waits
        self._drains = drains
        self._lock = threading.Lock()
        self._client: TpuClient | None = None
        self.slices = QueuedResources(
            configured.project, timing, log, self._call, new_host=new_host
        )

    def invoke(self, request: provider_pb2.InvokeRequest) -> provider_pb2.InvokeResponse:
        """The answer of a function.

        Raises:
            TpuflexError: there is none of that name; or the API refuses, or does not answer.
        """
        given, secrets = decode(request.args), secret_keys(request.args)
        project = self._configuration.project
        try:
            answer = invoke(request.tok, given, project, lambda: self._call(""), secrets=secrets)
        except ArgumentsError as error:
            return provider_pb2.InvokeResponse(failures=check_failures(error.findings))
        reply = provider_pb2.InvokeResponse()
        # Which argument a part of the answer repeats cannot be told: all of it is secret then.
        marked = encode(answer, secrets=answer.keys() if secrets else ())
        getattr(reply, "return").CopyFrom(marked)
        return reply

    def _call(self, urn: str) -> Call:
        with self._lock:
            if self._client is None:
                self._client = self._connect(self._configuration, self._timing)
        return Call(
            self._client,
            self._timing,
            functools.partial(self._log.write, urn),
            waits=self._waits,
            host_poll=EMBEDDED_HOST_POLL if self._configuration.embedded else HOST_POLL,
            drains=self._drains,
        )
