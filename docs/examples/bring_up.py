"""Bring a stack up and say how it is, by the functions that `tpuflex up` and `status` call.

In the directory of a project.
"""

from __future__ import annotations

import os
from pathlib import Path

from tpuflex.deploy import up
from tpuflex.operate import status
from tpuflex.stack.connection import connect
from tpuflex.stack.opening import open_stack
from tpuflex.stack.progress import agree

cloud = connect(open_stack(Path.cwd(), "dev", os.environ), os.environ)
result = up(cloud, print, consent=agree)  # goes ahead as with --yes
print(f"{result.endpoint}: {status(cloud).slice.condition.value}")
