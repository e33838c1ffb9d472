"""Another user of this machine, who tries what listens on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import pytest

#: nobody.
STRANGER = 65_534

needs_second_uid = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can run a program as a second user"
)


@cache
def strangers_python() -> str:
    """A Python of this version that a second user may run; the test is skipped if there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            subprocess.run(
                [candidate, "-I", "-c", ""], user=STRANGER, cwd="/", check=True, timeout=60
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return candidate
    pytest.skip(f"a second user may run no {version} (its directory is closed to others)")


def start_as_stranger(program: str, *arguments: str, user: int = STRANGER) -> subprocess.Popen[str]:
    """``program``, in Python with this environment's packages, run by another user."""
    packages = Path(grpc.__file__).parents[1]
    return subprocess.Popen(
        [
            strangers_python(),
            "-I",
            "-c",
            f"import sys; sys.path.append({str(packages)!r})\n{program}",
            *arguments,
        ],
        user=user,
        group=user,
        extra_groups=(),
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def as_stranger(program: str, *arguments: str, user: int = STRANGER) -> Any:
    """The JSON document that ``program`` prints when another user runs it."""
    with start_as_stranger(program, *arguments, user=user) as process:
        printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return json.loads(printed)


#: Asks each (address, port) of a JSON list in argv over plain HTTP/1.1, as argv's second JSON list
#: of [method, path, headers] says; prints [[status, body], …] in that order. 0: no answer.
HTTP = """
import http.client, json, socket, sys
answers = []
for (address, port) in json.loads(sys.argv[1]):
    for (method, path, headers) in json.loads(sys.argv[2]):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            plain = socket.socket(family); plain.settimeout(10); plain.connect((address, port))
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.sock = plain
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            # After 200 to CONNECT there is no body: the server waits for what comes in the tunnel.
            opened = method == "CONNECT" and answer.status == 200
            body = b"" if opened else answer.read(2000)
            answers.append([answer.status, body.decode(errors="replace")])
        except (OSError, http.client.HTTPException):
            answers.append([0, ""])
        finally:
            plain.close()
print(json.dumps(answers))
"""


def ask_http(
    ends: Sequence[tuple[str, int]],
    requests: Sequence[tuple[str, str, dict[str, str]]],
    *,
    user: int = STRANGER,
) -> list[tuple[int, str]]:
    """What ``user`` is answered: (status, body), for each request at each end."""
    answers = as_stranger(HTTP, json.dumps(ends), json.dumps(requests), user=user)
    return [(status, body) for status, body in answers]


#: Calls every method of a JSON list over gRPC at each address; prints the codes.
GRPC = """
import json, sys
import grpc
codes = []
for address in json.loads(sys.argv[1]):
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        for method in json.loads(sys.argv[2]):
            try:
                channel.unary_unary(method)(b"", timeout=20)
                codes.append("OK")
            except grpc.RpcError as error:
                codes.append(error.code().name)
print(json.dumps(codes))
"""


def ask_grpc(
    addresses: Sequence[str], methods: Sequence[str], *, user: int = STRANGER
) -> list[str]:
    """The status codes that ``user`` gets of each method at each address."""
    codes: list[str] = as_stranger(GRPC, json.dumps(addresses), json.dumps(methods), user=user)
    return codes


def spellings(port: int, address: str = "127.0.0.1") -> list[tuple[str, int]]:
    """A loopback address of IPv4, plain and mapped to IPv6."""
    return [(address, port), (f"::ffff:{address}", port)]


def grpc_spellings(port: int) -> list[str]:
    """The same, as gRPC names them."""
    return [f"ipv4:127.0.0.1:{port}", f"ipv6:[::ffff:127.0.0.1]:{port}"]
