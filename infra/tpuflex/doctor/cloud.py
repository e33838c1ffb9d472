"""The cloud of the stack that is examined, with clients that do not retry for long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tpuflex.google.apis import Apis, apis
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.reading import Unread, attempt
from tpuflex.google.session import AuthorizedSession, authorized_session
from tpuflex.google.transport import Transport

if TYPE_CHECKING:
    from tpuflex.google.transport import Api
    from tpuflex.stack.connection import Connection

T = TypeVar("T")
#: Connect and read timeouts of a call, in seconds.
_TIMEOUT = (5.0, 10.0)


class ExaminedCloud:
    """What the examinations of one stack ask. Each reading gets a client of its own: they run in
    threads side by side.

    Attributes:
        connection: the stack's cloud.
        settings: the stack's settings.
        project: id of its Google Cloud project.
        endpoints: addresses of Google's APIs.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.settings = connection.stack.settings
        self.project = self.settings.project
        self.endpoints = Endpoints.from_environ(connection.environ)

    @property
    def apis(self) -> Apis:
        """A client of each API that a stack uses."""
        return apis(self.endpoints, self.api)

    @property
    def manager(self) -> Api:
        """A client of Resource Manager."""
        return self.api(self.endpoints.resourcemanager)

    def api(self, base_url: str) -> Api:
        """A client of the API at ``base_url``, also one that was just enabled and does not answer
        yet."""
        timing = self.connection.timing
        return Transport(self.session(), base_url, timing, timeout=_TIMEOUT, retries=False)

    def session(self) -> AuthorizedSession:
        """A session with the caller's credential."""
        return authorized_session(self.endpoints, self.connection.environ, self.project)

    def attempt(self, service: str, read: Callable[[], T], remedy: str = "") -> T | Unread:
        """As :func:`tpuflex.google.reading.attempt`, for a ``service`` of the stack's project."""
        return attempt(read, remedy, service=service, project=self.project)
