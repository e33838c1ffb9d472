"""How long an API may go on refusing after it was enabled."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Seconds after which an enabled API answers everywhere. Google: "wait a few minutes"; seen were 55
#: to 120 s (skypilot-org/skypilot PR #1197, hashicorp/terraform-provider-google#11435).
SETTLED_AFTER = 300.0


@dataclass
class Settling:
    """The APIs of a project while they settle.

    Attributes:
        until: when they will have settled, on the monotonic clock of whoever asks. Until then
            SERVICE_DISABLED is worth a retry; afterwards it is final.
    """

    until: float = -math.inf

    def begin(self, now: float) -> None:
        """Some API was enabled a moment before ``now``."""
        self.until = now + SETTLED_AFTER
