"""How each API that an endpoint needs stands in a project: whether it is enabled, and answers.

Service Usage calls an API ENABLED minutes before that answers, and may be read by fewer people. So
each is asked for something harmless, too: see :mod:`tpuflex.google.enable_apis`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import TYPE_CHECKING

from tpuflex.errors import (
    AccessError,
    ApiError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
    UnauthenticatedError,
)
from tpuflex.google.paging import objects, pages
from tpuflex.google.required_apis import APIS, GoogleApi, Question

if TYPE_CHECKING:
    from tpuflex.google.apis import Apis

#: Seconds for the retries of one question: who waits for an API asks it again anyway.
_BUDGET = 15.0
_AT_ONCE = 8


class ApiState(Enum):
    """How an API stands in a project."""

    ANSWERS = "answers"
    ENABLED = "enabled"  # as Service Usage says; nothing to ask it
    SETTLING = "enabled, and does not answer yet"
    DISABLED = "not enabled"
    UNKNOWN = "unknown"


def api_states(
    clients: Apis, project: str, apis: Iterable[GoogleApi] = APIS
) -> dict[GoogleApi, ApiState]:
    """How each of ``apis`` stands in ``project``; changes nothing.

    What may not be read, or does not answer at all, is UNKNOWN.
    """
    listed = [*apis]
    try:
        enabled = enabled_services(clients, project)
    except (AccessError, ApiError, NotFoundError):
        enabled = None
    serving = serving_apis(clients, project, listed)
    return {api: _state(api, serving[api], enabled) for api in listed}


def enabled_services(clients: Apis, project: str) -> frozenset[str]:
    """Names of the services that are enabled in ``project``."""
    query = {"filter": "state:ENABLED", "pageSize": "200"}
    listed = pages(clients.serviceusage, f"/v1/projects/{project}/services", query)
    found = (item for page in listed for item in objects(page, "services"))
    return frozenset(str(item.get("name")).rpartition("/")[2] for item in found)


def serving_apis(
    clients: Apis, project: str, apis: Collection[GoogleApi]
) -> dict[GoogleApi, bool | None]:
    """Whether each of ``apis`` serves; None for one that has no question, or gives no answer."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = pool.map(lambda api: _serves(clients, project, api), apis)
        return dict(zip(apis, answers, strict=True))


def ask_api(clients: Apis, project: str, question: Question) -> None:
    """Ask an API ``question``.

    Raises:
        TpuflexError: what it refuses with.
    """
    path = question.path.format(project=project)
    query = {key: text.format(project=project) for key, text in question.query}
    getattr(clients, question.client).call("GET", path, query=query, budget=_BUDGET)


def _state(api: GoogleApi, serves: bool | None, enabled: Collection[str] | None) -> ApiState:
    if serves:
        return ApiState.ANSWERS
    if enabled is None:
        return ApiState.DISABLED if serves is False else ApiState.UNKNOWN
    if api.service not in enabled:
        return ApiState.DISABLED
    if serves is False:
        return ApiState.SETTLING
    return ApiState.UNKNOWN if api.question else ApiState.ENABLED


def _serves(clients: Apis, project: str, api: GoogleApi) -> bool | None:
    if api.question is None:
        return None
    try:
        ask_api(clients, project, api.question)
    except ServiceDisabledError:
        return False
    except UnauthenticatedError:
        return None  # said before the API is looked for
    except ApiError as error:
        return None if error.passing else True
    except TpuflexError:
        return True  # forbidden, or not found: said by an API that serves
    return True
