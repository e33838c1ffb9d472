"""Compute Engine API v1: networks, subnetworks, routers, firewalls, addresses, places."""
