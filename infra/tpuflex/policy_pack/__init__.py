"""The CrossGuard pack: the rules of :mod:`tpuflex.policy` for `pulumi preview --policy-pack`.

The directory is the pack. The engine runs ``__main__.py`` in an environment of the pack's own,
``requirements.txt``: pulumi-policy and tpuflex cannot be installed together, because they ask for
different versions of protobuf.
"""

from __future__ import annotations

from pathlib import Path

#: What `pulumi preview --policy-pack` takes.
DIRECTORY = Path(__file__).parent
