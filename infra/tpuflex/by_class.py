"""Packages of Pulumi's SDKs, loaded class by class (docs/adr/0043).

`pulumi_gcp.compute` has 288 modules. Its SDK loads a package when it is touched for the first time,
and then all of it (https://github.com/pulumi/pulumi/pull/6827), for which the engine waits.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any

#: Where a word begins within the name of a class: `RouterNat`, `BucketIAMMember`.
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: The module in which a package has the types of its resources' nested inputs.
_INPUTS = "_inputs"
#: The type of a package that nobody has touched, by its name in pulumi._utils and importlib.util.
_LAZY = "_LazyModule"
#: Held while a package is loaded as a whole: others of its threads wait until it is.
_LOADING = RLock()


class _ByClass(ModuleType):
    """A package of which a class is loaded with its own module; for anything else, all of it."""

    def __getattr__(self, name: str) -> Any:
        """The class ``name``. What begins with a small letter may be a submodule that is about to
        be imported, which Python asks for first."""
        if name.startswith("_") or name == "outputs":
            raise AttributeError(name)
        if name[:1].isupper():
            for module in (_WORD.sub("_", name).lower(), _INPUTS):
                path = f"{self.__name__}.{module}"
                loaded = import_module(path) if find_spec(path) else None
                if name in getattr(loaded, "__all__", ()):
                    setattr(self, name, getattr(loaded, name))
                    return getattr(loaded, name)
        _load_whole(self)
        return getattr(self, name)


def load_by_class(package: ModuleType) -> None:
    """Have each class of ``package`` load its own module when it is touched, and no other.

    What lists the package, or imports all of its names, gets what is loaded by then: this is for a
    process in which nobody else's program runs.

    Args:
        package: as the SDK gives it to its importers. One that was touched already is loaded
            as a whole, and stays as it is.
    """
    # Its type, and no attribute of it, which would touch it.
    if type(package).__name__ == _LAZY:
        package.__class__ = _ByClass


def _load_whole(package: ModuleType) -> None:
    """Load all of ``package``; where that fails, it stays as it was."""
    with _LOADING:
        if type(package) is ModuleType:
            return
        spec = package.__spec__
        if spec is None or spec.loader is None:
            raise ImportError(f"{package.__name__} cannot be loaded")
        spec.loader.exec_module(package)
        package.__class__ = ModuleType
