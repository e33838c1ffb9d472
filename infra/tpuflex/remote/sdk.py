"""The SDK's server of components, loaded beside Google's messages.

It brings a `google.rpc.Status` of its own, which protobuf refuses in a process that has the
published one (googleapis-common-protos), as failed calls of the provider do. They are one message.
"""

from __future__ import annotations

import sys

from google.rpc import status_pb2

__all__ = ["ConstructResult", "Provider", "ProviderServicer"]

sys.modules.setdefault("pulumi.runtime.proto.status_pb2", status_pb2)
from pulumi.provider import ConstructResult, Provider  # noqa: E402 - not before the line above
from pulumi.provider.server import ProviderServicer  # noqa: E402
