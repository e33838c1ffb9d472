"""Compute Engine API v1: networking, places, and virtual machine instances."""
