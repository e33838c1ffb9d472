"""An embedded cloud for gcloud."""

from __future__ import annotations

from tests.embedded_cloud.conftest import api, clock, cloud

__all__ = ["api", "clock", "cloud"]
