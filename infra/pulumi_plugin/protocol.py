"""The message classes of Pulumi's provider protocol, without executing the Pulumi SDK.

The generated modules lie in the `pulumi` package, whose `__init__` imports the whole SDK:
a fifth of a second that every preview would pay for nothing. They only import one another,
so they are loaded under a package name of our own that points at their directory. Should a
release move them, or the SDK be loaded already, they are imported the ordinary way. Both ways
give the same classes: protobuf keeps one class per message type in a process.
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
    ordinary = "pulumi.runtime.proto"
    spec = importlib.util.find_spec("pulumi")
    if "pulumi" in sys.modules or spec is None or not spec.submodule_search_locations:
        return ordinary
    directory = Path(spec.submodule_search_locations[0], "runtime", "proto")
    if not (directory / "provider_pb2_grpc.py").is_file():
        return ordinary
    alias = ModuleType("_tpuflex_pulumirpc")
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
