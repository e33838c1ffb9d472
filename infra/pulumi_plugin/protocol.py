"""The message classes of Pulumi's provider protocol, without executing the Pulumi SDK.

The generated modules are in the `pulumi` package, whose `__init__` imports the whole SDK, which
would add a fifth of a second to every preview. They import only one another, so they are loaded
under another package name that points at their directory. If a release moves them, or the SDK is
loaded already, they are imported by their own name. Both ways give the same classes: protobuf
keeps one class per message type in a process.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["engine_pb2", "engine_pb2_grpc", "plugin_pb2", "provider_pb2", "provider_pb2_grpc"]

if TYPE_CHECKING:
    from pulumi.runtime.proto import (
        engine_pb2,
        engine_pb2_grpc,
        plugin_pb2,
        provider_pb2,
        provider_pb2_grpc,
    )


def _package() -> str:
    """Name of the package from which the generated modules can be imported."""
    published = "pulumi.runtime.proto"
    spec = importlib.util.find_spec("pulumi")
    if "pulumi" in sys.modules or spec is None or not spec.submodule_search_locations:
        return published
    directory = Path(spec.submodule_search_locations[0], "runtime", "proto")
    if not (directory / "provider_pb2_grpc.py").is_file():
        return published
    alias = ModuleType("_pulumi_plugin_messages")
    alias.__path__ = [str(directory)]
    sys.modules[alias.__name__] = alias
    return alias.__name__


if not TYPE_CHECKING:
    _source = _package()
    engine_pb2 = import_module(f"{_source}.engine_pb2")
    engine_pb2_grpc = import_module(f"{_source}.engine_pb2_grpc")
    plugin_pb2 = import_module(f"{_source}.plugin_pb2")
    provider_pb2 = import_module(f"{_source}.provider_pb2")
    provider_pb2_grpc = import_module(f"{_source}.provider_pb2_grpc")
