"""Putting a broken run right."""
