"""``python namespace.py PLAN COMMAND…``: become COMMAND in a mount namespace of its own.

PLAN is a :class:`Plan` as JSON. Mounts are the kernel's (mount_namespaces(7)), are seen by COMMAND
and what it starts, and are gone with them. A user who is not root enters a user namespace, too,
which some systems forbid; :func:`refusal` says whether this one does.

Run by path, without importing the package, so that hosts and containers start quickly.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = (
    *(0x1, 0x2, 0x4, 0x8, 0x20, 0x1000, 0x4000),
    0x40000,
)
_NOATIME, _NODIRATIME = 0x400, 0x800
_MNT_DETACH = 0x2
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
#: Flags of a mount that only its owner may take away; statvfs(3) has the same numbers for them.
_KEPT = _NOSUID | _NODEV | _NOEXEC | _NOATIME | _NODIRATIME
_OLD_ROOT = ".old-root"
#: A directory that every Linux has.
SHARED_MEMORY = "/dev/shm"  # noqa: S108
_CANNOT_START = 125
#: Of nsenter(1).
_FLAGS = {"user": "--user", "mnt": "--mount", "net": "--net"}
#: By which a host tells its docker that containers have mounts of their own.
OWN_MOUNTS_VARIABLE = "TPUFLEX_OWN_MOUNTS"


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or directory that is seen at another place.

    Attributes:
        source: where it is.
        target: where it is seen; made where it is not there.
        read_only: whether nothing can be written through it.
    """

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What the namespace has.

    Attributes:
        memory: size in bytes of an empty file system in memory, by the directory that it covers.
        hidden: directories that are empty within, but for what is bound there.
        binds: what is seen at another place. With any of these two, there is a root of its own.
        working_directory: where COMMAND starts; empty for where it is called.
    """

    memory: dict[str, int] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    binds: tuple[Bind, ...] = ()
    working_directory: str = ""

    def command(self, command: Sequence[str]) -> list[str]:
        """What runs ``command`` with this plan."""
        return [sys.executable, "-I", "-S", __file__, json.dumps(asdict(self)), *command]

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan of :meth:`command`."""
        document = json.loads(text)
        binds = tuple(Bind(**each) for each in document.pop("binds"))
        return cls(**{**document, "hidden": tuple(document["hidden"]), "binds": binds})


@cache
def refusal() -> str:
    """Why this machine lets its user have no mount namespaces; empty if it does."""
    import tempfile  # only here: with it, a container starts later

    with tempfile.TemporaryDirectory() as directory:
        bind = Bind(directory, f"{directory}/of/another/name", read_only=True)
        plan = Plan({SHARED_MEMORY: 4096}, (directory,), (bind,))
        tried = subprocess.run(plan.command(["true"]), capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else tried.stderr.strip()[-300:] or "it does not work"


def enter() -> None:
    """Leave the machine's mounts for a copy of them.

    Raises:
        OSError: the system does not allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", _CLONE_NEWNS if uid == 0 else _CLONE_NEWNS | _CLONE_NEWUSER)
    if uid != 0:
        for name, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            Path("/proc/self", name).write_text(line, encoding="ascii")
    _mount("none", "/", flags=_REC | _PRIVATE)


def apply(plan: Plan) -> None:
    """Mount what ``plan`` says.

    Raises:
        OSError: something is not there, or the system does not allow it.
    """
    sources = [os.open(bind.source, os.O_PATH) for bind in plan.binds]
    if plan.hidden or plan.binds:
        tree = _Tree()
        for path in plan.hidden:
            tree.cover(path)
        for source, bind in zip(sources, plan.binds, strict=True):
            tree.bind(f"/proc/self/fd/{source}", bind.target, read_only=bind.read_only)
        tree.close()
    for path, size in plan.memory.items():
        mode = "1777" if path == SHARED_MEMORY else "0700"
        _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV | _NOEXEC, f"size={size},mode={mode}")
    for source in sources:
        os.close(source)


class _Tree:
    """A root of its own: what is in the machine's, and places that can be made without touching
    the machine."""

    def __init__(self) -> None:
        self._own: set[int] = set()
        # Anywhere but at the top: what is mounted there is shown, instead of what it covers.
        scratch = SHARED_MEMORY
        self._mirror("/", scratch)
        old = f"{scratch}/{_OLD_ROOT}"
        Path(old).mkdir()
        _pivot_root(scratch, old)
        os.chdir("/")
        # What was shown of the directory that the root was made in is the root.
        _call("umount2", scratch.encode(), _MNT_DETACH)

    def cover(self, path: str) -> None:
        """Let ``path`` be an empty directory."""
        _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, "mode=0755")
        self._own.add(Path(path).stat().st_dev)

    def bind(self, source: str, target: str, *, read_only: bool = False) -> None:
        """Let ``source`` be seen at ``target``."""
        self._place(Path(target), is_directory=Path(source).is_dir())
        _mount(source, target, flags=_BIND | _REC)
        if read_only:
            kept = os.statvfs(target).f_flag & _KEPT
            _mount("none", target, flags=_REMOUNT | _BIND | _RDONLY | kept)

    def close(self) -> None:
        """Let go of the machine's root."""
        _call("umount2", f"/{_OLD_ROOT}".encode(), _MNT_DETACH)
        Path("/", _OLD_ROOT).rmdir()

    def _place(self, path: Path, *, is_directory: bool) -> None:
        if path.exists():
            return
        there = next(parent for parent in path.parents if parent.exists())
        if there.stat().st_dev not in self._own:
            self._mirror(str(there), str(there))
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_directory:
            path.mkdir()
        else:
            path.touch()

    def _mirror(self, source: str, target: str) -> None:
        """Cover ``target``, and show there what is in ``source``."""
        shown = os.open(source, os.O_PATH)
        entries = list(os.scandir(f"/proc/self/fd/{shown}"))
        kinds = {each.name: each.stat(follow_symlinks=False).st_mode for each in entries}
        links = {each.name: Path(each).readlink() for each in entries if each.is_symlink()}
        self.cover(target)
        for name, mode in kinds.items():
            place = Path(target, name)
            if name in links:
                place.symlink_to(links[name])
                continue
            if stat.S_ISDIR(mode):
                place.mkdir()
            else:
                place.touch()
            _mount(f"/proc/self/fd/{shown}/{name}", str(place), flags=_BIND | _REC)
        os.close(shown)


def _mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    words = (source.encode(), target.encode(), kind.encode() or None)
    _call("mount", *words, ctypes.c_ulong(flags), data.encode() or None, named=target)


def _pivot_root(new: str, old: str) -> None:
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"no mount namespaces on {os.uname().machine} here")
    _call("syscall", number, new.encode(), old.encode())


def _call(name: str, *arguments: object, named: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name} {named}: {os.strerror(error)}")


def entering(pid: int, *kinds: str) -> tuple[str, ...]:
    """What runs a command in the namespaces of the process ``pid``: those of ``kinds`` (``user``,
    ``mnt``, ``net``) that are not this process's own.

    Raises:
        OSError: there is no such process.
    """
    flags = [
        _FLAGS[kind]
        for kind in kinds
        if not Path(f"/proc/{pid}/ns/{kind}").samefile(f"/proc/self/ns/{kind}")
    ]
    keep = ["--preserve-credentials"] if _FLAGS["user"] in flags else []
    return ("nsenter", f"--target={pid}", *flags, *keep) if flags else ()


def main(arguments: Sequence[str]) -> int:
    """Become the command; 125 where there is no such namespace."""
    plan, *command = arguments
    try:
        read = Plan.from_json(plan)
        enter()
        apply(read)
        if read.working_directory:
            os.chdir(read.working_directory)
    except (OSError, AttributeError) as error:
        sys.stderr.write(f"no mount namespace: {getattr(error, 'strerror', None) or error}\n")
        return _CANNOT_START
    try:
        os.execvp(command[0], command)  # noqa: S606  # nosec B606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"exec {command[0]}: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
