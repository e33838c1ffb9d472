"""Compute Engine API v1: networking and places."""
