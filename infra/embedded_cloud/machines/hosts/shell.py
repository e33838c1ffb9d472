"""A shell of an emulated host.

It has the environment of the host's first process, and its mounts. It is a shell of the machine's
user all the same: the banner says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedded_cloud.machines.namespace import entering

_BASH = ("bash", "--noprofile", "--norc")
#: Set for one who may not use `sudo`: see the command of that name of a host.
NO_SUDO_VARIABLE = "TPUFLEX_NO_SUDO"


@dataclass(frozen=True, slots=True)
class HostShell:
    """How a shell of a host is started.

    Attributes:
        words: the command, in the host's namespaces.
        environment: its environment.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, directory: Path, name: str, *, sudo: bool) -> HostShell | None:
        """The shell of the host of ``directory``, called ``name``; None where nothing runs on it.

        Args:
            directory: the host's directory.
            name: what the prompt shows.
            sudo: whether the one who has logged in may use it.
        """
        import psutil  # not needed, and slow to import, without a shell

        from embedded_cloud.machines.hosts.processes import read_record, same_process

        record = read_record(directory / "host.json")
        first = None if record is None else same_process(*record)
        if first is None:
            return None
        try:
            environment = first.environ()
            words = entering(first.pid, "user", "mnt")
        except (psutil.Error, OSError):
            return None
        environment["PS1"] = f"{name}:\\w\\$ "
        if not sudo:
            environment[NO_SUDO_VARIABLE] = "1"
        # Within: another mount namespace is entered at its root. Signals: a script's `… &` starts
        # the emulator with SIGINT ignored, which a shell and its commands would inherit (POSIX,
        # Shell Command Language, 2.11), and Ctrl-C would do nothing.
        home = ("env", "--default-signal", f"--chdir={environment['HOME']}")
        return cls((*words, *home, *_BASH), environment)

    @property
    def banner(self) -> bytes:
        """What is said first."""
        root = self.environment["TPUFLEX_ROOT"]
        return (
            "This is an emulated host: a shell of this machine, as you. The host's files are below"
            f" {root}.\r\n"
        ).encode()

    def words_of(self, command: str, *, terminal: bool = False) -> tuple[str, ...]:
        """The words that run ``command``; of a shell, where that is empty, which shows a prompt on
        a terminal."""
        if command:
            return (*self.words, "-c", command)
        return (*self.words, "-i") if terminal else self.words
