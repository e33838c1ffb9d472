"""Before a command makes or looks for anything: do the APIs that it needs answer?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.gcp.enabling import await_settled, ensure_apis
from tpuflex.gcp.required_apis import APIS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.gcp.required_apis import GoogleApi


def run_preflight(
    invocation: Invocation, cloud: Cloud, *, apis: Iterable[GoogleApi] = APIS
) -> None:
    """Enable ``apis``, those of a stack by default, in the project of ``cloud``, and wait until
    they answer.

    It comes before the engine, whose resources would meet APIs that know nothing of having been
    enabled, and before every look into the cloud. Enabling changes a project that others may use,
    so on Google, and in a rehearsal of that, it is asked for.

    Raises:
        InterruptedByUser: the user does not want them enabled.
        AccessError, ApiError: they cannot be enabled, or do not answer in time.
    """
    timing, output, stack = cloud.timing, invocation.output, cloud.stack
    project = stack.settings.project

    def agree(missing: Collection[GoogleApi]) -> None:
        names = ", ".join(api.name for api in missing)
        output.progress(f"APIs that are needed, and that are off in {project}: {names}.")
        if not invocation.yes and (stack.rehearsed or not stack.embedded):
            output.confirm("Enable them? They stay enabled; an API that is not used costs nothing.")

    if ensure_apis(cloud.apis(), project, timing, output.progress, agree, apis=apis):
        cloud.settling.begin(timing.monotonic())


def await_apis(invocation: Invocation, cloud: Cloud) -> None:
    """Wait for the APIs that a killed command may have enabled a moment ago; enable none.

    Raises:
        ServiceDisabledError: one that is enabled does not answer in time.
    """
    timing, project = cloud.timing, cloud.stack.settings.project
    if await_settled(cloud.apis(), project, timing, invocation.output.progress):
        cloud.settling.begin(timing.monotonic())
