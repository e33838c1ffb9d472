"""What a host tells its docker by variables. Nothing is imported: each docker command is a process,
and a host runs many."""

from __future__ import annotations

#: Where images are asked for.
REGISTRY_VARIABLE = "TPUFLEX_REGISTRY"

#: Set where containers have mounts of their own.
OWN_MOUNTS_VARIABLE = "TPUFLEX_OWN_MOUNTS"
