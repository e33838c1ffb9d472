"""Before a command makes anything: do the APIs that it needs answer?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.gcp.apis import ensure_apis

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.output import Output


def run_preflight(cloud: Cloud, output: Output) -> None:
    """Enable the APIs that the stack of ``cloud`` needs, and wait until they answer.

    It comes before the engine, whose resources would meet APIs that know nothing of having been
    enabled, and before every look into the cloud.

    Raises:
        AccessError, ApiError: they cannot be enabled, or do not answer in time.
    """
    timing = cloud.timing
    project = cloud.stack.settings.project
    if ensure_apis(cloud.apis(), project, timing, output.progress):
        cloud.settling.begin(timing.monotonic())
