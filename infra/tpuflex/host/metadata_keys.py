"""The keys of a node's metadata that its hosts read."""

from __future__ import annotations

#: Under this one every host finds what to serve (:mod:`tpuflex.boot.document`).
CONFIG_KEY = "tpuflex-config"

#: This one asks it to drain; its value says until when it is waited for (RFC 3339).
DRAIN_KEY = "tpuflex-drain"
