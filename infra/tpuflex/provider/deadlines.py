"""How long each part of getting a slice may take, apart from one another.

A wait in the queue costs nothing and may last for days; hosts that are made, or deleted, and do
not come to an end are a fault. One deadline for all would fit none of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tpuflex.request.provider_options import CapacityArgs, seconds


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The limits of one engine call, in seconds.

    Attributes:
        queue: in the queue.
        provisioning: from the grant until the hosts run.
        deletion: until something is gone.
        overall: all together; what `custom_timeouts` says, and no limit where it says nothing.
    """

    queue: float
    provisioning: float
    deletion: float
    overall: float = math.inf

    @classmethod
    def of(cls, args: CapacityArgs, timeout: float) -> Deadlines:
        """What ``args`` say, within the engine's ``timeout`` (0: it has none)."""
        return cls(
            queue=seconds(args.queue_timeout),
            provisioning=seconds(args.provisioning_timeout),
            deletion=seconds(args.delete_timeout),
            overall=timeout or math.inf,
        )
