"""Artifact Registry v1: repositories. The images in them: :mod:`embedded_cloud.registry`."""
