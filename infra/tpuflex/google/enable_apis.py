"""Enabling the APIs of Google that an endpoint needs, and waiting until they answer.

An API that was enabled a moment ago goes on refusing with 403 SERVICE_DISABLED for one to five
minutes ("If you enabled this API recently, wait a few minutes for the action to propagate to our
systems and retry"), while Service Usage calls it ENABLED already. So each is asked for something
harmless until it answers: https://cloud.google.com/service-usage/docs/enable-disable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from tpuflex import gcloud_commands, known_messages
from tpuflex.codes import Code
from tpuflex.errors import (
    AccessError,
    ApiError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.api_states import ask_api, enabled_services, serving_apis
from tpuflex.google.required_apis import APIS, GoogleApi
from tpuflex.google.timing import SETTLED_AFTER

if TYPE_CHECKING:
    from tpuflex.google.apis import Apis
    from tpuflex.google.timing import Timing
    from tpuflex.google.transport import JsonObject

#: Pauses between two questions to an API that does not answer yet, in seconds.
_SHORTEST, _LONGEST = 2.0, 10.0
_SERVICE_USAGE = "serviceusage.googleapis.com"
#: The role that may enable APIs: https://cloud.google.com/service-usage/docs/access-control.
_ENABLING_ROLE = "roles/serviceusage.serviceUsageAdmin"


def ensure_apis(
    clients: Apis,
    project: str,
    timing: Timing,
    say: Callable[[str], None],
    agree: Callable[[Collection[GoogleApi]], None],
    *,
    apis: Iterable[GoogleApi] = APIS,
    within: float = SETTLED_AFTER,
) -> bool:
    """Enable what of ``apis`` is not enabled in ``project``, and wait until all of them answer.

    Args:
        clients: clients of the APIs.
        project: Google Cloud project id.
        timing: clock and pauses.
        say: takes a line of progress.
        agree: takes what will be enabled, before it is; raises what forbids it.
        apis: what is needed.
        within: seconds that enabling, and then waiting, may take.

    Returns:
        Whether anything was not as it should be. What was enabled a moment ago answers now, and
        may refuse once more from another of Google's machines.

    Raises:
        AccessError: the caller may not enable APIs, or the project has no billing.
        ServiceDisabledError: Service Usage is off itself, or an API does not answer in time.
        ApiError: Service Usage refuses for another reason, or does not answer.
    """
    listed = [*apis]
    missing = _missing(clients, project, listed)
    if missing:
        agree(missing)
        say(f"Enabling {_counted(missing)} in project {project} …")
        _enable(clients, project, missing, timing, within)
    waited = _await_answers(clients, project, listed, timing, say, within)
    return bool(missing) or waited


def await_settled(
    clients: Apis,
    project: str,
    timing: Timing,
    say: Callable[[str], None],
    *,
    apis: Iterable[GoogleApi] = APIS,
) -> bool:
    """Wait until those of ``apis`` that are enabled in ``project`` answer; enables none.

    For commands that come after one that was killed: it may have enabled them a moment before.
    Nothing is waited for where it cannot be read what is enabled.

    Args:
        clients: clients of the APIs.
        project: Google Cloud project id.
        timing: clock and pauses.
        say: takes a line of progress.
        apis: what is needed.

    Returns:
        Whether any of them did not answer at first.

    Raises:
        ServiceDisabledError: an API does not answer in time.
    """
    silent = _silent(clients, project, [*apis])
    if not silent:
        return False
    try:
        enabled = enabled_services(clients, project)
    except (AccessError, ApiError):
        return False
    settling = [api for api in silent if api.service in enabled]
    return _await_answers(clients, project, settling, timing, say, SETTLED_AFTER)


def _missing(clients: Apis, project: str, apis: Collection[GoogleApi]) -> list[GoogleApi]:
    """Those that are not enabled.

    Raises:
        ServiceDisabledError: Service Usage, which enables the others, is not.
    """
    try:
        enabled = enabled_services(clients, project)
    except ServiceDisabledError as error:
        raise _not_even_service_usage(project, error) from error
    except AccessError:
        # Who may not read what is enabled can still see which APIs refuse.
        serving = serving_apis(clients, project, apis)
        return [api for api in apis if serving[api] is False]
    # It has just answered, listed or not: it is asked in the project that quota is taken from.
    enabled |= {_SERVICE_USAGE}
    return [api for api in apis if api.service not in enabled]


def _enable(
    clients: Apis, project: str, missing: Collection[GoogleApi], timing: Timing, within: float
) -> None:
    """Enable ``missing``, all in one call."""
    give_up = timing.monotonic() + within
    usage, parent = clients.serviceusage, f"/v1/projects/{project}"
    body: JsonObject = {"serviceIds": [api.service for api in missing]}
    try:
        operation = usage.call("POST", f"{parent}/services:batchEnable", body=body)
        while not operation.get("done"):
            if timing.monotonic() >= give_up:
                raise _late(project, missing, within, "Service Usage is still enabling them")
            timing.pause(_SHORTEST)
            operation = usage.call("GET", f"/v1/{operation['name']}")
    except ServiceDisabledError as error:
        raise _not_even_service_usage(project, error) from error
    except (AccessError, ApiError) as error:
        raise _refused(project, missing, error) from error
    failure = operation.get("error")
    if isinstance(failure, dict):
        raise _refused(project, missing, ApiError(str(failure.get("message"))))


def _await_answers(
    clients: Apis,
    project: str,
    apis: Collection[GoogleApi],
    timing: Timing,
    say: Callable[[str], None],
    within: float,
) -> bool:
    """Wait until none of ``apis`` says SERVICE_DISABLED; whether that took any time."""
    began = timing.monotonic()
    silent = _silent(clients, project, apis)
    if not silent:
        return False
    say(
        f"Waiting for {_counted(silent)} to answer, as it takes a few minutes after they were"
        f" enabled: {_names(silent)}."
    )
    pause = _SHORTEST
    while silent:
        if timing.monotonic() - began >= within:
            raise _late(project, silent, within, _refusal(clients, project, silent[0]))
        timing.pause(pause)
        pause = min(_LONGEST, pause * 1.5)
        still = _silent(clients, project, silent)
        answering = [api for api in silent if api not in still]
        if answering:
            age = round(timing.monotonic() - began)
            say(f"  answers  {_names(answering)} (after {age} s)")
        silent = still
    return True


def _refusal(clients: Apis, project: str, api: GoogleApi) -> str:
    """What an API refuses with: it names the project that is charged, which need not be ours."""
    try:
        if api.question is not None:
            ask_api(clients, project, api.question)
    except TpuflexError as error:
        return error.message
    return f"{api.name} answers now"


def _silent(clients: Apis, project: str, apis: Collection[GoogleApi]) -> list[GoogleApi]:
    serving = serving_apis(clients, project, apis)
    return [api for api in apis if serving[api] is False]


def _refused(
    project: str, missing: Collection[GoogleApi], error: AccessError | ApiError
) -> TpuflexError:
    """The error for APIs that could not be enabled, by who has to act."""
    text = f"{_counted(missing)} cannot be enabled in project {project}: {error.message}"
    enable = gcloud_commands.enable_services(project, *(api.service for api in missing))
    if known_messages.ABOUT_BILLING.search(error.message):
        billing = gcloud_commands.link_billing(project, "ACCOUNT_ID")
        return AccessError(
            text,
            code=Code.PERMISSION,
            hint=f"Give the project a billing account: {billing}\n"
            f"Yours are listed by: {gcloud_commands.billing_accounts()}",
        )
    if isinstance(error, AccessError):
        return AccessError(
            text,
            code=Code.PERMISSION,
            hint=f"Somebody with {_ENABLING_ROLE} has to run: {enable}",
        )
    if error.passing and error.status:
        return ApiError(text, status=error.status, hint="Run it again.")
    return ApiError(text, status=error.status, reason=error.reason, hint=f"Or by hand: {enable}")


def _not_even_service_usage(project: str, error: TpuflexError) -> ServiceDisabledError:
    """The error for a project in which no API can be enabled through the API."""
    services = (_SERVICE_USAGE, "cloudresourcemanager.googleapis.com")
    return ServiceDisabledError(
        f"Service Usage, which enables the other APIs, is not enabled itself: {error.message}",
        code=Code.PERMISSION,
        hint=f"Run: {gcloud_commands.enable_services(project, *services)}\n"
        "If that was done a moment ago, try again in a few minutes.",
    )


def _late(
    project: str, silent: Collection[GoogleApi], within: float, why: str
) -> ServiceDisabledError:
    services = gcloud_commands.enabled_services(project)
    return ServiceDisabledError(
        f"{_counted(silent)} of project {project} did not answer within {within / 60:.0f} minutes"
        f" after being enabled: {_names(silent)} ({why})",
        code=Code.PERMISSION,
        hint=f"Run it again: it goes on waiting. What is enabled: {services}",
    )


def _names(apis: Iterable[GoogleApi]) -> str:
    return ", ".join(api.name for api in apis)


def _counted(apis: Collection[GoogleApi]) -> str:
    return "1 API" if len(apis) == 1 else f"{len(apis)} APIs"
