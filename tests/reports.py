"""What functions tell while they work, for tests that read the lines of it."""

from __future__ import annotations

from tpuflex.cli.invocation import Invocation
from tpuflex.stack.progress import Consent, Progress, Report


def lines_to(said: list[str]) -> Report:
    """A callback that keeps the lines in ``said``, and nothing else."""

    def told(progress: Progress) -> None:
        if isinstance(progress, str):
            said.append(progress)

    return told


def asked(invocation: Invocation) -> tuple[Report, Consent]:
    """The callbacks of a command."""
    return invocation.report, invocation.consent
