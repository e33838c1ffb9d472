"""Artifact Registry: its API, and the registries that docker and `doctor` ask for manifests."""
