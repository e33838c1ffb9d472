"""Pulumi's own SDK with listeners that open to the engine's user only.

Every port of the engine is opened in its module ``sdk/v3``, on loopback and for every user of the
machine. Before the build, a copy of that module gets :data:`OWNERS_LISTENER`, and its calls of
``net.Listen`` go there (docs/adr/0019-engine-for-its-owner.md).
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path

from tpuflex.engine import late_tables
from tpuflex.engine.changed_module import Change, change
from tpuflex.errors import EngineError

SDK = "github.com/pulumi/pulumi/sdk/v3"
#: The listener, the package of one file that is added to the SDK.
OWNERS_LISTENER = Path(__file__).parent / "owneronly" / "owneronly.go"

_PACKAGE = f"{SDK}/go/common/util/owneronly"
_ANY_PORT = 'net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 0})'
_OWNERS_ANY_PORT = 'owneronly.Listen("tcp", "127.0.0.1:0")'
_LISTENS = re.compile(r"\bnet\.(?:Listen\w*|FileListener)\(|\bListenAndServe\w*\(|\bListenConfig\b")
_CLAUSE = re.compile(r"^package \w+$", re.MULTILINE)


#: Of SDK 3.256.0, in its ``go/common/util``.
CHANGES = (
    Change(
        "rpcutil/serve.go",
        'net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))',
        'owneronly.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))',
    ),
    Change("rpcutil/serve.go", "tcpl := lis.(*net.TCPListener)", "tcpl := lis"),
    Change("otelreceiver/receiver.go", 'net.Listen("tcp", addr)', 'owneronly.Listen("tcp", addr)'),
    Change("otelreceiver/appdash_bridge.go", _ANY_PORT, _OWNERS_ANY_PORT),
    Change("otelreceiver/appdash_bridge.go", "*net.TCPListener", "net.Listener"),
    Change("cmdutil/trace.go", _ANY_PORT, _OWNERS_ANY_PORT),
    Change(
        "cmdutil/profile_unix.go",
        'net.Listen("tcp", "localhost:0")',
        'owneronly.Listen("tcp", "localhost:0")',
    ),
)

#: Files that may listen: the listener itself, and one that only tries which port is free.
_MAY_LISTEN = frozenset(
    {"go/common/util/owneronly/owneronly.go", "go/pulumi-internal/netutil/netutil.go"}
)


def applies() -> bool:
    """Whether this system tells whose a connection is; elsewhere the engine is as published."""
    return sys.platform == "linux"


def recipe(lock: Path) -> str:
    """Twelve hexadecimal digits that are different for an engine built in another way."""
    digest = hashlib.sha256(repr((applies(), CHANGES, late_tables.MODULES)).encode())
    for file in (lock / "go.mod", lock / "go.sum", OWNERS_LISTENER):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def close_to_others(sdk: Path) -> None:
    """Change the SDK in directory ``sdk``.

    Raises:
        EngineError: it is not the one that the changes are for, or listens in another place, too.
    """
    util = sdk / "go" / "common" / "util"
    for file in change(SDK, util, CHANGES, _HINT):
        importing = rf'\g<0>\n\nimport "{_PACKAGE}"'
        file.write_text(_CLAUSE.sub(importing, file.read_text("utf-8"), count=1), "utf-8")
    (util / "owneronly").mkdir()
    shutil.copy(OWNERS_LISTENER, util / "owneronly")
    listening = [name for name in _listening(sdk) if name not in _MAY_LISTEN]
    if listening:
        where = ", ".join(listening)
        raise EngineError(f"{SDK} opens ports to every user in {where}.", hint=_HINT)


_HINT = (
    "This tpuflex cannot close the ports of that SDK to other users; docs/adr/"
    "0019-engine-for-its-owner.md says how its table is brought up to date."
)


def _listening(sdk: Path) -> list[str]:
    sources = sorted(path for path in sdk.rglob("*.go") if not path.name.endswith("_test.go"))
    return [
        path.relative_to(sdk).as_posix()
        for path in sources
        if _LISTENS.search(path.read_text("utf-8"))
    ]
