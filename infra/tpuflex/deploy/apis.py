"""Before a command makes or looks for anything: do the APIs that it needs answer?"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tpuflex.codes import Code
from tpuflex.errors import ServiceDisabledError
from tpuflex.gcloud_commands import enable_services
from tpuflex.google.enable_apis import await_settled, ensure_apis
from tpuflex.google.required_apis import needed_apis
from tpuflex.stack.progress import require_consent, working

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tpuflex.google.required_apis import GoogleApi
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Consent, Report


def require_apis(
    cloud: Connection,
    report: Report,
    consent: Consent,
    *,
    apis: Iterable[GoogleApi] | None = None,
) -> None:
    """Enable ``apis``, those of a stack by default, in the project of ``cloud``, and wait until
    they answer.

    It comes before the engine, whose resources would meet APIs that know nothing of having been
    enabled, and before every look into the cloud. Enabling changes a project that others may use,
    so on Google, and in a rehearsal of that, it is asked for. With `manage_apis: false` none is
    enabled.

    Raises:
        ServiceDisabledError: one is off, and others enable them.
        InterruptedByUser: the user does not want them enabled.
        AccessError, ApiError: they cannot be enabled, or do not answer in time.
    """
    timing, stack = cloud.timing, cloud.stack
    project = stack.settings.project

    def agree(missing: Collection[GoogleApi]) -> None:
        names = ", ".join(api.name for api in missing)
        if not stack.settings.manage_apis:
            enable = enable_services(project, *(api.service for api in missing))
            raise ServiceDisabledError(
                f"APIs that are needed are off in {project}: {names}; and tpuflex:manage_apis is"
                " false, so none is enabled. Nothing was made.",
                code=Code.PERMISSION,
                hint=f"Run: {enable}",
            )
        report(f"APIs that are needed, and that are off in {project}: {names}.")
        if stack.rehearsed or not stack.embedded:
            question = "Enable them? They stay enabled; an API that is not used costs nothing."
            require_consent(consent, question)

    needed = needed_apis(stack.settings) if apis is None else apis
    with ExitStack() as waiting:

        def say(line: str) -> None:
            waiting.close()
            report(line)
            waiting.enter_context(working(report, "Waiting for APIs"))

        if ensure_apis(cloud.apis(), project, timing, say, agree, apis=needed):
            cloud.settling.begin(timing.monotonic())


def await_apis(cloud: Connection, report: Report) -> None:
    """Wait for the APIs that a killed command may have enabled a moment ago; enable none.

    Raises:
        ServiceDisabledError: one that is enabled does not answer in time.
    """
    timing, project = cloud.timing, cloud.stack.settings.project
    if await_settled(cloud.apis(), project, timing, report):
        cloud.settling.begin(timing.monotonic())
