"""Compute Engine API v1: networks, subnetworks, routers, firewalls, addresses, places."""

from __future__ import annotations

from embedded_cloud.compute.routes import service

__all__ = ["service"]
