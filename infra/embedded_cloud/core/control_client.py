"""Calls of the control API by the user's own processes.

The token goes only to a process of this user: the address may be one that a killed emulator left
behind, and its port may have passed to another user since.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path

from embedded_cloud.core.access import read_token
from embedded_cloud.core.json_types import JsonObject
from pulumi_plugin.peer import require_owner
from tpuflex.errors import EmulatorError

_HOST = "127.0.0.1"


class OwnersConnection(http.client.HTTPConnection):
    """A connection to a process of this user.

    Raises:
        OSError: when connecting: nobody listens there, or another user does.
    """

    def connect(self) -> None:
        """Connect, and see whose process has accepted."""
        super().connect()
        try:
            require_owner(self.sock, within=self.timeout or 0.0)
        except OSError:
            self.close()
            raise


def call(
    state_dir: Path,
    port: int,
    method: str,
    action: str,
    body: JsonObject | None = None,
    *,
    timeout_s: float,
) -> JsonObject:
    """Call the control API of the emulator of ``state_dir``.

    Args:
        state_dir: the emulator's state directory, which has its token.
        port: where it listens.
        method: HTTP method.
        action: such as ``clock``.
        body: what is sent as JSON.
        timeout_s: how long the connection, and each part of the answer, may take.

    Raises:
        EmulatorError: it refused the call, or there is no token.
        OSError, HTTPException, ValueError: it does not answer, or not as it should.
    """
    connection = OwnersConnection(_HOST, port, timeout=timeout_s)
    headers = {
        "Authorization": f"Bearer {read_token(state_dir)}",
        "Content-Type": "application/json",
    }
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, f"/_emulator/{action}", body=payload, headers=headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise ValueError("the answer is not a JSON object")
    if response.status != 200:
        error = answer.get("error")
        message = error.get("message") if isinstance(error, dict) else None
        raise EmulatorError(str(message or f"HTTP {response.status}"))
    return answer
