"""An embedded cloud for gcloud, and a project for what doctor says of it."""

from __future__ import annotations

from tests.cli.conftest import project
from tests.embedded_cloud.conftest import api, clock, cloud

__all__ = ["api", "clock", "cloud", "project"]
