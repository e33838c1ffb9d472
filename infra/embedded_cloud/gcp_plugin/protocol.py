"""The generated messages and services of the engine's protocol, under one roof.

Types come from the Pulumi SDK's stub files; at run time the same modules are loaded without
the SDK (see :mod:`embedded_cloud.gcp_plugin.stubs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf import empty_pb2, struct_pb2

if TYPE_CHECKING:
    from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc
else:
    from embedded_cloud.gcp_plugin.stubs import plugin_pb2, provider_pb2, provider_pb2_grpc

__all__ = ["empty_pb2", "plugin_pb2", "provider_pb2", "provider_pb2_grpc", "struct_pb2"]
