"""Let the server's processes look through all of their memory for garbage a hundred times less.

The startup script writes this beside the guard as ``sitecustomize.py``, which every Python process
of the container loads first (https://docs.python.org/3/library/site.html). A model server loads
thousands of modules and keeps what they make; Python goes through all of that over and over while
it grows, in each of the server's processes: 4.5 of the 33.4 s from the start of vLLM 0.32 to its
first completion (a small model on two cores, 2026-11-26), in which chips are billed. Young
objects, among them what was needed for loading a model, are looked through as ever
(https://docs.python.org/3/library/gc.html#gc.set_threshold); once it serves, vLLM itself leaves
what it has loaded out (``freeze_gc_heap`` in ``vllm/utils/gc_utils.py``).

This hides a ``sitecustomize`` of the image, which is therefore run from here.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.machinery import PathFinder

#: Collections of the middle generation before there is a full one; 10 by default.
COLLECTIONS = 1000
#: In ``sys.modules`` once this has run: what it runs may in its turn look for what it hides.
HAS_RUN = "tpuflex_full_collections"


def look_less() -> None:
    """Make full collections rare."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, COLLECTIONS)


def run_hidden(name: str) -> None:
    """Run the module ``name`` that the directory of this file hides, if there is one."""
    here = _real(__file__.rpartition("/")[0])
    spec = PathFinder.find_spec(name, [each for each in sys.path if _real(each) != here])
    if spec is None or spec.loader is None:
        return
    # Only now: it takes longer to import than all of this.
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _real(path: str) -> str:
    # Without pathlib, which every short-lived process would have to load.
    return os.path.realpath(path)


if __name__ == "sitecustomize" and HAS_RUN not in sys.modules:
    sys.modules[HAS_RUN] = sys.modules[__name__]
    look_less()
    run_hidden(__name__)
