"""A gRPC context for calling the provider's servicer directly."""

from __future__ import annotations

import grpc
from google.rpc import status_pb2

from pulumi_plugin.protocol import provider_pb2


class CallFailedError(Exception):
    """The provider answered with an error.

    Attributes:
        kept: the partial state that came with the error, if any.
    """

    def __init__(self, message: str, kept: provider_pb2.ErrorResourceInitFailed | None) -> None:
        super().__init__(message)
        self.kept = kept


class Context:
    """A gRPC context: a servicer uses it only to end the call with an error."""

    def abort_with_status(self, status: grpc.Status) -> None:
        kept = None
        for key, value in status.trailing_metadata or ():
            if key == "grpc-status-details-bin":
                kept = _detail(status_pb2.Status.FromString(value))
        raise CallFailedError(str(status.details), kept)


def _detail(status: status_pb2.Status) -> provider_pb2.ErrorResourceInitFailed | None:
    for detail in status.details:
        kept = provider_pb2.ErrorResourceInitFailed()
        if detail.Unpack(kept):
            return kept
    return None
