"""What uv and pip say while they install, as the state of the installation."""

from __future__ import annotations

import collections
import re

#: pip: ``Downloading torch-2.13.0-cp312-….whl (180.1 MB)``, one after the other.
_OF_PIP = re.compile(r"\s*Downloading ([^\s-]+)\S*\.whl \((.+)\)")
#: uv: ``Downloading torch (180.1MiB)``, many at once, and of the larger ones only.
_OF_UV = re.compile(r"\s*Downloading (\S+) \(([\d.]+)([KMG]iB)\)")
_DONE = re.compile(r"\s*Downloaded (\S+)")
_UNPACKING = ("Installing collected packages", "Prepared ")
_AND_MORE = ", and "
_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class InstallerOutput:
    """The output of one installation.

    Attributes:
        state: how far it is, such as ``downloading torch, 180.1MiB (12 of 150 packages)``.

    Args:
        total: how many packages are installed.
    """

    def __init__(self, total: int) -> None:
        self.state = "asking the package index"
        self._total = total
        self._downloaded = 0
        self._open: dict[str, tuple[float, str]] = {}
        self._tail: collections.deque[str] = collections.deque(maxlen=15)

    @property
    def end(self) -> str:
        """The last lines."""
        return "\n".join(self._tail)

    def take(self, line: str) -> bool:
        """Take note of a line; whether the state is another one that people want to see."""
        self._tail.append(line)
        before = self.state
        if found := _OF_UV.match(line):
            size = float(found[2]) * _BYTES[found[3]]
            self._open[found[1]] = (size, f"downloading {found[1]}, {found[2]} {found[3]}")
            self.state = self._largest()
        elif found := _DONE.match(line):
            self._open.pop(found[1], None)
            self.state = self._largest()
        elif found := _OF_PIP.match(line):
            self._downloaded += 1
            done = f"{self._downloaded} of {self._total} packages"
            self.state = f"downloading {found[1]}, {found[2]} ({done})"
            return "MB" in found[2] or self._downloaded % 25 == 0
        elif line.startswith(_UNPACKING):
            self.state = f"unpacking {self._total} packages"
        return self.state.partition(_AND_MORE)[0] != before.partition(_AND_MORE)[0]

    def _largest(self) -> str:
        """Of what uv downloads at once, what will take longest."""
        if not self._open:
            return f"unpacking {self._total} packages"
        largest, *others = sorted(self._open.values(), reverse=True)
        return largest[1] + (f"{_AND_MORE}{len(others)} more" if others else "")
