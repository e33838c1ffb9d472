"""Artifact Registry v1: repositories and images. Registries: :mod:`embedded_cloud.registry`."""
