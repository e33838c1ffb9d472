"""tpuflex: a private, cost-bounded vLLM endpoint on Cloud TPU Flex-start capacity.

The names below are loaded on first use: importing ``tpuflex`` alone imports no Pulumi.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuflex import tpu
    from tpuflex.components.endpoint import VllmEndpoint
    from tpuflex.components.endpoint_args import VllmEndpointArgs
    from tpuflex.naming import Names
    from tpuflex.tpu import Provider

__version__ = "0.1.0"

__all__ = ["Names", "Provider", "VllmEndpoint", "VllmEndpointArgs", "__version__", "tpu"]

_MODULES = {
    "Names": "tpuflex.naming",
    "Provider": "tpuflex.tpu",
    "VllmEndpoint": "tpuflex.components.endpoint",
    "VllmEndpointArgs": "tpuflex.components.endpoint_args",
}


#: What `pulumi import` prints, and the examples, reach through the package alone.
_SUBMODULES = ("tpu",)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_SUBMODULES})


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
