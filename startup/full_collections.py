"""Make full garbage collections rare in the server's processes.

The startup script writes this beside the guard as ``sitecustomize.py``, which every Python process
of the container loads first (https://docs.python.org/3/library/site.html). A model server loads
thousands of modules and keeps what they make; while that grows, Python's garbage collector goes
through all of it over and over, in each of the server's processes: 4 of 33 s from the start of vLLM
0.32 to its first completion, in which chips are billed (docs/adr/0038). The young generations are
collected as by default, and with them what was needed only to load a model
(https://docs.python.org/3/library/gc.html#gc.set_threshold). Once it serves, vLLM itself exempts
what it has loaded (``freeze_gc_heap`` in ``vllm/utils/gc_utils.py``).

This hides a ``sitecustomize`` of the image, which is therefore run from here.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.machinery import PathFinder

#: Collections of the middle generation before there is a full one; 10 by default.
COLLECTIONS = 1000
#: In ``sys.modules`` once this has run. A ``sitecustomize`` of the image may run what it hides,
#: too: without this the two would call each other for ever.
HAS_RUN = "tpuflex_full_collections"


def collect_less() -> None:
    """Make full collections rare."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, COLLECTIONS)


def run_hidden(name: str) -> None:
    """Run the module ``name`` that the directory of this file hides, if there is one."""
    # os.path, not pathlib, which every short-lived process would have to load.
    here = os.path.realpath(__file__.rpartition("/")[0])
    others = [each for each in sys.path if os.path.realpath(each) != here]
    spec = PathFinder.find_spec(name, others)
    if spec is None or spec.loader is None:
        return
    # Only now: it takes longer to import than all of this.
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize" and HAS_RUN not in sys.modules:
    sys.modules[HAS_RUN] = sys.modules[__name__]
    collect_less()
    run_hidden(__name__)
