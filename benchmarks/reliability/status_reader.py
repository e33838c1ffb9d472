"""What `tpuflex status` and `tpuflex ask` read, without a process for each reading."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING

from tpuflex.cli.cloud import Cloud, connect_running
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.steps.ask import api_key, serving_slice
from tpuflex.operate.slice import SliceStatus
from tpuflex.operate.status import slice_status

if TYPE_CHECKING:
    from reliability.renewal_rig import RenewalRig


class StatusReader:
    """Reads as the commands do, from any thread.

    Args:
        rig: whose stack it is.
    """

    def __init__(self, rig: RenewalRig) -> None:
        self._rig = rig
        self._one_at_a_time = threading.Lock()

    @cached_property
    def _invocation(self) -> Invocation:
        return Invocation(environ=self._rig.environ(), directory=self._rig.home)

    @cached_property
    def cloud(self) -> Cloud:
        """The stack's cloud."""
        return connect_running(self._invocation, self._invocation.open_stack(deploying=False))

    @cached_property
    def key(self) -> str:
        """The endpoint's key."""
        return api_key(self.cloud)

    @cached_property
    def model(self) -> str:
        """Name of the model that is served."""
        return self.cloud.stack.settings.model.name

    def status(self) -> SliceStatus:
        """What `tpuflex --json status` reads."""
        with self._one_at_a_time:
            stack = self.cloud.stack
            return slice_status(
                stack.settings,
                stack.names,
                self.cloud.tpu,
                now=self._invocation.now(),
                recorded=self.cloud.recorded_zones,
            )

    def endpoint(self) -> str:
        """The `endpoint` that it names, if it says `ready`; empty otherwise."""
        status = self.status()
        return self.cloud.stack.settings.url(status.address) if status.ready else ""

    def asked(self) -> str:
        """The endpoint that `tpuflex ask` asks."""
        with self._one_at_a_time:
            return self.cloud.stack.settings.url(serving_slice(self.cloud).address)
