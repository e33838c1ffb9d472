"""The alert rules of a gateway, over what it counts itself."""

from __future__ import annotations

#: What the names of a gateway's metrics begin with.
PREFIX = "tpuflex_gateway_"
#: Edges of its histogram of times to the first token, in seconds: those that promises are made
#: about are among them.
FIRST_TOKEN_EDGES = (0.1, 0.25, 0.5, 0.8, 1.0, 1.5, 2.0, 5.0, 10.0, 30.0)
