"""The environment that points every API to one address on loopback."""

from __future__ import annotations

from tpuflex.gcp.endpoints import API_PATHS, OVERRIDES


def overrides(url: str) -> dict[str, str]:
    """gcloud's override variables of all APIs, as `tpuflex emulator env` prints them."""
    return {variable: f"{url}{API_PATHS.get(name, '')}/" for name, variable in OVERRIDES.items()}
