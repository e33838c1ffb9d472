"""The engine's protocol, without the Pulumi SDK around it.

The generated protocol modules lie in ``pulumi/runtime/proto``. Importing them by that name
runs ``pulumi/__init__`` first, the whole SDK, which a plugin that serves the protocol has no
use for and a daemon that must start in a second has no time for. This package has that
directory as its search path, so ``stubs.provider_pb2`` is the same file, loaded alone.

In a process that imports the SDK as well both names give the same message classes: the
protobuf runtime keeps one class per message type, whoever registers it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path


def _generated() -> str:
    spec = importlib.util.find_spec("pulumi")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the pulumi package is not installed", name="pulumi")
    return str(Path(spec.submodule_search_locations[0]) / "runtime" / "proto")


__path__ = [_generated()]
