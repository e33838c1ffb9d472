"""The cloud that is examined, with clients that do not retry for long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from tpuflex.google.apis import Apis, apis
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.reading import Unread, attempt
from tpuflex.google.session import AuthorizedSession, authorized_session
from tpuflex.google.timing import Timing
from tpuflex.google.transport import Transport

if TYPE_CHECKING:
    from tpuflex.google.transport import Api
    from tpuflex.stack.connection import Connection

T = TypeVar("T")
#: Connect and read timeouts of a call, in seconds.
_TIMEOUT = (5.0, 10.0)


class ProjectCloud:
    """A Google Cloud project, of which no stack need be there.

    Args:
        project: its id.
        environ: the environment, which names credentials and endpoints.
        timing: clocks and pauses; those that ``environ`` asks for by default.

    Attributes:
        project: its id.
        endpoints: addresses of Google's APIs.

    Raises:
        SettingsError: ``environ`` names an endpoint that may not be asked.
    """

    def __init__(
        self, project: str, environ: Mapping[str, str], timing: Timing | None = None
    ) -> None:
        self.project = project
        self.endpoints = Endpoints.from_environ(environ)
        self._environ = environ
        self._timing = timing or Timing.of_environment(environ, Event())

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
        return Transport(self.session(), base_url, self._timing, timeout=_TIMEOUT, retries=False)

    def session(self) -> AuthorizedSession:
        """A session with the caller's credential."""
        return authorized_session(self.endpoints, self._environ, self.project)

    def attempt(self, service: str, read: Callable[[], T], remedy: str = "") -> T | Unread:
        """As :func:`tpuflex.google.reading.attempt`, for a ``service`` of the project."""
        return attempt(read, remedy, service=service, project=self.project)


class ExaminedCloud(ProjectCloud):
    """What the examinations of one stack ask. Each reading gets a client of its own: they run in
    threads side by side.

    Attributes:
        connection: the stack's cloud.
        settings: the stack's settings.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.settings = connection.stack.settings
        super().__init__(self.settings.project, connection.environ, connection.timing)
